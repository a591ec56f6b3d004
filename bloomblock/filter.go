package bloomblock

import (
	"encoding/binary"
	"math/bits"
	"sync"
)

// A Filter is a parsed block, or the first units of one. It is immutable and safe for concurrent use; the zero value
// has no units and answers maybe.
//
// Methods take a pointer because a copy would cost as much as a probe.
type Filter struct {
	n      int     // number of Bloom units
	ribbon *ribbon // the first unit, if it is a Ribbon; not among units
	units  [MaxUnits]unit
	seed   Seed
	keys   uint64

	measured *measuredOnce // nil if there are no units
}

// A measuredOnce holds the rate of a filter's bits, which is measured when it is first needed.
type measuredOnce struct {
	once sync.Once
	rate float64
}

// A unit has blocks·64 bytes of bits and 1..MaxProbes probes. Header.Filter has checked both, so a probe cannot fail.
type unit struct {
	bits   []byte
	blocks uint64
	probes int
}

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
	for i := range f.n {
		u := &f.units[i]
		line := u.line(h)
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
			h = h.Next()
			continue
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
		h = h.Next()
	}
	return f.ribbon == nil || f.ribbon.mayContain(asked)
}

// line returns the block of h.
func (u *unit) line(h Hash) *[blockBytes]byte {
	at := h.Block(u.blocks) << blockShift
	return (*[blockBytes]byte)(u.bits[at : at+blockBytes : at+blockBytes]) // constant length: no masking
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
// The fields of the key are computed once. The first probes of all filters are made before any result is branched
// upon, so that a misprediction in one filter does not delay the next: their cache misses overlap.
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
		if f != nil && f.seed == h.Seed && f.n > 0 && f.units[0].probes > 3 {
			line := f.units[0].line(h.Mixed)
			all = binary.LittleEndian.Uint64(line[w0:w0+8]) >> (x0 & 63) &
				(binary.LittleEndian.Uint64(line[w1:w1+8]) >> (x1 & 63)) &
				(binary.LittleEndian.Uint64(line[w2:w2+8]) >> (x2 & 63)) &
				(binary.LittleEndian.Uint64(line[w3:w3+8]) >> (x3 & 63))
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
		if f != nil && f.seed == hashes[i].Seed && f.n > 0 && f.units[0].probes > 3 {
			line := f.units[0].line(hashes[i].Mixed)
			x, _ := hashes[i].Mixed.Fields()
			all = probe(line, x) & probe(line, x>>fieldBits) &
				probe(line, x>>(2*fieldBits)) & probe(line, x>>(3*fieldBits))
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
	if f.ribbon != nil {
		return f.n + 1
	}
	return f.n
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
		sum += len(u.bits)
	}
	return sum
}

// Seed returns the seed that the filter mixes into hashes.
func (f *Filter) Seed() Seed { return f.seed }

// FalsePositiveRate returns the false positive rate of the bits in memory, for keys whose hashes are independent of
// those that were added: exact for Bloom units, to about a percent for a Ribbon unit. It is 1 without units. The first
// call counts the bits, at about the speed of memory.
func (f *Filter) FalsePositiveRate() float64 {
	m := f.measured
	if m == nil {
		return 1
	}
	m.once.Do(func() {
		m.rate = 1
		if f.ribbon != nil {
			m.rate = f.ribbon.sampledRate()
		}
		for i := range f.n {
			m.rate *= censusOf(f.units[i].bits).rate(f.units[i].probes)
		}
	})
	return m.rate
}

// ExpectedRate returns the mean rate of filters with this number of keys, blocks and probes over all sets of keys, to
// five digits. It is 1 without units. It takes microseconds, or milliseconds if a unit's rate is below 10⁻⁷.
func (f *Filter) ExpectedRate() float64 { return f.expectedRate(quickLow) }

// expectedRate returns ExpectedRate, with rates of units below exactBelow computed exactly, which takes milliseconds.
func (f *Filter) expectedRate(exactBelow float64) float64 {
	rate := 1.0
	if f.ribbon != nil {
		rate = f.ribbon.rate()
	}
	for _, u := range f.units[:f.n] {
		r := quickRate(f.keys, u.blocks, u.probes)
		if r < exactBelow {
			r = binomialRate(f.keys, u.blocks, u.probes)
		}
		rate *= r
	}
	return rate
}
