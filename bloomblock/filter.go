package bloomblock

import (
	"encoding/binary"
	"math/bits"
	"runtime"
	"sync"
)

// A Filter is a parsed block, or a part of one. It is immutable and safe for concurrent use; the zero value has no
// units and answers maybe.
//
// The owner of the memory of its bits may free it once the Filter is garbage: methods keep it alive while they read
// them. Methods take a pointer because a copy would cost as much as a probe.
type Filter struct {
	seed  Seed
	n     int // number of Bloom units
	units [MaxUnits]unit

	ribbon *ribbon // the first unit, if it is a Ribbon; not among units
	parts  uint64  // of Bloom units side by side; otherwise 0
	keys   uint64

	figures *figures // nil if there are no units
}

// figures are what no probe needs to know about a filter.
type figures struct {
	once sync.Once
	rate float64 // of the bits, measured when it is first needed
}

// A unit has 1..MaxProbes probes, and folded()·64 bytes of bits. Header.Filter or Reduce has checked both, so a probe
// cannot fail.
type unit struct {
	bits   []byte
	scale  uint64 // see line and within
	blocks uint64 // in the file
	probes int32
	folds  uint8 // 0..maxFolds: each halves the blocks in memory
	absent bool  // see absentUnit
}

// bloom returns a Bloom unit without bits, folded the given number of times. i is its index among the Bloom units.
func (h *Header) bloom(i int, u *UnitHeader, folds uint8) unit {
	blocks := u.Blocks
	if i > 0 && h.sideBySide() {
		blocks /= h.parts
	}
	return unit{
		scale: blocks << (blockShift - folds), blocks: u.Blocks,
		probes: int32(u.Probes), folds: folds, //nolint:gosec // ≤ MaxProbes
	}
}

// folded returns the number of blocks in memory.
func (u *unit) folded() uint64 { return (u.blocks-1)>>u.folds + 1 }

// MayContain reports whether the key with hash h (see HashKey) may have been added. False is certain; true is wrong
// for about FalsePositiveRate of the absent keys. It never fails, never allocates, and is safe for concurrent use.
func (f *Filter) MayContain(h Hash) bool { return f.mayContain(f.seed.Mix(h)) }

// mayContain implements MayContain for a mixed hash.
//
// A unit makes four probes, branches once, makes all others and branches again. A branch for each probe is
// mispredicted about once in a lookup of an absent key, which costs more than the probes it saves (Ross, "Conjunctive
// Selection Conditions in Main Memory", PODS 2002); with no branch before the last, every lookup of an absent key pays
// for all probes. After four probes some 24 of 25 absent keys are rejected, so the branch is predicted well.
//
// A Ribbon unit is probed last, since it costs most.
//
// The probes are written out because every lookup of a store runs this function, often a dozen times: a loop over them
// takes a third longer, and a call for each unit a tenth. Masked indices need no bounds checks.
func (f *Filter) mayContain(h Hash) bool {
	asked := h
	if f.n == 0 {
		return f.passesRibbon(asked)
	}
	line := f.units[0].line(h)
	for i := 0; ; {
		u := &f.units[i]
		x := uint64(h) * mulFields // Fields
		all := probe(line, x)
		if u.probes > 1 {
			all &= probe(line, x>>9)
		}
		if u.probes > 2 {
			all &= probe(line, x>>18)
		}
		if u.probes > 3 {
			all &= probe(line, x>>27)
		}
		if all&1 == 0 {
			return false
		}
		switch u.probes {
		case 1, 2, 3, 4:
		default:
			_, y := h.Fields()
			for range u.probes - wordFields {
				all &= probe(line, y)
				y >>= fieldBits
			}
			fallthrough
		case 7:
			all &= probe(line, x>>54)
			fallthrough
		case 6:
			all &= probe(line, x>>45)
			fallthrough
		case 5:
			all &= probe(line, x>>36)
		}
		if all&1 == 0 {
			return false
		}
		if i++; i == f.n {
			return f.passesRibbon(asked)
		}
		h = h.Next()
		line = f.units[i].within(h, asked.Block(f.parts))
	}
}

// passesRibbon asks the Ribbon unit, if there is one.
func (f *Filter) passesRibbon(h Hash) bool {
	if f.ribbon == nil {
		return true
	}
	maybe := f.ribbon.mayContain(h)
	runtime.KeepAlive(f) // until its bits were read
	return maybe
}

// line returns the block of h in the first unit. Its offset in memory is h.Block(blocks) >> folds << blockShift.
// Rounding down once is rounding down at each step, so that is the high half of hash × blocks·2^(blockShift-folds),
// without its low bits: a unit that is folded takes no more time than one that is not.
func (u *unit) line(h Hash) *[blockBytes]byte {
	at := h.Block(u.scale) &^ (blockBytes - 1)
	return (*[blockBytes]byte)(u.bits[at : at+blockBytes : at+blockBytes]) // constant length: no masking
}

