package commit

import (
	"bytes"
	"slices"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Reads are what a transaction has read of the store, all at one moment. The transaction commits only if it would read
// the same in its turn (I37). A few short keys need no memory of their own.
type Reads struct {
	At     tree.Moment // held by the caller
	Keys   [][]byte
	Ranges []Range
	Turn   *Turn // nil without one

	seen  tree.Moment // the last one at which the reads were the same as at At
	bytes []byte      // of the keys

	keyRoom  [2][]byte
	byteRoom [48]byte
}

// A Range is the range of keys [Lo, Hi); a nil Hi means no end.
type Range struct{ Lo, Hi []byte }

// Key adds a copy of a key. A key that is too long has no value, ever.
func (r *Reads) Key(key []byte) {
	if len(key) > batch.MaxKey {
		return
	}
	if r.Keys == nil {
		r.Keys, r.bytes = r.keyRoom[:0], r.byteRoom[:0]
	}
	n := len(r.bytes)
	r.bytes = append(r.bytes, key...) // earlier keys keep the memory that they have
	r.Keys = append(r.Keys, r.bytes[n:len(r.bytes):len(r.bytes)])
}

// Walked adds the range of keys [lo, hi), unless it is empty; a nil hi means no end. The slices belong to r.
func (r *Reads) Walked(lo, hi []byte) {
	if hi == nil || bytes.Compare(lo, hi) < 0 {
		r.Ranges = append(r.Ranges, Range{lo, hi})
	}
}

// sort sorts the keys and ranges, and joins ranges that overlap.
func (r *Reads) sort() {
	if len(r.Keys) > 1 {
		slices.SortFunc(r.Keys, bytes.Compare)
		r.Keys = slices.CompactFunc(r.Keys, bytes.Equal)
	}
	if len(r.Ranges) < 2 {
		return
	}
	slices.SortFunc(r.Ranges, func(a, b Range) int { return bytes.Compare(a.Lo, b.Lo) })
	joined := r.Ranges[:1]
	for _, next := range r.Ranges[1:] {
		last := &joined[len(joined)-1]
		switch {
		case last.Hi != nil && bytes.Compare(last.Hi, next.Lo) < 0:
			joined = append(joined, next)
		case last.Hi != nil && (next.Hi == nil || bytes.Compare(last.Hi, next.Hi) < 0):
			last.Hi = next.Hi
		}
	}
	r.Ranges = joined
}

// unchanged reports whether the reads are still the same in their turn. ops are the operations of their group that were
// written before. mu is held.
func (w *Writer) unchanged(r *Reads, ops []byte) (bool, error) {
	if touched, err := r.touchedBy(ops); err != nil || touched {
		return false, err
	}
	if s := w.Tree.Load(); tells(s, r) {
		return w.lastSeq == r.seen.Seq || !w.touched(s, r), nil
	}
	now, err := w.Tree.Now()
	if err != nil {
		return false, err
	}
	defer w.Tree.Release(now.State)
	return w.repeat(r, now)
}

// repeat repeats the reads at another moment and reports whether they are the same.
func (w *Writer) repeat(r *Reads, now tree.Moment) (bool, error) {
	for _, key := range r.Keys {
		if same, err := w.Values.SameKey(key, r.At, now); err != nil || !same {
			return false, err
		}
	}
	for _, rg := range r.Ranges {
		if same, err := w.Values.SameRange(rg.Lo, rg.Hi, r.At, now); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// tells reports whether two memtables have all that was written between the reads and state s: that of the reads, which
// their state holds even if it is flushed, and that of s. An ingest is in neither. It publishes its sequence before its
// state, so reads between the two have the sequence without the tables.
func tells(s *tree.State, r *Reads) bool {
	was := r.seen.State
	return s.Ingests == was.Ingests && s.Freezes-was.Freezes <= 1
}

// touched reports whether one of these memtables has something of the reads that is newer than they are. Both stay: the
// caller holds s, or the lock without which its memtable is not frozen.
func (w *Writer) touched(s *tree.State, r *Reads) bool {
	was := r.seen.State.Mem
	return w.touchedIn(s.Mem, r) || was != s.Mem && w.touchedIn(was, r)
}

// touchedIn reports whether a memtable has a version or a range tombstone of one of the keys, or in one of the ranges,
// that is newer than the reads.
func (w *Writer) touchedIn(mem *memtable.Table, r *Reads) bool {
	dels, since := mem.RangeDels(), r.seen.Seq
	for _, key := range r.Keys {
		if newer(mem, key, w.Values.Hash(key), since) {
			return true
		}
	}
	if len(r.Ranges) == 0 {
		return false
	}
	var c memtable.Cursor
	c.Reset(mem, ikey.MaxSeq)
	defer func() { _ = c.Close() }()
	for i := range r.Ranges {
		rg := &r.Ranges[i]
		for ok := c.SeekGE(ikey.Search(rg.Lo, ikey.MaxSeq)); ok && rg.before(c.Key().User); ok = c.Next() {
			if c.Key().Trailer.Seq() > since {
				return true
			}
		}
		for at := rg.Lo; dels != nil && rg.before(at); {
			_, end, newest := dels.Stretch(at, ikey.MaxSeq)
			if newest > since {
				return true
			}
			if end == nil {
				break
			}
			at = end
		}
	}
	return false
}

// before reports whether key is below the end of the range.
func (rg *Range) before(key []byte) bool { return rg.Hi == nil || bytes.Compare(key, rg.Hi) < 0 }

// touchedBy reports whether one of the operations is of one of the keys, or in one of the ranges.
func (r *Reads) touchedBy(ops []byte) (bool, error) {
	for len(ops) > 0 {
		kind, key, value, rest, err := batch.NextOp(ops)
		if err != nil {
			return false, err
		}
		ops = rest
		below := func(k []byte) bool { return bytes.Compare(k, key) <= 0 } // the key after key
		if kind == ikey.RangeDelete {
			below = (&Range{key, value}).before
		}
		if kind != ikey.Mark && r.overlap(key, below) {
			return true, nil
		}
	}
	return false, nil
}

// overlap reports whether a range that begins at lo has one of the keys, or overlaps one of the ranges. below reports
// whether a key at or after lo is in it.
func (r *Reads) overlap(lo []byte, below func(key []byte) bool) bool {
	i, _ := slices.BinarySearchFunc(r.Keys, lo, bytes.Compare)
	j, _ := slices.BinarySearchFunc(r.Ranges, lo, func(rg Range, lo []byte) int {
		if rg.before(lo) {
			return 1
		}
		return -1
	})
	return i < len(r.Keys) && below(r.Keys[i]) || j < len(r.Ranges) && below(r.Ranges[j].Lo)
}
