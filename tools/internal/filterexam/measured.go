package filterexam

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/bloomkv/bloomkv/bloomblock"
)

const (
	hitsWanted  = 1600    // gives a standard error of 2.5 %, a quarter of the tenth that is to be noticed
	leastProbes = 1 << 17 // at a few nanoseconds each
	leastHits   = 16      // with fewer, more probes than leastProbes would show little more
)

// ask measures the rate of f with random hashes, the same ones at each call, by many, which is
// bloomblock.MayContainMany. rate is the expected value.
func ask(rate float64, f *bloomblock.Filter, many asker) *Measured {
	m := Measured{Probes: leastProbes}
	if rate*mostProbes >= leastHits {
		m.Probes = uint64(min(max(hitsWanted/rate, leastProbes), mostProbes))
	}
	random := rand.NewPCG(0x626c6f6f6d, 0x626c6f636b)
	filters, hashes := [64]*bloomblock.Filter{}, [64]bloomblock.SeededHash{}
	for i := range filters {
		filters[i] = f
	}
	for left := m.Probes; left > 0; {
		n := min(left, uint64(len(hashes)))
		for i := range hashes[:n] {
			hashes[i] = f.Seed().Hash(bloomblock.Hash(random.Uint64()))
		}
		m.Maybe += uint64(bits.OnesCount64(many(filters[:n], hashes[:n]))) //nolint:gosec // at most 64
		left -= n
	}
	n := float64(m.Probes)
	m.Rate, m.Err = float64(m.Maybe)/n, math.Sqrt(rate*(1-rate)/n)
	m.Z = stat(m.Rate, rate, m.Err).Z
	return &m
}

// chance returns the probability that the number of maybes deviates from its expected value by chance at least as far
// as it does, in the same direction. The distribution is taken to be Poisson. That is right for rare hits and an upper
// bound for others, which vary less.
func (m *Measured) chance(rate float64) float64 {
	k, mean := float64(m.Maybe), rate*float64(m.Probes)
	if mean == 0 {
		if k == 0 {
			return 1
		}
		return 0
	}
	gamma, _ := math.Lgamma(k + 1)
	term := math.Exp(k*math.Log(mean) - mean - gamma) // the probability of exactly k
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
