package bloomblock

import (
	"bytes"
	"fmt"
	"math/bits"
)

// maxRebuildSlots bounds the additional memory of a Rebuild: 16 bytes a slot of a Ribbon unit.
const maxRebuildSlots = 1 << 27

// A Rebuild builds the units of a filter block again, from its header and the hashes of its keys, and compares them.
// It uses the numbers of blocks and probes, or columns and overhead, that the Builder chose. It takes as much memory
// as the block, and for a Ribbon unit 16 bytes a slot; it does not keep hashes. The order of calls is
//
//	NewRebuild Add* Finish
//
// It is for one goroutine at a time.
type Rebuild struct {
	h      Header
	found  [][]byte // units
	built  [][]byte
	ribbon ribbon
	solver solver
	added  uint64
	last   Hash
	one    [1]Hash
}

// NewRebuild starts a Rebuild of block, which must not change before Finish. Only its header and its length are
// checked. The error is that of ParseHeader, or matches ErrParams if the Rebuild would take too much memory.
func NewRebuild(block []byte) (*Rebuild, error) {
	h, err := ParseHeader(block)
	if err != nil {
		return nil, err
	}
	if want := h.BlockSize(); uint64(len(block)) != want {
		return nil, damaged("%d bytes, want %d", len(block), want)
	}
	r := &Rebuild{h: h, found: h.Split(block[HeaderSize:][:h.UnitsSize()])}
	for _, unit := range r.found {
		r.built = append(r.built, make([]byte, len(unit)))
	}
	if len(h.Units) > 0 && h.Units[0].Columns > 0 {
		u := h.Units[0]
		shape, ok := shapeOf(h.Keys, u.Blocks, u.Columns, u.Overhead)
		if !ok || shape.starts > maxRebuildSlots {
			return nil, fmt.Errorf("%w: a Ribbon of %d slots, want at most %d",
				ErrParams, shape.starts, maxRebuildSlots)
		}
		r.ribbon.ribbonShape = shape
		r.solver.begin(&r.ribbon)
	}
	return r, nil
}

// Add adds a key's hash, in the same order as to the Builder, unless it equals the one before.
func (r *Rebuild) Add(h Hash) {
	if r.added > 0 && r.last == h {
		return
	}
	r.added, r.last, r.one[0] = r.added+1, h, h
	mixed := r.h.Seed.Mix(h)
	blooms := 0
	for i := range r.h.Units {
		u := &r.h.Units[i]
		if u.Columns > 0 {
			r.solver.add(mixed.band(r.ribbon.starts))
			continue
		}
		r.h.fill(r.built[i], r.one[:], blooms, u)
		blooms++
	}
}

// A Difference describes how a filter block differs from one built again from its keys. If they are equal, all fields
// except Keys are zero.
type Difference struct {
	Keys    uint64   `json:"keys"`               // hashes added to the new filter
	Missing uint64   `json:"bits_missing"`       // set only in the new filter: a Bloom unit denies keys
	Extra   uint64   `json:"bits_extra"`         // set only in the block: by keys that are not there
	Units   []uint64 `json:"units"`              // bits that differ, by unit
	First   *uint64  `json:"first_at,omitempty"` // offset of the first byte that differs, from the start of the block
}

// Finish compares the blocks. The Rebuild must not be used afterwards.
func (r *Rebuild) Finish() Difference {
	d := Difference{Keys: r.added, Units: make([]uint64, len(r.h.Units))}
	for i := range r.h.Units {
		built, found := r.built[i], r.found[i]
		if r.h.Units[i].Columns > 0 {
			r.ribbon.bits = built
			r.solver.substitute(&r.ribbon)
		}
		if bytes.Equal(built, found) {
			continue
		}
		for at := range built {
			b, f := built[at], found[at]
			if b != f && d.First == nil {
				d.First = new(r.h.BlockOffset(i, uint64(at/blockBytes)) + uint64(at%blockBytes))
			}
			missing, extra := bits.OnesCount8(b&^f), bits.OnesCount8(f&^b)
			d.Missing += uint64(missing)          //nolint:gosec // a count
			d.Extra += uint64(extra)              //nolint:gosec // a count
			d.Units[i] += uint64(missing + extra) //nolint:gosec // a count
		}
	}
	return d
}
