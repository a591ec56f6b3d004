package forecast

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// A Ladder lists the filters of many keys that are worth their bits, beginning with none, in ascending order of bits.
// It is convex: each further bit lowers the rate by less than the one before. Memory distributed in steps, each where
// it lowers the rate most, is therefore distributed optimally.
type Ladder []Rung

// A Rung is a filter that can be built.
type Rung struct{ BitsPerKey, Rate float64 }

// LadderOf returns the ladder of filters with Bloom units only, or of filters whose first unit may also be a Ribbon
// unit. The first call takes some milliseconds. The result must not be changed.
func LadderOf(ribbon bool) Ladder {
	if ribbon {
		return ribbonLadder()
	}
	return bloomLadder()
}

var (
	bloomLadder  = sync.OnceValue(func() Ladder { return climb(bloomblock.ParamsFor) })
	ribbonLadder = sync.OnceValue(func() Ladder {
		return climb(bloomblock.ParamsFor, func(rate float64) (bloomblock.Params, error) {
			return bloomblock.ParamsRibbon(rate)
		})
	})
)

// Rate returns the mean rate of filters with the given bits per key. Between two rungs some keys have the larger
// filter, and the others the smaller.
func (l Ladder) Rate(bitsPerKey float64) float64 {
	i, _ := slices.BinarySearchFunc(l, bitsPerKey, func(r Rung, bits float64) int {
		return cmp.Compare(r.BitsPerKey, bits)
	})
	switch {
	case i == 0:
		return l[0].Rate
	case i == len(l):
		return l[i-1].Rate
	}
	a, b := l[i-1], l[i]
	return a.Rate - (a.Rate-b.Rate)*(bitsPerKey-a.BitsPerKey)/(b.BitsPerKey-a.BitsPerKey)
}

// climb returns the lower convex hull of the filters that builders return for descending rates.
func climb(builders ...func(rate float64) (bloomblock.Params, error)) (hull Ladder) {
	all := Ladder{{0, 1}}
	const steps = 64 // for each factor of two
	for i := 1.0; i <= -math.Log2(bloomblock.BestRate)*steps; i++ {
		for _, build := range builders {
			if p, err := build(math.Exp2(-i / steps)); err == nil { // otherwise out of this builder's range
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
