package bloomblock

import (
	"math"
	"slices"
)

// chunk is how many hashes lie in one piece of memory: to add another never moves more.
const chunk = 8 << 10

// A Builder collects the hashes of a table's keys and writes its filter block. The zero value is ready. The order of calls is
//
//	(Add* AppendBlock* Reset)*
//
// The filter is sized when it is written, from the number of hashes there are, so nobody has to guess it before. Until then
// a hash takes 8 bytes. A Builder is for one goroutine at a time.
type Builder struct {
	chunks [][]Hash // all but the last one in use are full; empty ones behind it
	n      int
	last   Hash
}

// Add adds a key's hash, unless it is equal to the one added before: several versions of a key come one after the other.
func (b *Builder) Add(h Hash) {
	if b.n > 0 && b.last == h {
		return
	}
	i := b.n / chunk
	if i == len(b.chunks) {
		b.chunks = append(b.chunks, make([]Hash, 0, min(i, 1)*chunk)) // most sets are small: the first one grows
	}
	b.chunks[i] = append(b.chunks[i], h)
	b.n++
	b.last = h
}

// Len is the number of hashes to be written.
func (b *Builder) Len() int { return b.n }

// Reset forgets all hashes and keeps the memory for the next ones.
func (b *Builder) Reset() {
	for i := range b.chunks {
		b.chunks[i] = b.chunks[i][:0]
	}
	b.n = 0
}

// BlockSize is the size in bytes of the block that AppendBlock would append.
func (b *Builder) BlockSize(p Params) int {
	size := HeaderSize
	for _, u := range p.units[:p.n] {
		size += b.blocks(u) * blockBytes
	}
	return size
}

// blocks is the number of blocks in a unit: at least one, so that a filter of no keys has bits to say no with.
func (b *Builder) blocks(u Unit) int {
	return max(1, int(math.Ceil(float64(b.n)*u.BitsPerKey/blockBits)))
}

// AppendBlock appends the filter block of all added hashes to dst and returns the longer slice. For Params without units that
// is a header which says that there is no filter. The units are aligned to 64 bytes within the block: a caller who also aligns
// the block, in the file and in the memory it is read into, has each probe touch one cache line and not two.
//
// The same hashes in the same order and the same Params give the same bytes on every machine.
func (b *Builder) AppendBlock(dst []byte, p Params) []byte {
	size := b.BlockSize(p)
	start := len(dst)
	dst = slices.Grow(dst, size)[:start+size]
	block := dst[start:]
	clear(block)

	h := Header{Keys: uint64(b.n)} //nolint:gosec // a length
	offset := HeaderSize
	for i, u := range p.units[:p.n] {
		n := b.blocks(u)
		payload := block[offset : offset+n*blockBytes]
		for _, hashes := range b.chunks {
			fill(payload, hashes, i, u.Probes)
		}
		h.Units = append(h.Units, UnitHeader{
			Probes: u.Probes,
			Blocks: uint64(n), //nolint:gosec // n ≥ 1
			Offset: uint64(offset),
			Rate:   p.rates[i],
			CRC:    checksum(payload),
		})
		offset += len(payload)
	}
	h.put(block)
	return dst
}

// fill sets the bits of hashes in the payload of unit number unit.
func fill(payload []byte, hashes []Hash, unit, probes int) {
	blocks := uint64(len(payload) / blockBytes)
	for _, h := range hashes {
		for range unit {
			h = h.Next()
		}
		i := h.Block(blocks) << blockShift
		line := (*[blockBytes]byte)(payload[i:])
		x, y := h.Fields()
		for range min(probes, wordFields) {
			line[x>>3&(blockBytes-1)] |= 1 << (x & 7)
			x >>= fieldBits
		}
		for range probes - wordFields {
			line[y>>3&(blockBytes-1)] |= 1 << (y & 7)
			y >>= fieldBits
		}
	}
}
