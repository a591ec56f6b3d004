package bloomblock

// A Filter is a parsed block, or the first units of one. It is immutable and safe for concurrent use; the zero value has no
// units and answers maybe.
//
// Methods take a pointer because a copy would cost as much as a probe.
type Filter struct {
	n      int     // of Bloom units
	ribbon *ribbon // the first unit, if it is one, is not among units; beside what else is looked at first
	units  [MaxUnits]unit
	keys   uint64
}

// A unit's bits are blocks·64 bytes, and probes is 1..MaxProbes: Header.Filter has checked it, so a probe cannot fail.
type unit struct {
	bits   []byte
	blocks uint64
	probes int
}

// MayContain reports whether the key of h may have been added. False is certain; true is wrong for about FalsePositiveRate
// of the absent keys. It never fails, never allocates, and is safe for concurrent use.
//
// A unit makes three probes, branches once, makes all others and branches again. A branch for each probe is mispredicted about
// once in a lookup of an absent key, which costs more than the probes it saves (Ross, "Conjunctive Selection Conditions in
// Main Memory", PODS 2002); no branch but the last makes every lookup of an absent key pay for all probes. After three, seven
// of eight absent keys are gone and the branch goes the same way nearly always.
//
// A Ribbon unit comes last, since it costs most.
//
// The probes are written out because this is the one function that every lookup of a store runs, often a dozen times: a loop
// over them takes a third longer, and a call for each unit a tenth. Masked indices need no bounds checks.
func (f *Filter) MayContain(h Hash) bool {
	const mask = blockBytes - 1
	asked := h
	for i := range f.n {
		u := &f.units[i]
		line := (*[blockBytes]byte)(u.bits[h.Block(u.blocks)<<blockShift:])
		x := uint64(h) * mulFields // Fields
		all := line[x>>3&mask] >> (x & 7)
		if u.probes > 1 {
			all &= line[x>>12&mask] >> (x >> 9 & 7)
		}
		if u.probes > 2 {
			all &= line[x>>21&mask] >> (x >> 18 & 7)
		}
		if all&1 == 0 {
			return false
		}
		switch u.probes {
		case 1, 2, 3:
			h = h.Next()
			continue
		default:
			_, y := h.Fields()
			for range u.probes - wordFields {
				all &= line[y>>3&mask] >> (y & 7)
				y >>= fieldBits
			}
			fallthrough
		case 7:
			all &= line[x>>57&mask] >> (x >> 54 & 7)
			fallthrough
		case 6:
			all &= line[x>>48&mask] >> (x >> 45 & 7)
			fallthrough
		case 5:
			all &= line[x>>39&mask] >> (x >> 36 & 7)
			fallthrough
		case 4:
			all &= line[x>>30&mask] >> (x >> 27 & 7)
		}
		if all&1 == 0 {
			return false
		}
		h = h.Next()
	}
	return f.ribbon == nil || f.ribbon.mayContain(asked)
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

// FalsePositiveRate is the rate that this number of keys, blocks and probes gives on average over all sets of keys, to five
// digits. It is 1 without units, and takes microseconds to compute; where a unit's rate is below 10⁻⁷, milliseconds.
// Report.Rate is the rate of these very bits.
func (f *Filter) FalsePositiveRate() float64 {
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
