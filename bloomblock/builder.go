package bloomblock

import (
	"fmt"
	"math"
	"slices"
)

// chunk is the number of hashes in one allocation, so that adding a hash never moves others.
const chunk = 8 << 10

// A Builder collects the hashes of a table's keys and writes its filter block. The zero value is ready. The order of
// calls is
//
//	(Add* AppendBlock* Reset)*
//
// The filter is sized when it is written, from the number of hashes, so the number need not be known before. Until
// then a hash takes 8 bytes. A Builder is for one goroutine at a time.
type Builder struct {
	// Seed is the seed of the blocks to be written. Reset keeps it.
	Seed Seed
	// Scratch, if it is not nil, holds the hashes of large sets, and the equations of large Ribbon units while they are
	// solved. Reset keeps it.
	Scratch Scratch

	chunks [][]Hash // all chunks in use except the last are full; empty ones follow
	n      int
	last   Hash
	ribbon solver
	whole  []byte // a unit, before it is cut into parts
}

// Add adds a key's hash, unless it equals the one added before: several versions of a key are added in succession.
func (b *Builder) Add(h Hash) {
	if b.n > 0 && b.last == h {
		return
	}
	i := b.n / chunk
	if i == len(b.chunks) {
		b.chunks = append(b.chunks, b.newChunk())
	}
	b.chunks[i] = append(b.chunks[i], h)
	b.n++
	b.last = h
}

// newChunk returns memory for hashes. Most sets are small: the first chunk grows.
func (b *Builder) newChunk() []Hash {
	switch {
	case b.n == 0:
		return nil
	case b.Scratch != nil:
		return b.Scratch.Hashes(chunk)[:0]
	default:
		return make([]Hash, 0, chunk)
	}
}

// Len returns the number of hashes to be written.
func (b *Builder) Len() int { return b.n }

// Reset forgets all hashes. It keeps their memory for the next ones, but not what Scratch has lent.
func (b *Builder) Reset() {
	if b.Scratch != nil {
		b.chunks = b.chunks[:min(len(b.chunks), 1)]
	}
	for i := range b.chunks {
		b.chunks[i] = b.chunks[i][:0]
	}
	b.n = 0
}

// blocks returns the number of blocks in a unit: at least one, so that a filter without keys has bits that deny.
func (u Unit) blocks(keys uint64) uint64 {
	return max(1, uint64(math.Ceil(float64(keys)*u.BitsPerKey/blockBits)))
}

// Header describes the filter that a Builder writes for the given number of keys, without building it: the header of
// the block, except for the seed and the checksums. It assumes hashes that do not crowd, and a Ribbon unit that the
// first attempt builds, as it usually does.
func (p Params) Header(keys uint64) Header {
	h := Header{Keys: keys}
	if each, parts := p.inParts(keys); parts > 0 {
		h.putInParts(p, each, parts)
	} else {
		h.putUnits(p)
	}
	h.paged = h.UnitsSize() > pageBytes
	return h
}

// putUnits puts units one after the other.
func (h *Header) putUnits(p Params) {
	for i := range p.n {
		u := p.bloom(i, h.Keys)
		if i == 0 && p.ribbon && h.Keys <= maxRibbonKeys {
			if s, blocks := planRibbon(h.Keys, u.Rate*ribbonMargin, usualOverhead); blocks < u.Blocks {
				u = UnitHeader{Blocks: blocks, Rate: u.Rate}
				u.Columns, u.Overhead = int(s.columns), usualOverhead //nolint:gosec // ≤ maxColumns
			}
		}
		h.Units = append(h.Units, u)
	}
	h.place()
}

// bloom describes unit i as a Bloom unit.
func (p Params) bloom(i int, keys uint64) UnitHeader {
	blocks := p.units[i].blocks(keys)
	return UnitHeader{Blocks: blocks, Probes: bestProbes(keys, blocks, p.units[i]), Rate: p.rates[i]}
}

