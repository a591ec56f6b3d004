package bloomblock

import (
	"math"
	"math/rand/v2"
)

const (
	hitsWanted  = 1600    // a standard error of 2.5 %: a rate that is off by a tenth is off by four of these
	leastProbes = 1 << 17 // at few nanoseconds each
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

// chance is how likely chance alone moves the number of maybes as far from where a rate puts it, or farther, to the same side. Hits
// are taken to be Poisson, which they are where they are rare; elsewhere they vary by less, and it is an upper bound.
func (m *Measured) chance(rate float64) float64 {
	k, mean := float64(m.Maybe), rate*float64(m.Probes)
	if mean == 0 {
		if k == 0 {
			return 1
		}
		return 0
	}
	gamma, _ := math.Lgamma(k + 1)
	term := math.Exp(k*math.Log(mean) - mean - gamma) // of just so many
	sum := 0.0
	if k < mean {
		for ; k >= 0 && term > sum*1e-6; k-- {
			sum += term
			term *= k / mean
		}
		return sum
	}
	for ; term > sum*1e-6; term *= mean / k {
		sum += term
		k++
	}
	return sum
}
