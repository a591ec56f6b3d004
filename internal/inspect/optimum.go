package inspect

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// A rung is a filter that can be built.
type rung struct{ bits, rate float64 }

// ladder is the filters that are worth their bits, from none on: each further bit gains less than the one before.
func ladder(ribbon bool) []rung { return ladders[btoi(ribbon)]() }

var ladders = [...]func() []rung{
	sync.OnceValue(func() []rung { return climb(bloomblock.ParamsFor) }),
	sync.OnceValue(func() []rung {
		return climb(bloomblock.ParamsFor, func(rate float64) (bloomblock.Params, error) { return bloomblock.ParamsRibbon(rate) })
	}),
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// climb is the lower convex hull of what builders make, by bits.
func climb(builders ...func(rate float64) (bloomblock.Params, error)) (hull []rung) {
	all := []rung{{0, 1}}
	const steps = 16 // for each factor of two
	for i := 1.0; i <= -math.Log2(bloomblock.BestRate)*steps; i++ {
		for _, build := range builders {
			if p, err := build(math.Exp2(-i / steps)); err == nil { // else it is out of this one's reach
				all = append(all, rung{p.BitsPerKey(), p.Rate()})
			}
		}
	}
	slices.SortFunc(all, func(a, b rung) int { return cmp.Or(cmp.Compare(a.bits, b.bits), cmp.Compare(a.rate, b.rate)) })
	for _, r := range all {
		if n := len(hull); n > 0 && r.rate >= hull[n-1].rate {
			continue
		}
		for n := len(hull); n > 1; n = len(hull) {
			a, b := hull[n-2], hull[n-1]
			if (a.rate-b.rate)*(r.bits-b.bits) > (b.rate-r.rate)*(b.bits-a.bits) {
				break
			}
			hull = hull[:n-1]
		}
		hull = append(hull, r)
	}
	return hull
}

// A demand is what a run wants of the memory for filters.
type demand struct{ keys, share float64 } // its keys, and the share of absent keys that its tables are asked for

// optimum is the rate of each run's filters if the sum of shares times rates is to be the least that so many bits allow: bit by bit
// to the run where it gains most for each key that has to have it. So rates come to be in proportion to keys (Dayan, Athanassoulis,
// Idreos, "Monkey: Optimal Navigable Key-Value Store", SIGMOD 2017), with filters that can be built.
func optimum(runs []demand, bits float64, ladder []rung) []float64 {
	type step struct {
		run, rung int
		gain      float64 // for each bit
	}
	var steps []step
	rates := make([]float64, len(runs))
	for i, r := range runs {
		rates[i] = 1
		for k := 1; k < len(ladder) && r.keys > 0; k++ {
			gain := r.share * (ladder[k-1].rate - ladder[k].rate) / (r.keys * (ladder[k].bits - ladder[k-1].bits))
			steps = append(steps, step{i, k, gain})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(b.gain, a.gain) })
	at := make([]int, len(runs))
	for _, s := range steps {
		need := runs[s.run].keys * (ladder[s.rung].bits - ladder[s.rung-1].bits)
		if at[s.run] != s.rung-1 || need > bits {
			continue
		}
		at[s.run], rates[s.run] = s.rung, ladder[s.rung].rate
		bits -= need
	}
	return rates
}