// AppendBlock appends the filter block of all added hashes to dst and returns the extended slice. For Params without
// units the block is a header without a filter. The units are aligned to 64 bytes within the block: if the caller also
// aligns the block, in the file and in memory, each probe touches one cache line and not two.
//
// AppendBlock measures the bits that it has set. If they let through more than p promises, by more than chance
// explains, because the hashes crowd into a part of the filter, it builds the block again with a random seed, at most
// twice. If the rate is still missed, the header has the real rate instead of the promised one.
//
// The same hashes in the same order with the same Seed and Params give the same bytes on every machine, unless the
// hashes crowd.
func (b *Builder) AppendBlock(dst []byte, p Params) []byte {
	start, seed := len(dst), b.Seed
	for try := 1; ; try++ {
		h := p.Header(uint64(b.n)) //nolint:gosec // a length
		h.Seed = seed
		var crowded bool
		dst, crowded = b.appendUnits(append(dst[:start], make([]byte, HeaderSize)...), &h, p)
		if !crowded || try == maxSeeds {
			return h.finish(dst, start)
		}
		seed = NewSeed()
	}
}

// finish appends the checksums of pages, if there are several, to the units of the block that begins at start, and
// writes the header.
func (h *Header) finish(dst []byte, start int) []byte {
	units := dst[start+HeaderSize:]
	if h.paged = len(units) > pageBytes; h.paged {
		dst = appendSums(dst, units)
		dst = append(dst, make([]byte, -len(dst[start:])&(blockBytes-1))...)
		h.sums = checksum(dst[start+HeaderSize+len(units):])
	}
	h.put(dst[start:])
	return dst
}

// maxSeeds is the number of seeds that a Builder tries. Hashes that crowd under one seed have no reason to crowd under
// the next.
const maxSeeds = 3

// appendUnits appends the units that h plans to a header, and sets their checksums. It reports whether one misses its
// promised rate; then h has the real one.
func (b *Builder) appendUnits(dst []byte, h *Header, p Params) (longer []byte, crowded bool) {
	start := len(dst)
	if p.ribbon && h.Units[0].Columns > 0 {
		dst = b.appendRibbon(dst, h, p)
	}
	all := int(h.UnitsSize()) //nolint:gosec // about as large as hashes in memory
	dst, _ = grow(dst, (all-(len(dst)-start))/blockBytes)
	for i := range h.Units {
		u := &h.Units[i]
		parts, at := h.Parts(), dst[start:][u.Offset-HeaderSize:]
		bits := at
		if parts > 0 {
			b.whole, bits = grow(b.whole[:0], int(u.Blocks)) //nolint:gosec // less than all
		}
		bits = bits[:u.Bytes()]
		if u.Columns == 0 {
			b.fill(bits, h, i)
		}
		crowded = u.describe(bits, h.Keys) || crowded
		for part := range parts {
			n := u.Bytes() / parts
			copy(at[part*h.partBlocks()*blockBytes:][:n], bits[part*n:])
		}
	}
	return dst, crowded
}

// describe sets the checksum of a unit with the given bytes. It reports whether the unit misses its promised rate; then
// Rate becomes the real one.
func (u *UnitHeader) describe(bits []byte, keys uint64) (crowded bool) {
	u.CRC = checksum(bits)
	if u.Probes == 0 {
		return false
	}
	rate := bitsRate(bits, u.Probes)
	if plausible(rate, u.Rate, keys, u) {
		return false
	}
	u.Rate = min(rate, 1)
	return true
}

// roundedBy is the largest share of blocks that rounding up to parts of a whole, a half or a quarter of a page adds:
// these lie in one page each. Other parts add less, and most of them lie in two.
const roundedBy = 1.0 / 32

// inParts returns the number of blocks of each unit in a part, and the number of parts, if the units of a filter are to
// stand side by side. They do not, and parts is 0, if all are in one page, or if the uneven number of keys in parts
// would show in the rate. The parts are those with the fewest blocks that keep the promised rate.
func (p Params) inParts(keys uint64) (each [MaxUnits]uint64, parts uint64) {
	if !p.sideBySide || p.n < 2 || p.ribbon {
		return each, 0
	}
	all := uint64(0)
	for _, u := range p.units[:p.n] {
		all += u.blocks(keys)
	}
	if all <= pageBlocks {
		return each, 0
	}
	least := all + uint64(float64(all)*roundedBy) + 1
	for size := uint64(pageBlocks); size >= pageBlocks/4; size /= 2 {
		blocks := p.part(size)
		for n := (all + size - 1) / size; n*size < least; n += 1 + n/1024 {
			if p.keeps(keys, blocks, n) {
				each, parts, least = blocks, n, n*size
			}
		}
	}
	pages := (all + pageBlocks - 1) / pageBlocks
	for n := pages; n <= pages+1 && parts == 0; n++ {
		for size := (all + n - 1) / n; size <= pageBlocks && parts == 0; size++ {
			if blocks := p.part(size); p.keeps(keys, blocks, n) {
				each, parts = blocks, n
			}
		}
	}
	return each, parts
}

