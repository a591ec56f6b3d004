package bloomblock

import "math"

// An Overlap is how much of one set is in others, as far as a sample of the one and the filters of the others tell.
type Overlap struct {
	Share float64 // of the set's hashes that are in one of the others at least, 0..1
	Err   float64 // standard error of Share
	Known bool    // false if a filter said maybe to everything: then Share is 0, and says nothing
}

// Overlap estimates the share of the sampled set's hashes that are in the set of at least one of the filters: its sample is asked
// in all of them, and of those that pass, the wrong maybes are taken off. Of s hashes of which none is in any, a part P pass
// wrongly, 1-P = Π (1 - rate); a part q passes; the share is (q-P)/(1-P). It takes the time of Len lookups of absent keys.
//
// Filters may have fewer of their units than were written: their rate is higher then, and so is the error. Where one has none, or
// is nil, or where together they would pass nearly all, the overlap is not known. How large the others are makes no difference, so
// that of two sets of unequal size the smaller one's sample tells as much of both as with equal ones, where sketches of the two
// would tell next to nothing.
func (s *Sample) Overlap(filters ...*Filter) Overlap {
	denied := 1.0 // share of the hashes which are in none that all filters deny
	for _, f := range filters {
		if f == nil || f.Units() == 0 {
			return Overlap{Err: 1}
		}
		denied *= 1 - f.quickRate()
	}
	if denied < minDenied {
		return Overlap{Err: 1}
	}
	n := len(s.mixed)
	if n == 0 {
		return Overlap{Known: true}
	}
	misses := 0
hashes:
	for h := range s.Hashes() {
		for _, f := range filters {
			if f.MayContain(h) {
				continue hashes
			}
		}
		misses++
	}
	absent := min(float64(misses)/float64(n)/denied, 1)
	// Two errors: that of drawing n of keys without putting back, and that of wrong maybes. The estimate of a share of 0 or 1 has
	// an error too, which half a hash stands for.
	p := min(max(absent, 0.5/float64(n)), 1-0.5/float64(n))
	drawn := p * (1 - p) * (1 - float64(n)/float64(max(s.keys, 1)))
	maybes := p * (1 - denied) / denied
	return Overlap{Share: 1 - absent, Err: math.Sqrt((max(drawn, 0) + maybes) / float64(n)), Known: true}
}

// minDenied is the smallest share of absent hashes that filters must deny together to be of use.
const minDenied = 0.05

// quickRate is ExpectedRate without the milliseconds that rates below 10⁻⁷ take, which make no difference to an overlap.
func (f *Filter) quickRate() float64 {
	rate := 1.0
	if f.ribbon != nil {
		rate = f.ribbon.rate()
	}
	for _, u := range f.units[:f.n] {
		rate *= quickRate(f.keys, u.blocks, u.probes)
	}
	return rate
}
