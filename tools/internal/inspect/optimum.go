package inspect

import (
	"cmp"
	"slices"

	"github.com/bloomkv/bloomkv/internal/filterplan"
)

// A demand is what a run asks of the memory for filters.
type demand struct {
	keys   float64
	share  float64 // of absent keys for which its tables are asked
	ribbon bool    // its filters have Ribbon units, except in small tables
}

// optimum returns the rate of the filters of each run that minimizes the sum of shares times rates within the given
// number of bits. It assigns each bit to the run that gains most per key. The rates become proportional to keys
// (Dayan, Athanassoulis, Idreos, "Monkey: Optimal Navigable Key-Value Store", SIGMOD 2017), with filters that can be
// built. If the last step does not fit for a whole run, it is applied to some of its tables.
func optimum(runs []demand, bits float64) []float64 {
	type step struct {
		run        int
		bits, rate float64 // additional bits, and reduction of the rate
		gain       float64 // per bit
	}
	var steps []step
	rates := make([]float64, len(runs))
	for i, r := range runs {
		rates[i] = 1
		rungs := filterplan.LadderOf(r.ribbon)
		for k := 1; k < len(rungs) && r.keys > 0; k++ {
			a, b := rungs[k-1], rungs[k]
			s := step{run: i, bits: r.keys * (b.BitsPerKey - a.BitsPerKey), rate: a.Rate - b.Rate}
			s.gain = r.share * s.rate / s.bits
			steps = append(steps, s)
		}
	}
	// the steps of a run stay in order
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(b.gain, a.gain) })
	for _, s := range steps {
		part := min(bits/s.bits, 1)
		rates[s.run] -= part * s.rate
		if bits -= part * s.bits; part < 1 {
			break
		}
	}
	return rates
}
