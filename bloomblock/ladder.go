package bloomblock

import (
	"cmp"
	"math"
	"slices"
	"sync"
)

// A Ladder is the filters of many keys that are worth their bits, from none on, by bits ascending: between any two of them the rate
// falls by more for each bit than it does above. Memory that is shared out step by step, where a step gains most, is shared out best.
type Ladder []Rung

// A Rung is a filter that can be built.
type Rung struct{ BitsPerKey, Rate float64 }

// LadderOf is that of filters of Bloom units alone, or that of filters whose first unit may be a Ribbon unit too. It takes some
// milliseconds to make the first time. The result is not to be changed.
func LadderOf(ribbon bool) Ladder {
	if ribbon {
		return ribbonLadder()
	}
	return bloomLadder()
}

var (
	bloomLadder  = sync.OnceValue(func() Ladder { return climb(ParamsFor) })
	ribbonLadder = sync.OnceValue(func() Ladder {
		return climb(ParamsFor, func(rate float64) (Params, error) { return ParamsRibbon(rate) })
	})
)

// Rate is what filters of so many bits for each key give, on average over the keys: where the ladder has no filter of just so many bits,
// some have the next larger one, and the others the next smaller.
func (l Ladder) Rate(bitsPerKey float64) float64 {
	i, _ := slices.BinarySearchFunc(l, bitsPerKey, func(r Rung, bits float64) int { return cmp.Compare(r.BitsPerKey, bits) })
	switch {
	case i == 0:
		return l[0].Rate
	case i == len(l):
		return l[i-1].Rate
	}
	a, b := l[i-1], l[i]
	return a.Rate - (a.Rate-b.Rate)*(bitsPerKey-a.BitsPerKey)/(b.BitsPerKey-a.BitsPerKey)
}

// climb is the lower convex hull of what builders make for rates.
func climb(builders ...func(rate float64) (Params, error)) (hull Ladder) {
	all := Ladder{{0, 1}}
	const steps = 64 // for each factor of two
	for i := 1.0; i <= -math.Log2(BestRate)*steps; i++ {
		for _, build := range builders {
			if p, err := build(math.Exp2(-i / steps)); err == nil { // else it is out of this one's reach
				all = append(all, Rung{p.BitsPerKey(), p.Rate()})
			}
		}
	}
	slices.SortFunc(all, func(a, b Rung) int {
		return cmp.Or(cmp.Compare(a.BitsPerKey, b.BitsPerKey), cmp.Compare(a.Rate, b.Rate))
	})
	for _, r := range all {
		if n := len(hull); n > 0 && r.Rate >= hull[n-1].Rate {
			continue
		}
		for n := len(hull); n > 1; n = len(hull) {
			a, b := hull[n-2], hull[n-1]
			if (a.Rate-b.Rate)*(r.BitsPerKey-b.BitsPerKey) > (b.Rate-r.Rate)*(b.BitsPerKey-a.BitsPerKey) {
				break
			}
			hull = hull[:n-1]
		}
		hull = append(hull, r)
	}
	return hull
}
