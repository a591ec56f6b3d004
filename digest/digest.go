// Package digest answers which keys a store may hold, without the store. A Digest consists of the filters, bounds and
// range tombstones that a store has at one moment: a few bits a key. It travels as bytes. Since tables never change, a
// Patch with the filters of new tables brings an older copy up to date.
//
// The store makes a digest and sends it:
//
//	d, err := db.Digest(ctx, bloomkv.DigestOptions{}) // package bloomkv
//	n, err := d.WriteTo(w)
//
// A peer reads it and asks it before it asks the store. For that it needs this package alone, which imports no engine:
//
//	d, err := digest.Read(r)
//	if d.MayContain(key) { … } // false is certain: the store does not have the key
//
// Later the peer sends the ID of its digest, and the store answers with a patch, if it has kept that digest:
//
//	patch, err := newer.Since(older) // at the store
//	n, err := patch.WriteTo(w)
//
//	patch, err := digest.ReadPatch(r) // at the peer
//	d, err = d.Apply(patch)
//
// New, Part and Range are for code that makes digests: bloomkv, or a program with sorted keys of its own.
//
// A digest contains the seed of the store's filters, the smallest and largest keys of tables, and the bounds of deleted
// ranges. With it anyone can test guesses of keys, and choose absent keys that the filters let through.
package digest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"sort"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/words"
)

var (
	// ErrMismatch means that a patch is for another digest, or that two digests are of different stores.
	ErrMismatch = errors.New("digests do not match")
	// ErrCorruption means that bytes are not a digest or patch: a checksum or a field is wrong. It is
	// bloomkv.ErrCorruption.
	ErrCorruption = corrupt.Err
	// ErrUnsupportedVersion means that a newer version of the library wrote the bytes. It is
	// bloomkv.ErrUnsupportedVersion.
	ErrUnsupportedVersion = corrupt.ErrUnsupportedVersion
)

// A Digest shows which keys a store may have held at one moment, without the store. It is immutable and safe for
// concurrent use.
type Digest struct {
	seed  bloomblock.Seed
	runs  [][]*Part // newest data first; the parts of a run ascend and do not overlap
	parts []*Part   // of all runs
	mark  []byte    // of the store; empty without one
	id    uint64
	keys  uint64
	rate  float64
}

// New returns a digest of the given parts, for code that makes digests. The seed is that of most filters; it also
// identifies the store. The runs are ordered by age, newest data first; the parts of a run ascend and do not overlap.
// The digest keeps the parts. The error describes an invalid part or order.
func New(seed bloomblock.Seed, runs [][]*Part) (*Digest, error) {
	d := &Digest{seed: seed, runs: runs, parts: slices.Concat(runs...)}
	for _, run := range runs {
		rate := 0.0
		for i, p := range run {
			if i > 0 && !run[i-1].endsBefore(p.Lo) {
				return nil, fmt.Errorf("part from %s overlaps the one before", words.Quoted(p.Lo))
			}
			if err := p.init(); err != nil {
				return nil, fmt.Errorf("part from %s: %w", words.Quoted(p.Lo), err)
			}
			d.keys += p.Keys
			rate = max(rate, p.rate())
		}
		d.rate += rate * (1 - d.rate) // of the keys that all newer runs deny
	}
	d.id = d.identity()
	return d, nil
}

// identity returns the id of the digest.
func (d *Digest) identity() uint64 {
	directory, _ := d.whole().encoded()
	return identity(d.seed, directory)
}

// whole returns the patch that leads to d from nothing, as which a digest is written.
func (d *Digest) whole() *Patch {
	p := &Patch{header: header{magic: magicDigest, seed: d.seed, id: d.id}, mark: d.mark}
	for _, run := range d.runs {
		for i, part := range run {
			p.steps = append(p.steps, step{part: part, first: i == 0})
		}
	}
	return p
}

// Marked returns a digest like d with the given mark, for code that makes digests. It has at most 256 bytes and is
// copied; one of length 0 is none.
func (d *Digest) Marked(mark []byte) (*Digest, error) {
	if len(mark) > maxMark {
		return nil, fmt.Errorf("mark of %d bytes, want at most %d", len(mark), maxMark)
	}
	marked := *d
	marked.mark = append([]byte(nil), mark...) // nil if there is none, as in a digest that was read
	marked.id = marked.identity()
	return &marked, nil
}

// Mark returns the mark that the store had, nil without one. It belongs to the digest and must not be changed. Of the
// data up to the mark, the digest has every key.
func (d *Digest) Mark() []byte { return d.mark }

// ID identifies the content of the digest, as an ETag does. Different digests have the same ID only by chance, with
// probability 2⁻⁶⁴, or 2⁻³² if they differ in nothing but the bits of a memtable's filter.
func (d *Digest) ID() uint64 { return d.id }

// Keys returns the largest number of keys that the store may have held. It counts all versions of a key, unless the
// digest was rebuilt.
func (d *Digest) Keys() uint64 { return d.keys }

// Rate returns the promised rate of false positives: the share of absent keys for which MayContain returns true, at
// most, in the mean over the seeds of stores. With few keys that of one store varies. Rate is 1 if some part has no
// filter, though that part only matters for keys within its bounds.
func (d *Digest) Rate() float64 { return d.rate }

// Runs returns the parts of the digest, in runs from the newest data to the oldest. They must not be changed.
func (d *Digest) Runs() [][]*Part { return d.runs }

// partRuns is the number of runs whose filters are asked together.
const partRuns = 32

// MayContain reports whether the store may have held key. False is certain. True is wrong for at most Rate of the
// keys that the store never held, and for deleted keys of which it still has older versions.
//
// It finds the part of each run by the bounds and asks their filters together, so that their cache misses overlap.
func (d *Digest) MayContain(key []byte) bool {
	h := d.seed.Hash(bloomblock.HashKey(key))
	for runs := d.runs; len(runs) > 0; {
		some := runs[:min(len(runs), partRuns)]
		runs = runs[len(some):]
		var parts [partRuns]*Part
		var filters [partRuns]*bloomblock.Filter
		there := uint32(0)
		for k, run := range some {
			i := sort.Search(len(run), func(i int) bool { return !run[i].endsBefore(key) })
			if i < len(run) && bytes.Compare(run[i].Lo, key) <= 0 {
				parts[k], filters[k] = run[i], &run[i].filter
				there |= 1 << k
			}
		}
		maybe := bloomblock.MayContainEach(filters[:len(some)], h)
		for look := there; look != 0; look &= look - 1 {
			k := bits.TrailingZeros32(look)
			switch p := parts[k]; {
			case p.Keys > 0 && maybe>>k&1 != 0:
				return true
			case p.deletes(key):
				return false
			}
		}
	}
	return false
}

// MayContainAny reports whether the store may have held at least one of the keys.
func (d *Digest) MayContainAny(keys [][]byte) bool { return slices.ContainsFunc(keys, d.MayContain) }

// Size returns the number of bytes that WriteTo writes.
func (d *Digest) Size() int64 { return d.whole().Size() }

// WriteTo writes the digest. It returns the number of bytes written and the error of w.
func (d *Digest) WriteTo(w io.Writer) (int64, error) { return d.whole().WriteTo(w) }

// Read reads what Digest.WriteTo wrote, and nothing behind it. The error for bytes that are not a digest matches
// ErrCorruption, the one for a later version ErrUnsupportedVersion, and errors of r are wrapped. Read allocates a
// bounded multiple of the bytes that r yields.
func Read(r io.Reader) (*Digest, error) {
	p, err := read(r, magicDigest)
	if err != nil {
		return nil, err
	}
	return new(Digest).patched(p)
}