// within returns the block of h in a further unit; see at.
func (u *unit) within(h Hash, part uint64) *[blockBytes]byte {
	at := u.at(h, part)
	return (*[blockBytes]byte)(u.bits[at : at+blockBytes : at+blockBytes])
}

// at returns the offset in memory of the block of h in any unit. In a further unit of those that stand side by side, it
// is in the given part, that of the key's block in the first unit, and scale counts the blocks of a part. Otherwise the
// part is 0.
func (u *unit) at(h Hash, part uint64) uint64 {
	return (part*u.scale + h.Block(u.scale)) &^ (blockBytes - 1)
}

// probe returns the word of line that contains the bit at the low field of x, shifted so that this bit is the lowest.
func probe(line *[blockBytes]byte, x uint64) uint64 {
	i := wordOffset(x)
	return binary.LittleEndian.Uint64(line[i:i+8]) >> (x & 63)
}

// wordOffset returns the offset in a line of the word that contains the bit at the low field of x.
func wordOffset(x uint64) uint64 { return x >> 3 & (blockBytes - 8) }

// MayContainEach asks up to 32 filters for one key: bit i of the result is filters[i].MayContain(h.Hash), and set if
// filters[i] is nil. Filters whose seed is h.Seed need no further mixing.
//
// The fields of the key are computed once. The first probes of all filters, up to four, are made before any result is
// branched upon, so that a misprediction in one filter does not delay the next: their cache misses overlap. The number
// of probes is a property of the filters and not of the key, so branches on it wait for no memory.
func MayContainEach(filters []*Filter, h SeededHash) (maybe uint32) {
	if len(filters) == 1 && filters[0] != nil { // no other filter to overlap with
		if filters[0].mayContain(h.under(filters[0].seed)) {
			return 1
		}
		return 0
	}
	x0, _ := h.Mixed.Fields()
	x1, x2, x3 := x0>>fieldBits, x0>>(2*fieldBits), x0>>(3*fieldBits)
	w0, w1, w2, w3 := wordOffset(x0), wordOffset(x1), wordOffset(x2), wordOffset(x3)
	for i, f := range filters {
		all := uint64(1)
		if f != nil && f.seed == h.Seed && f.n > 0 {
			u := &f.units[0]
			line := u.line(h.Mixed)
			all = binary.LittleEndian.Uint64(line[w0:w0+8]) >> (x0 & 63)
			switch {
			case u.probes > 3:
				all &= binary.LittleEndian.Uint64(line[w1:w1+8]) >> (x1 & 63) &
					(binary.LittleEndian.Uint64(line[w2:w2+8]) >> (x2 & 63)) &
					(binary.LittleEndian.Uint64(line[w3:w3+8]) >> (x3 & 63))
			case u.probes == 3:
				all &= binary.LittleEndian.Uint64(line[w1:w1+8]) >> (x1 & 63) &
					(binary.LittleEndian.Uint64(line[w2:w2+8]) >> (x2 & 63))
			case u.probes == 2:
				all &= binary.LittleEndian.Uint64(line[w1:w1+8]) >> (x1 & 63)
			}
		}
		maybe |= uint32(all&1) << (i & 31)
	}
	for look := maybe; look != 0; look &= look - 1 {
		i := bits.TrailingZeros32(look)
		if f := filters[i]; f != nil && !f.mayContain(h.under(f.seed)) {
			maybe &^= 1 << i
		}
	}
	return maybe
}

// MayContainMany asks up to 64 filters, each for its own key: bit i of the result is
// filters[i].MayContain(hashes[i].Hash), and set if filters[i] is nil. As with MayContainEach, their cache misses
// overlap.
func MayContainMany(filters []*Filter, hashes []SeededHash) (maybe uint64) {
	hashes = hashes[:len(filters)]
	for i, f := range filters {
		all := uint64(1)
		if f != nil && f.seed == hashes[i].Seed && f.n > 0 {
			u := &f.units[0]
			line := u.line(hashes[i].Mixed)
			x, _ := hashes[i].Mixed.Fields()
			all = probe(line, x)
			switch {
			case u.probes > 3:
				all &= probe(line, x>>fieldBits) & probe(line, x>>(2*fieldBits)) & probe(line, x>>(3*fieldBits))
			case u.probes == 3:
				all &= probe(line, x>>fieldBits) & probe(line, x>>(2*fieldBits))
			case u.probes == 2:
				all &= probe(line, x>>fieldBits)
			}
		}
		maybe |= all & 1 << (i & 63)
	}
	for look := maybe; look != 0; look &= look - 1 {
		i := bits.TrailingZeros64(look)
		if f := filters[i]; f != nil && !f.mayContain(hashes[i].under(f.seed)) {
			maybe &^= 1 << i
		}
	}
	return maybe
}

