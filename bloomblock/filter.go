package bloomblock

// A Filter is a parsed block, or the first units of one. It is immutable and safe for concurrent use; the zero value has no
// units and answers maybe.
//
// Methods take a pointer because a copy would cost as much as a probe.
type Filter struct {
	n     int
	units [MaxUnits]unit
	keys  uint64
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
// Within a unit all probes are made and their bits are ANDed: a branch for each probe is mispredicted about once in a lookup
// of an absent key, which costs more than the probes it saves (Ross, "Conjunctive Selection Conditions in Main Memory",
// PODS 2002).
func (f *Filter) MayContain(h Hash) bool {
	for i := range f.n {
		if !f.units[i].mayContain(h) {
			return false
		}
		h = h.Next()
	}
	return true
}

func (u *unit) mayContain(h Hash) bool {
	line := (*[blockBytes]byte)(u.bits[h.Block(u.blocks)<<blockShift:])
	x, y := h.Fields()
	all := byte(1)
	for range min(u.probes, wordFields) {
		all &= line[x>>3&(blockBytes-1)] >> (x & 7)
		x >>= fieldBits
	}
	for range u.probes - wordFields {
		all &= line[y>>3&(blockBytes-1)] >> (y & 7)
		y >>= fieldBits
	}
	return all != 0
}

// Units is the number of units that are probed, 0 if every answer is maybe.
func (f *Filter) Units() int { return f.n }

// Keys is the number of hashes that were added.
func (f *Filter) Keys() uint64 { return f.keys }

// Bytes is the size of the units in memory.
func (f *Filter) Bytes() int {
	sum := 0
	for _, u := range f.units[:f.n] {
		sum += len(u.bits)
	}
	return sum
}

// FalsePositiveRate is the exact rate that this number of keys, blocks and probes gives on average over all sets of keys. It
// is 1 without units, and takes up to some milliseconds to compute. Report.Rate is the rate of these very bits.
func (f *Filter) FalsePositiveRate() float64 {
	rate := 1.0
	for _, u := range f.units[:f.n] {
		rate *= binomialRate(f.keys, u.blocks, u.probes)
	}
	return rate
}