// part returns the blocks of each unit in a part of the given number of blocks: shares in proportion to their bits.
// That of a small unit may be 0, whose rate is no number, and keeps refuses it.
func (p Params) part(size uint64) (each [MaxUnits]uint64) {
	bits := p.BitsPerKey()
	for i, u := range p.units[:p.n] {
		each[i] = uint64(math.Round(float64(size) * u.BitsPerKey / bits))
		size, bits = size-each[i], bits-u.BitsPerKey
	}
	return each
}

// keeps reports whether units in parts keep the promised rate of the filter. The uneven number of keys in parts raises
// it: the rate of a unit grows at most as the power of its probes with the keys, so that of two grows with the variance
// of the keys of a part times the product of their probes.
func (p Params) keeps(keys uint64, each [MaxUnits]uint64, parts uint64) bool {
	rate, pairs := 1.0, 0
	for i, u := range p.units[:p.n] {
		rate *= quickRate(keys, each[i]*parts, u.Probes)
		for _, v := range p.units[:i] {
			pairs += u.Probes * v.Probes
		}
	}
	uneven := float64(pairs) * float64(parts) / float64(keys)
	return uneven <= unevenParts && rate*(1+uneven) <= p.Rate()
}

// unevenParts is the largest share by which the uneven number of keys in parts may raise the rate of a filter.
const unevenParts = 0.02

// putInParts puts units side by side, with the given number of blocks of each in a part. They have other shares of the
// bits than in p, and so other rates, of which each gets the same power: together they promise what p does.
func (h *Header) putInParts(p Params, each [MaxUnits]uint64, parts uint64) {
	h.parts = parts
	all := 1.0
	for i, n := range each[:p.n] {
		u := UnitHeader{Blocks: n * parts, Probes: bestProbes(h.Keys, n*parts, p.units[i])}
		u.Rate = quickRate(h.Keys, u.Blocks, u.Probes)
		all *= u.Rate
		h.Units = append(h.Units, u)
	}
	for i := range h.Units {
		u := &h.Units[i]
		u.Rate = rounded(math.Pow(u.Rate, math.Log(p.Rate())/math.Log(all)))
		if i == p.n-1 {
			u.Rate = p.Rate() / h.Rate(i)
		}
	}
	h.place()
}

// plausible reports whether a Bloom unit whose bits have the given rate keeps its promise, as far as chance allows. Few
// keys vary widely: a tenth and eight standard deviations are allowed.
func plausible(rate, promised float64, keys uint64, u *UnitHeader) bool {
	const slack, deviations = 1.1, 8
	if rate <= slack*promised {
		return true
	}
	return rate <= slack*promised+deviations*math.Sqrt(rateVar(keys, u.Blocks, u.Probes))
}

// bestProbes returns the number of probes of a unit with the given keys and blocks. It is that of u, except for few
// keys: if rounding up to whole blocks adds at least half a bit a key, it is raised as long as that lowers the rate.
func bestProbes(keys, blocks uint64, u Unit) int {
	probes := u.Probes
	if float64(blocks*blockBits) < float64(keys)*(u.BitsPerKey+minUnitBits) {
		return probes
	}
	for rate := quickRate(keys, blocks, probes); probes < MaxProbes && rate >= quickLow; probes++ {
		more := quickRate(keys, blocks, probes+1)
		if more >= rate {
			break
		}
		rate = more
	}
	return probes
}

