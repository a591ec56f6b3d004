package filterexam

import (
	"bytes"
	"fmt"
	"math/bits"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// A Difference describes how a filter block differs from one built again from its keys. If they are equal, all fields
// except Keys are zero.
type Difference struct {
	Keys    uint64   `json:"keys"`               // hashes added to the new filter
	Missing uint64   `json:"bits_missing"`       // set only in the new filter: a Bloom unit denies keys
	Extra   uint64   `json:"bits_extra"`         // set only in the block: by keys that are not there
	Units   []uint64 `json:"units"`              // bits that differ, by unit
	First   *uint64  `json:"first_at,omitempty"` // offset of the first byte that differs, from the start of the block
}

// Compare compares a filter block with one that is built again, with the same header, from the hashes that were added
// to b in the same order. It takes as much memory as the block, and for a Ribbon unit 16 bytes a slot. Only the header
// of block and its length are checked. The error is that of ParseHeader or of Builder.Rebuild.
func Compare(block []byte, b *bloomblock.Builder) (Difference, error) {
	h, err := bloomblock.ParseHeader(block)
	if err != nil {
		return Difference{}, err
	}
	if want := h.BlockSize(); uint64(len(block)) != want {
		return Difference{}, fmt.Errorf("%w: %d bytes, want %d", bloomblock.ErrDamaged, len(block), want)
	}
	again, err := b.Rebuild(h)
	if err != nil {
		return Difference{}, err
	}
	d := Difference{Keys: uint64(b.Len()), Units: make([]uint64, len(h.Units))} //nolint:gosec // a length
	for i, found := range h.Split(block[bloomblock.HeaderSize:][:h.UnitsSize()]) {
		if bytes.Equal(again[i], found) {
			continue
		}
		for at := range found {
			b, f := again[i][at], found[at]
			if b != f && d.First == nil {
				d.First = new(BlockOffset(&h, i, uint64(at/blockBytes)) + uint64(at%blockBytes))
			}
			missing, extra := bits.OnesCount8(b&^f), bits.OnesCount8(f&^b)
			d.Missing += uint64(missing)          //nolint:gosec // a count
			d.Extra += uint64(extra)              //nolint:gosec // a count
			d.Units[i] += uint64(missing + extra) //nolint:gosec // a count
		}
	}
	return d, nil
}
