package inspect

import (
	"cmp"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// A demand is what a run wants of the memory for filters.
type demand struct {
	keys   float64
	share  float64 // of absent keys, for which its tables are asked
	ribbon bool    // its filters have Ribbon units; in tables of few keys they have none
}

// optimum is the rate of each run's filters if the sum of shares times rates is to be the least that so many bits allow: bit by bit
// to the run where it gains most for each key that has to have it. So rates come to be in proportion to keys (Dayan, Athanassoulis,
// Idreos, "Monkey: Optimal Navigable Key-Value Store", SIGMOD 2017), with filters that can be built. Where the last step does not fit for
// all of a run it is taken for a part, some of its tables.
func optimum(runs []demand, bits float64) []float64 {
	type step struct {
		run        int
		bits, rate float64 // more, and less
		gain       float64 // for each bit
	}
	var steps []step
	rates := make([]float64, len(runs))
	for i, r := range runs {
		rates[i] = 1
		rungs := bloomblock.LadderOf(r.ribbon)
		for k := 1; k < len(rungs) && r.keys > 0; k++ {
			a, b := rungs[k-1], rungs[k]
			s := step{run: i, bits: r.keys * (b.BitsPerKey - a.BitsPerKey), rate: a.Rate - b.Rate}
			s.gain = r.share * s.rate / s.bits
			steps = append(steps, s)
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(b.gain, a.gain) }) // a run's stay in order
	for _, s := range steps {
		part := min(bits/s.bits, 1)
		rates[s.run] -= part * s.rate
		if bits -= part * s.bits; part < 1 {
			break
		}
	}
	return rates
}
