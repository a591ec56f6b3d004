package filterexam

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// A theory describes the bits of a Bloom unit with the given keys, blocks and probes if hashes are random: the
// distribution of the number of set bits in a block, and the variance of the figures that an Exam computes from all
// blocks. The number of keys in a block is binomial, and blocks depend on each other a little; no approximation for
// large numbers is made except where noted.
//
// One key leaves a given bit of its block clear with probability (1-1/512)^probes, and two given bits with
// (1-2/512)^probes. With all keys, each in this block with probability 1/blocks, a bit stays clear with probability
// clear, two bits of a block with both, and two bits of two blocks with apart. For many blocks these are the Poisson
// forms e^(-λ(1-q1)), e^(-λ(1-q2)) and e^(-2λ(1-q1)), with λ keys in a block.
//
// The distribution is computed key by key and probe by probe: P(x) ← P(x)·x/512 + P(x-1)·(513-x)/512. All terms are
// positive, so nothing cancels.
type theory struct {
	keys, blocks float64
	probes       int

	set    [blockBits + 1]float64 // probability that a block has the given number of bits set
	clear  float64
	both   float64
	across float64 // apart - clear², computed without cancellation

	estimate, estimateVar float64 // mean and variance of a block's keys estimated from its bits less its actual keys
}

func theoryOf(keys, blocks uint64, probes int) *theory {
	t := &theory{keys: float64(keys), blocks: float64(blocks), probes: probes}
	stays := 1 - math.Pow(1-1.0/blockBits, float64(probes)) // that a key in the block sets a given bit
	pair := 1 - math.Pow(1-2.0/blockBits, float64(probes))  // one of two given bits
	u := stays / t.blocks
	t.clear = math.Exp(t.keys * math.Log1p(-u))
	t.both = math.Exp(t.keys * math.Log1p(-pair/t.blocks))
	t.across = t.clear * t.clear * math.Expm1(t.keys*math.Log1p(-u*u/((1-u)*(1-u))))
	t.mix()
	return t
}

// mix sums the occupancies of a block over its possible numbers of keys.
func (t *theory) mix() {
	p := 1 / t.blocks
	mean := t.keys * p
	if mean*float64(t.probes) > saturated {
		t.set[blockBits] = 1
		return
	}
	o := &occupancy{p: [blockBits + 1]float64{1}}
	if t.blocks == 1 {
		for range int(t.keys) {
			o.add(t.probes)
		}
		t.take(1, t.keys, o)
		return
	}
	logP := t.keys * math.Log1p(-p)
	for j := 0.0; j <= t.keys; j++ {
		weight := math.Exp(logP)
		t.take(weight, j, o)
		if j > mean && weight < 1e-17 {
			return // the terms after this one shrink at least geometrically
		}
		logP += math.Log((t.keys - j) / (j + 1) * p / (1 - p))
		o.add(t.probes)
	}
}

// saturated is the number of throws into one block after which fewer than one bit in a million blocks remains clear.
const saturated = 20 * blockBits

// occupancy is the distribution of the number of set bits in one block.
type occupancy struct {
	p   [blockBits + 1]float64 // p[x] is the probability of x set bits
	top int                    // p is 0 above
}

// add throws the probes of one more key.
func (o *occupancy) add(probes int) {
	for range probes {
		o.top = min(o.top+1, blockBits)
		for x := o.top; x > 0; x-- {
			o.p[x] = o.p[x]*float64(x)/blockBits + o.p[x-1]*float64(blockBits-x+1)/blockBits
		}
		o.p[0] = 0
	}
}

// take adds the contribution of a block with the given number of keys.
func (t *theory) take(weight, keys float64, o *occupancy) {
	if weight < 1e-30 {
		return
	}
	for x := range o.top + 1 {
		p := weight * o.p[x]
		t.set[x] += p
		off := keysFrom(x, t.probes) - keys
		t.estimate += p * off
		t.estimateVar += p * off * off
	}
}

// mean returns the expected number of set bits of a block, variance its variance.
func (t *theory) mean() float64 { return blockBits * (1 - t.clear) }

func (t *theory) variance() float64 {
	return max(0, blockBits*(blockBits-1)*t.both+blockBits*t.clear-blockBits*blockBits*t.clear*t.clear)
}

// meanVar returns the variance of the mean over all blocks. It is smaller than a block's variance divided by their
// number, since the total number of keys is fixed.
func (t *theory) meanVar() float64 {
	return max(0, t.variance()/t.blocks+(1-1/t.blocks)*blockBits*blockBits*t.across)
}

// varianceVar returns the variance of the sample variance over all blocks, for many of them: (μ₄-σ⁴)/blocks.
func (t *theory) varianceVar() float64 {
	fourth, v := 0.0, t.variance()
	for x, p := range t.set {
		d := float64(x) - t.mean()
		fourth += p * d * d * d * d
	}
	return max(0, fourth-v*v) / t.blocks
}

// rate returns the expected rate, the mean of (set bits / 512)^probes.
func (t *theory) rate() float64 {
	sum := 0.0
	for x, p := range t.set {
		sum += p * passes(x, t.probes)
	}
	return min(sum, 1)
}

// rateVar returns the variance of the rate of all blocks, for many of them.
func (t *theory) rateVar() float64 {
	squares, rate := 0.0, t.rate()
	for x, p := range t.set {
		squares += p * passes(x, t.probes) * passes(x, t.probes)
	}
	return max(0, squares-rate*rate) / t.blocks
}

// atLeast returns the probability that some block has at least the given number of bits set, to first order in that of
// one block.
func (t *theory) atLeast(set int) float64 {
	sum := 0.0
	for _, p := range t.set[set:] {
		sum += p
	}
	return min(1, sum*t.blocks)
}

// passes returns the rate of a block.
func passes(set, probes int) float64 { return math.Pow(float64(set)/blockBits, float64(probes)) }

// keysFrom returns the number of keys estimated from the bits of one block: ln(1-set/512) / (probes·ln(1-1/512)).
func keysFrom(set, probes int) float64 {
	// A full block could have any number of keys; half a clear bit represents the smallest likely number.
	clearBits := max(blockBits-float64(set), 0.5)
	return math.Log(clearBits/blockBits) / (float64(probes) * math.Log1p(-1.0/blockBits))
}

const (
	hitsWanted  = 1600    // gives a standard error of 2.5 %, a quarter of the tenth that is to be noticed
	leastProbes = 1 << 17 // at a few nanoseconds each
	leastHits   = 16      // with fewer, more probes than leastProbes would show little more
)

// MostProbes is the largest number of random hashes used to measure a filter's rate. Rates below 10⁻⁴ are therefore
// measured less exactly; see Measured.Err. Tests that measure many filters lower it before they begin.
var MostProbes = 1 << 24

// ask measures the rate of f with random hashes, the same ones at each call, by many, which is
// bloomblock.MayContainMany. rate is the expected value.
func ask(rate float64, f *bloomblock.Filter, many asker) *Measured {
	m := Measured{Probes: leastProbes}
	if rate*float64(MostProbes) >= leastHits {
		m.Probes = uint64(min(max(hitsWanted/rate, leastProbes), float64(MostProbes)))
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
