package bloomblock

import (
	"math"
	"math/rand/v2"
)

const (
	hitsWanted  = 1600    // a standard error of 2.5 %: a rate that is off by a tenth is off by four of these
	leastProbes = 1 << 17 // at few nanoseconds each
	mostProbes  = 1 << 24 // below a rate of 10⁻⁴ the error grows, and is told
	leastHits   = 16      // where so many can't be found, to ask more often tells no more than a few times do
)

// ask measures a rate that should be as said, with random hashes, the same ones at each call.
func ask(rate float64, maybe func(h Hash) bool) *Measured {
	m := Measured{Probes: leastProbes}
	if rate*mostProbes >= leastHits {
		m.Probes = uint64(min(max(hitsWanted/rate, leastProbes), mostProbes))
	}
	random := rand.NewPCG(0x626c6f6f6d, 0x626c6f636b)
	for range m.Probes {
		if maybe(Hash(random.Uint64())) {
			m.Maybe++
		}
	}
	n := float64(m.Probes)
	m.Rate, m.Err = float64(m.Maybe)/n, math.Sqrt(rate*(1-rate)/n)
	m.Z = stat(m.Rate, rate, m.Err).Z
	return &m
}
