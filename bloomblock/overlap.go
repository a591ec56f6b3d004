package bloomblock

import "math"

// An Overlap is an estimate of how much of one set is in others, from a sample of the one and the filters of the
// others.
type Overlap struct {
	Share float64 // of the set's hashes that are in at least one of the others, 0..1
	Err   float64 // standard error of Share
	Known bool    // false if a filter answered maybe to everything: then Share is 0 and means nothing
}

// Overlap estimates the share of the sampled set's hashes that are in the set of at least one of the filters. It asks
// all filters for the sample and corrects for false positives: if hashes in none of the sets pass at rate P, where 1-P
// = Π (1 - rate), and a share q of the sample passes, the estimate is (q-P)/(1-P). It takes the time of Len lookups of
// absent keys.
//
// Filters may have fewer of their units than were written, which raises their rate and the error. The overlap is
// unknown if one has no units or is nil, or if together they would let nearly all hashes pass. The sizes of the other
// sets make no difference: for two sets of unequal size the smaller one's sample shows as much as for equal ones,
// where sketches of both would show next to nothing.
func (s *Sample) Overlap(filters ...*Filter) Overlap {
	denied := 1.0 // share of the hashes in none of the sets that all filters deny
	for _, f := range filters {
		if f == nil || f.Units() == 0 {
			return Overlap{Err: 1}
		}
		denied *= 1 - f.expectedRate(0)
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
	// There are two errors: of drawing n of keys without replacement, and of false positives. The estimate of a share
	// of 0 or 1 has an error too, for which half a hash is assumed.
	p := min(max(absent, 0.5/float64(n)), 1-0.5/float64(n))
	drawn := p * (1 - p) * (1 - float64(n)/float64(max(s.keys, 1)))
	maybes := p * (1 - denied) / denied
	return Overlap{Share: 1 - absent, Err: math.Sqrt((max(drawn, 0) + maybes) / float64(n)), Known: true}
}

// minDenied is the smallest share of absent hashes that filters must deny together for the estimate to be useful.
const minDenied = 0.05