// appendRibbon appends the bits of the first unit, a Ribbon. It measures the result: a unit that misses its rate by
// little gets a few more blocks; one that misses it by much, because keys crowd, or that has all the columns there are,
// gets more slots. If that would be larger than a Bloom unit, or cannot be built at a bounded cost, appendRibbon
// appends nothing, and h plans the Bloom unit.
func (b *Builder) appendRibbon(dst []byte, h *Header, p Params) []byte {
	b.ribbon.scratch = b.Scratch
	defer b.ribbon.end()
	defer h.place()
	u, most, start := &h.Units[0], p.units[0].blocks(h.Keys), len(dst)
	rate, overhead := u.Rate, u.Overhead
	target, steps, solved := rate*ribbonMargin, maxStepsPerKey*b.n, 0
	for overhead <= maxOverhead {
		shape, blocks := planRibbon(h.Keys, target, overhead)
		if blocks >= most {
			break
		}
		r := ribbon{ribbonShape: shape}
		dst, r.bits = grow(dst[:start], int(blocks)) //nolint:gosec // fewer than those of a Bloom unit
		if solved != overhead {
			// More blocks alone change no equation.
			if steps = b.ribbon.eliminate(&r, b.chunks, h.Seed, steps); steps < 0 {
				break
			}
			solved = overhead
		}
		b.ribbon.substitute(&r)
		measured := r.sampledRate()
		if measured <= rate {
			u.Columns, u.Overhead, u.Blocks = int(shape.columns), overhead, blocks //nolint:gosec // ≤ maxColumns
			return dst
		}
		if measured < 1.05*rate && target > 0.9*rate && !shape.widest() {
			for next := shape; next == shape; {
				target *= ribbonMargin * rate / measured
				next, _ = planRibbon(h.Keys, target, overhead)
			}
		} else {
			target, overhead = rate*ribbonMargin, overhead+1+overhead/8
		}
	}
	*u = p.bloom(0, h.Keys)
	return dst[:start]
}

// maxRebuildSlots bounds the memory of Rebuild: 16 bytes a slot of a Ribbon unit.
const maxRebuildSlots = 1 << 27

// Rebuild returns the bytes of each unit that h describes, built from the added hashes with its numbers of blocks and
// of probes, or of columns and overhead. If h is the header of a block that was built from the same hashes, the units
// are those of the block, as Split returns them; bits that differ show what is wrong with the block. The error matches
// ErrParams if h describes no filter, or a Ribbon unit of more than 2²⁷ slots, for which Rebuild takes 16 bytes each.
func (b *Builder) Rebuild(h Header) ([][]byte, error) {
	b.ribbon.scratch = b.Scratch
	defer b.ribbon.end()
	units := make([][]byte, len(h.Units))
	for i := range h.Units {
		u := &h.Units[i]
		shape, ribboned, ok := h.shape(i)
		if !ok || shape.starts > maxRebuildSlots {
			return nil, fmt.Errorf("%w: unit %d: %d blocks, %d probes, %d columns, %d slots, want at most %d",
				ErrParams, i, u.Blocks, u.Probes, u.Columns, shape.starts, maxRebuildSlots)
		}
		units[i] = make([]byte, u.Bytes())
		if ribboned {
			r := ribbon{shape, units[i]}
			b.ribbon.eliminate(&r, b.chunks, h.Seed, math.MaxInt)
			b.ribbon.substitute(&r)
		} else {
			b.fill(units[i], &h, i)
		}
	}
	return units, nil
}

// grow appends zeroed blocks to dst.
func grow(dst []byte, blocks int) (longer, added []byte) {
	start := len(dst)
	dst = slices.Grow(dst, blocks*blockBytes)[:start+blocks*blockBytes]
	clear(dst[start:])
	return dst, dst[start:]
}

// fill sets the bits of the added hashes in unit i of h, a Bloom unit.
func (b *Builder) fill(payload []byte, h *Header, i int) {
	for _, hashes := range b.chunks {
		h.fill(payload, hashes, h.blooms(i), &h.Units[i])
	}
}

// fill sets the bits of hashes in the payload of the nth Bloom unit, which u describes.
func (h *Header) fill(payload []byte, hashes []Hash, nth int, u *UnitHeader) {
	// Copies, since for all the compiler knows payload is the header.
	seed, probes, parts, unit := h.Seed, u.Probes, h.Parts(), h.bloom(nth, u, 0)
	for _, hash := range hashes {
		hash = seed.Mix(hash)
		part := uint64(0)
		if nth > 0 {
			part = hash.Block(parts)
			for range nth {
				hash = hash.Next()
			}
		}
		line := (*[blockBytes]byte)(payload[unit.at(hash, part):])
		x, y := hash.Fields()
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
