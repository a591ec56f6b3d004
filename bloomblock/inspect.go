package bloomblock

import "math"

// A Report is what the bits of a filter say about it.
type Report struct {
	Units []UnitReport
	// Rate is the false positive rate of these bits: the product over the units. It is 1 without units.
	Rate float64
	// Keys is the number of keys estimated from the bits, the mean over the Bloom units; 0 without any. It may be compared with
	// Filter.Keys: a filter of many keys is within a few parts in a thousand.
	Keys float64
}

// A UnitReport is what the bits of one unit say. The bits of a Ribbon unit say its rate alone: half of them are set,
// however many keys there are.
type UnitReport struct {
	Probes  int // of a Bloom unit; 0 of a Ribbon unit
	Columns int // of a Ribbon unit, but for its front part; 0 of a Bloom unit
	Blocks  uint64

	// Bits that are set, of 512, in the emptiest block, on average, and in the fullest, with the standard deviation.
	Min, Max  int
	Mean, Dev float64

	Fill float64 // share of all bits that are set, 0..1
	// Rate is exact for hashes of absent keys: the mean over the blocks of (set bits / 512)^probes; of a Ribbon unit the mean over
	// the places where a band begins of 2 to the power of minus the rank of the columns there.
	Rate float64

	// Keys is an estimate from each block alone, summed up (Swamidass, Baldi, "Mathematical Correction for Fingerprint
	// Similarity Measures", 2007). The same formula over all bits at once would be low by up to a hundredth, since blocks are
	// unevenly full.
	Keys float64

	// Histogram counts blocks by the number of their bits that are set.
	Histogram [blockBits + 1]uint64
}

// Inspect counts the bits of the filter, at about the speed of memory.
func (f *Filter) Inspect() Report {
	r := Report{Rate: 1}
	if f.ribbon != nil {
		u := inspect(f.ribbon.bits)
		u.Columns, u.Rate = int(f.ribbon.columns), f.ribbon.measure(1) //nolint:gosec // ≤ maxColumns
		r.add(u)
	}
	for i := range f.n {
		u := f.units[i].inspect()
		r.add(u)
		r.Keys += u.Keys / float64(f.n)
	}
	return r
}

func (r *Report) add(u UnitReport) {
	r.Units = append(r.Units, u)
	r.Rate *= u.Rate
}

func (u *unit) inspect() UnitReport {
	r := inspect(u.bits)
	r.Probes = u.probes
	for set, count := range r.Histogram {
		if count == 0 {
			continue
		}
		n := float64(count)
		r.Rate += n / float64(r.Blocks) * passes(set, u.probes)
		r.Keys += n * keysFrom(set, u.probes)
	}
	return r
}

// inspect counts the bits of any unit.
func inspect(b []byte) UnitReport {
	r := UnitReport{Blocks: uint64(len(b) / blockBytes)}
	for ; len(b) >= blockBytes; b = b[blockBytes:] {
		r.Histogram[setBits(b)]++
	}
	blocks, sum, squares := float64(r.Blocks), 0.0, 0.0
	r.Min = -1
	for set, count := range r.Histogram {
		if count == 0 {
			continue
		}
		if r.Min < 0 {
			r.Min = set
		}
		r.Max = set
		x, n := float64(set), float64(count)
		sum += n * x
		squares += n * x * x
	}
	r.Mean = sum / blocks
	r.Dev = math.Sqrt(max(squares/blocks-r.Mean*r.Mean, 0))
	r.Fill = r.Mean / blockBits
	return r
}
