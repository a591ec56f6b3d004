package bloomblock

import (
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

	chunks [][]Hash // all chunks in use except the last are full; empty ones follow
	n      int
	last   Hash
	ribbon solver
}

// Add adds a key's hash, unless it equals the one added before: several versions of a key are added in succession.
func (b *Builder) Add(h Hash) {
	if b.n > 0 && b.last == h {
		return
	}
	i := b.n / chunk
	if i == len(b.chunks) {
		b.chunks = append(b.chunks, make([]Hash, 0, min(i, 1)*chunk)) // most sets are small: the first chunk grows
	}
	b.chunks[i] = append(b.chunks[i], h)
	b.n++
	b.last = h
}

// Len returns the number of hashes to be written.
func (b *Builder) Len() int { return b.n }

// Reset forgets all hashes and keeps the memory for the next ones.
func (b *Builder) Reset() {
	for i := range b.chunks {
		b.chunks[i] = b.chunks[i][:0]
	}
	b.n = 0
}

// blocks returns the number of blocks in a unit: at least one, so that a filter without keys has bits that deny.
func (b *Builder) blocks(u Unit) int {
	return max(1, int(math.Ceil(float64(b.n)*u.BitsPerKey/blockBits)))
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
		dst = append(dst[:start], make([]byte, HeaderSize)...)
		h := Header{Keys: uint64(b.n), Seed: seed} //nolint:gosec // a length
		var crowded bool
		dst, crowded = b.appendUnits(dst, &h, p)
		if !crowded || try == maxSeeds {
			h.put(dst[start:])
			return dst
		}
		seed = NewSeed()
	}
}

// maxSeeds is the number of seeds that a Builder tries. Hashes that crowd under one seed have no reason to crowd under
// the next.
const maxSeeds = 3

// appendUnits appends the units of a filter and describes them in h. It reports whether one misses its promised rate;
// then h has its real rate.
func (b *Builder) appendUnits(dst []byte, h *Header, p Params) (longer []byte, crowded bool) {
	start, blooms := len(dst)-HeaderSize, 0
	for i := range p.n {
		offset := len(dst)
		var u UnitHeader
		built := false
		if i == 0 && p.ribbon {
			dst, u, built = b.appendRibbon(dst, h.Seed, p)
		}
		if !built {
			dst, u = b.appendBloom(dst, h.Seed, blooms, p.units[i])
			blooms++
		}
		u.Offset = uint64(offset - start) //nolint:gosec // offset > start
		u.Rate, u.CRC = p.rates[i], checksum(dst[offset:])
		if u.Probes > 0 {
			if rate := censusOf(dst[offset:]).rate(u.Probes); !plausible(rate, u.Rate, h.Keys, &u) {
				u.Rate, crowded = min(rate, 1), true
			}
		}
		h.Units = append(h.Units, u)
	}
	return dst, crowded
}

// plausible reports whether a Bloom unit whose bits have the given rate keeps its promise, as far as chance allows. Few
// keys vary widely: a tenth and eight standard deviations are allowed.
func plausible(rate, promised float64, keys uint64, u *UnitHeader) bool {
	const slack, deviations = 1.1, 8
	if rate <= slack*promised {
		return true
	}
	return rate <= slack*promised+deviations*math.Sqrt(theoryOf(keys, u.Blocks, u.Probes).rateVar())
}

// appendBloom appends the bits of the nth Bloom unit of a filter.
func (b *Builder) appendBloom(dst []byte, seed Seed, nth int, u Unit) ([]byte, UnitHeader) {
	blocks := b.blocks(u)
	probes := bestProbes(uint64(b.n), uint64(blocks), u) //nolint:gosec // lengths
	dst, payload := grow(dst, blocks)
	for _, hashes := range b.chunks {
		fill(payload, hashes, seed, nth, probes)
	}
	return dst, UnitHeader{Probes: probes, Blocks: uint64(blocks)} //nolint:gosec // ≥ 1
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

// appendRibbon appends the bits of the first unit as a Ribbon, if that is smaller than a Bloom unit and can be built
// at a bounded cost. It measures the result: a unit that misses its rate by little gets a few more blocks; one that
// misses it by much, because keys crowd, gets more slots.
func (b *Builder) appendRibbon(dst []byte, seed Seed, p Params) (longer []byte, u UnitHeader, ok bool) {
	start, rate := len(dst), p.rates[0]
	bloom := uint64(b.blocks(p.units[0])) //nolint:gosec // ≥ 1
	target, overhead := rate*ribbonMargin, usualOverhead
	steps := maxStepsPerKey * b.n
	solved := 0
	for overhead <= maxOverhead && uint64(b.n) <= maxRibbonKeys { //nolint:gosec // a length
		shape, blocks := planRibbon(uint64(b.n), target, overhead) //nolint:gosec // a length
		if blocks >= bloom {
			break
		}
		r := ribbon{ribbonShape: shape}
		dst, r.bits = grow(dst[:start], int(blocks)) //nolint:gosec // fewer than those of a Bloom unit
		if solved != overhead {
			// More blocks alone change no equation.
			if steps = b.ribbon.eliminate(&r, b.chunks, seed, steps); steps < 0 {
				break
			}
			solved = overhead
		}
		b.ribbon.substitute(&r)
		measured := r.sampledRate()
		if measured <= rate {
			columns := int(shape.columns) //nolint:gosec // ≤ maxColumns
			return dst, UnitHeader{Columns: columns, Overhead: overhead, Blocks: blocks}, true
		}
		if measured < 1.05*rate && target > 0.9*rate {
			for next := shape; next == shape; {
				target *= ribbonMargin * rate / measured
				next, _ = planRibbon(uint64(b.n), target, overhead) //nolint:gosec // a length
			}
		} else {
			target, overhead = rate*ribbonMargin, overhead+1+overhead/8
		}
	}
	return dst[:start], UnitHeader{}, false
}

// grow appends zeroed blocks to dst.
func grow(dst []byte, blocks int) (longer, added []byte) {
	start := len(dst)
	dst = slices.Grow(dst, blocks*blockBytes)[:start+blocks*blockBytes]
	clear(dst[start:])
	return dst, dst[start:]
}

// fill sets the bits of hashes in the payload of the nth Bloom unit.
func fill(payload []byte, hashes []Hash, seed Seed, nth, probes int) {
	blocks := uint64(len(payload) / blockBytes)
	for _, h := range hashes {
		h = seed.Mix(h)
		for range nth {
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
