package bloomblock

import (
	"encoding/binary"
	"math/bits"
	"sync"
)

// A Filter is a parsed block, or the first units of one. It is immutable and safe for concurrent use; the zero value has no
// units and answers maybe.
//
// Methods take a pointer because a copy would cost as much as a probe.
type Filter struct {
	n      int     // of Bloom units
	ribbon *ribbon // the first unit, if it is one, is not among units; beside what else is looked at first
	units  [MaxUnits]unit
	seed   Seed
	keys   uint64

	measured *measuredOnce // nil without units
}

// A measuredOnce is the rate of a filter's bits, which is measured when it is first needed.
type measuredOnce struct {
	once sync.Once
	rate float64
}

// A unit's bits are blocks·64 bytes, and probes is 1..MaxProbes: Header.Filter has checked it, so a probe cannot fail.
type unit struct {
	bits   []byte
	blocks uint64
	probes int
}

// MayContain reports whether the key of h, its HashKey, may have been added. False is certain; true is wrong for about
// FalsePositiveRate of the absent keys. It never fails, never allocates, and is safe for concurrent use.
func (f *Filter) MayContain(h Hash) bool { return f.mayContain(f.seed.Mix(h)) }

// mayContain is MayContain for a mixed hash.
//
// A unit makes four probes, branches once, makes all others and branches again. A branch for each probe is mispredicted about
// once in a lookup of an absent key, which costs more than the probes it saves (Ross, "Conjunctive Selection Conditions in
// Main Memory", PODS 2002); no branch but the last makes every lookup of an absent key pay for all probes. After four, some 24
// of 25 absent keys are gone and the branch goes the same way nearly always.
//
// A Ribbon unit comes last, since it costs most.
//
// The probes are written out because this is the one function that every lookup of a store runs, often a dozen times: a loop
// over them takes a third longer, and a call for each unit a tenth. Masked indices need no bounds checks.
func (f *Filter) mayContain(h Hash) bool {
	asked := h
	for i := range f.n {
		u := &f.units[i]
		line := u.line(h)
		x := uint64(h) * mulFields // Fields
		all := place(line, x)
		if u.probes > 1 {
			all &= place(line, x>>9)
		}
		if u.probes > 2 {
			all &= place(line, x>>18)
		}
		if u.probes > 3 {
			all &= place(line, x>>27)
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
				all &= place(line, y)
				y >>= fieldBits
			}
			fallthrough
		case 7:
			all &= place(line, x>>54)
			fallthrough
		case 6:
			all &= place(line, x>>45)
			fallthrough
		case 5:
			all &= place(line, x>>36)
		}
		if all&1 == 0 {
			return false
		}
		h = h.Next()
	}
	return f.ribbon == nil || f.ribbon.mayContain(asked)
}

// line is the block of h.
func (u *unit) line(h Hash) *[blockBytes]byte {
	at := h.Block(u.blocks) << blockShift
	return (*[blockBytes]byte)(u.bits[at : at+blockBytes : at+blockBytes]) // full: a length that is constant needs no masking
}

// place is the word of a line that the low field of x leads to, shifted so that its lowest bit is the one that the field names.
func place(line *[blockBytes]byte, x uint64) uint64 {
	i := wordOf(x)
	return binary.LittleEndian.Uint64(line[i:i+8]) >> (x & 63)
}

// wordOf is where in a line the word of the low field of x begins.
func wordOf(x uint64) uint64 { return x >> 3 & (blockBytes - 8) }

// MayContainEach asks up to 32 filters for one key: bit i of the answer is that of filters[i].MayContain(h.Hash), and set
// where filters[i] is nil. Filters whose seed is h.Seed need no mixing of their own.
//
// The fields of the key are worked out once. The first probes of all filters are made before an answer is acted upon, so that
// no wrong guess at one keeps the next from being asked: what the filters miss in the processor's cache they miss together.
func MayContainEach(filters []*Filter, h SeededHash) (maybe uint32) {
	if len(filters) == 1 && filters[0] != nil { // nothing to wait for beside it
		if filters[0].mayContain(h.under(filters[0].seed)) {
			return 1
		}
		return 0
	}
	x0, _ := h.Mixed.Fields()
	x1, x2, x3 := x0>>fieldBits, x0>>(2*fieldBits), x0>>(3*fieldBits)
	w0, w1, w2, w3 := wordOf(x0), wordOf(x1), wordOf(x2), wordOf(x3)
	for i, f := range filters {
		all := uint64(1)
		if f != nil && f.seed == h.Seed && f.n > 0 && f.units[0].probes > 3 {
			line := f.units[0].line(h.Mixed)
			all = binary.LittleEndian.Uint64(line[w0:w0+8]) >> (x0 & 63) & (binary.LittleEndian.Uint64(line[w1:w1+8]) >> (x1 & 63)) &
				(binary.LittleEndian.Uint64(line[w2:w2+8]) >> (x2 & 63)) & (binary.LittleEndian.Uint64(line[w3:w3+8]) >> (x3 & 63))
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

// MayContainMany asks up to 64 filters, each for a key of its own: bit i of the answer is that of
// filters[i].MayContain(hashes[i].Hash), and set where filters[i] is nil. As with MayContainEach, the filters are waited for
// together.
func MayContainMany(filters []*Filter, hashes []SeededHash) (maybe uint64) {
	hashes = hashes[:len(filters)]
	for i, f := range filters {
		all := uint64(1)
		if f != nil && f.seed == hashes[i].Seed && f.n > 0 && f.units[0].probes > 3 {
			line := f.units[0].line(hashes[i].Mixed)
			x, _ := hashes[i].Mixed.Fields()
			all = place(line, x) & place(line, x>>fieldBits) & place(line, x>>(2*fieldBits)) & place(line, x>>(3*fieldBits))
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

// Units is the number of units that are probed, 0 if every answer is maybe.
func (f *Filter) Units() int {
	if f.ribbon != nil {
		return f.n + 1
	}
	return f.n
}

// Keys is the number of hashes that were added.
func (f *Filter) Keys() uint64 { return f.keys }

// Bytes is the size of the units in memory.
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

// FalsePositiveRate returns the false positive rate of the bits in memory, for keys whose hashes are independent of those
// that were added: exact for Bloom units, to about a percent for a Ribbon unit. It is 1 without units. The first call counts
// the bits, at about the speed of memory.
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

// ExpectedRate returns the rate that this number of keys, blocks and probes gives on average over all sets of keys, to five
// digits. It is 1 without units, and takes microseconds to compute; where a unit's rate is below 10⁻⁷, milliseconds.
func (f *Filter) ExpectedRate() float64 {
	rate := 1.0
	if f.ribbon != nil {
		rate = f.ribbon.rate()
	}
	for _, u := range f.units[:f.n] {
		r := quickRate(f.keys, u.blocks, u.probes)
		if r < quickLow {
			r = binomialRate(f.keys, u.blocks, u.probes)
		}
		rate *= r
	}
	return rate
}