// Units returns the number of units that are probed; with 0 every answer is maybe.
func (f *Filter) Units() int {
	n := 0
	if f.ribbon != nil {
		n = 1
	}
	for i := range f.n {
		if !f.units[i].absent {
			n++
		}
	}
	return n
}

// Keys returns the number of hashes that were added.
func (f *Filter) Keys() uint64 { return f.keys }

// Bytes returns the size of the units in memory.
func (f *Filter) Bytes() int {
	sum := 0
	if f.ribbon != nil {
		sum = len(f.ribbon.bits)
	}
	for _, u := range f.units[:f.n] {
		if !u.absent {
			sum += len(u.bits)
		}
	}
	return sum
}

// Seed returns the seed that the filter mixes into hashes.
func (f *Filter) Seed() Seed { return f.seed }

// FalsePositiveRate returns the false positive rate of the bits in memory, for keys whose hashes are independent of
// those that were added: exact for Bloom units, to about a percent for a Ribbon unit, and to two for units side
// by side. It is 1 without units. The first call counts the bits, at about the speed of memory.
func (f *Filter) FalsePositiveRate() float64 {
	m := f.figures
	if m == nil {
		return 1
	}
	m.once.Do(func() {
		defer runtime.KeepAlive(f)
		m.rate = 1
		if f.ribbon != nil {
			m.rate = f.ribbon.sampledRate()
		}
		for i := range f.n {
			m.rate *= f.units[i].rate()
		}
	})
	return m.rate
}

// rate returns the exact false positive rate of a unit's bits. The last block of a folded unit may replace fewer blocks
// than the others, so that fewer keys ask it.
func (u *unit) rate() float64 {
	probes := int(u.probes)
	rate := bitsRate(u.bits, probes)
	rest := u.blocks & (1<<u.folds - 1)
	if rest == 0 {
		return rate
	}
	each, last := float64(uint64(1)<<u.folds), bitsRate(u.bits[len(u.bits)-blockBytes:], probes)
	return (rate*float64(u.folded())*each - last*(each-float64(rest))) / float64(u.blocks)
}

// UnitBits are the figures of the bits of one unit in memory.
type UnitBits struct {
	Fill float64 // share of the bits that are set
	// Rate is the false positive rate, exact for random hashes: the mean over the blocks of (set bits / 512)^probes,
	// where the last block of a folded unit may count for less; for a Ribbon unit the mean over the starts of bands of
	// 2 to the power of minus the rank of the columns there.
	Rate float64
}

// UnitBits counts the bits of each unit, at about the speed of memory.
func (f *Filter) UnitBits() []UnitBits {
	defer runtime.KeepAlive(f)
	var units []UnitBits
	if r := f.ribbon; r != nil {
		units = append(units, UnitBits{Fill: fill(r.bits), Rate: r.measure(1)})
	}
	for i := range f.n {
		if u := &f.units[i]; !u.absent {
			units = append(units, UnitBits{Fill: fill(u.bits), Rate: u.rate()})
		}
	}
	return units
}

// fill returns the share of the bits of a unit that are set.
func fill(payload []byte) float64 {
	set := 0
	for b := payload; len(b) >= blockBytes; b = b[blockBytes:] {
		set += setBits(b)
	}
	return float64(set) / float64(8*len(payload))
}

// expectedRate returns the mean rate of filters with this number of keys, blocks and probes over all sets of keys, in
// the form that f has, to five digits for each unit that is not below quickLow. It is 1 without units.
func (f *Filter) expectedRate() float64 {
	rate := 1.0
	if f.ribbon != nil {
		rate = f.ribbon.rate()
	}
	for i := range f.n {
		if u := &f.units[i]; !u.absent {
			rate *= u.expectedRate(f.keys)
		}
	}
	return rate
}

// expectedRate returns the rate of a unit with the given number of keys, as quickRate does. A key is in a block of a
// folded unit with the probability of all blocks that it replaces.
func (u *unit) expectedRate(keys uint64) float64 {
	probes, blocks := int(u.probes), u.blocks
	if u.folds == 0 {
		return quickRate(keys, blocks, probes)
	}
	rate, n := 0.0, float64(blocks)
	rest := blocks & (1<<u.folds - 1)
	if all := blocks - rest; all > 0 {
		rate = float64(all) / n * shareRate(keys, float64(uint64(1)<<u.folds)/n, probes)
	}
	if rest > 0 {
		rate += float64(rest) / n * shareRate(keys, float64(rest)/n, probes)
	}
	return rate
}
