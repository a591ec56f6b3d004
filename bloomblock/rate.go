package bloomblock

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// A block with j keys has X of its 512 bits set, where X is the number of distinct values among j·k independent
// throws. An absent key that falls into it passes with probability E[(X/512)^k]. The number of keys in a block is
// binomial, and Poisson for many blocks; the rate of a unit is the mixture (Putze, Sanders, Singler 2007).
//
// The distribution of X is computed throw by throw, P(x) ← P(x)·x/512 + P(x-1)·(513-x)/512. All terms are positive, so
// nothing cancels. The closed form by inclusion and exclusion loses every digit at low rates, but takes less than a
// hundredth of the time: see quickRate.

// poissonRate returns the rate of one unit with very many blocks, mean keys in each, and k probes.
func poissonRate(mean float64, k int) float64 {
	return mixture(mean, k, -mean, math.Inf(1), func(j float64) float64 { return mean / (j + 1) }, (*occupancy).pass)
}

// binomialRate returns the rate of one unit with the given keys, blocks and k probes.
func binomialRate(keys, blocks uint64, k int) float64 {
	return binomial(keys, blocks, k, (*occupancy).pass)
}

// rateVar returns the variance of the rate of one unit with the given keys, blocks and k probes over all sets of keys,
// for many blocks, which depend on each other a little.
func rateVar(keys, blocks uint64, k int) float64 {
	rate := binomialRate(keys, blocks, k)
	return max(0, binomial(keys, blocks, k, (*occupancy).passSquare)-rate*rate) / float64(blocks)
}

// binomial returns the mean of a figure of a block in such a unit, which is 1 for a full block.
func binomial(keys, blocks uint64, k int, figure func(*occupancy) float64) float64 {
	n, p := float64(keys), 1/float64(blocks)
	if blocks == 1 {
		// Every key is in the one block: a mixture of one term.
		if n*float64(k) > saturated {
			return 1
		}
		o := newOccupancy(k)
		for range keys {
			o.add()
		}
		return figure(o)
	}
	ratio := func(j float64) float64 { return (n - j) / (j + 1) * p / (1 - p) }
	return mixture(n*p, k, n*math.Log1p(-p), n, ratio, figure)
}

// quickLow is the lowest rate for which quickRate has five digits.
const quickLow = 1e-7

// quickRate computes binomialRate in closed form, in a microsecond instead of some hundred, to five digits unless the
// rate is below quickLow. The throws of an absent key fall on d distinct bits with probability p(d). One key leaves a
// set of i bits clear with probability (1-i/512)^k, and all n keys of the unit, each in this block with probability
// 1/blocks, with free(i) = (1 - (1 - (1-i/512)^k)/blocks)^n. So d bits are all set with probability Σ
// (-1)^i·C(d,i)·free(i), the d-th difference of free.
func quickRate(keys, blocks uint64, k int) float64 { return shareRate(keys, 1/float64(blocks), k) }

// shareRate is quickRate for a block that has each key with probability share.
func shareRate(keys uint64, share float64, k int) float64 {
	var p, free [MaxProbes + 1]float64
	p[0] = 1
	for i := range k + 1 {
		stays := math.Pow(1-float64(i)/blockBits, float64(k))
		free[i] = math.Exp(float64(keys) * math.Log1p((stays-1)*share))
		if i == k {
			break
		}
		for d := i + 1; d > 0; d-- { // one more throw
			p[d] = p[d]*float64(d)/blockBits + p[d-1]*float64(blockBits-d+1)/blockBits
		}
		p[0] = 0
	}
	rate := 0.0
	for d := range k + 1 {
		rate += p[d] * free[0]
		for i := range k - d {
			free[i] -= free[i+1]
		}
	}
	return min(max(rate, 0), 1)
}

// saturated is the number of throws into one block after which fewer than one bit in a million blocks remains clear.
const saturated = 20 * blockBits

// mixture sums P(j)·figure(X_j) over j = 0..most, where X_j is the occupancy of a block with j keys, ln P(0) is log0
// and P(j+1)/P(j) is ratio(j).
func mixture(mean float64, k int, log0, most float64, ratio func(j float64) float64,
	figure func(*occupancy) float64,
) float64 {
	if mean*float64(k) > saturated {
		return 1
	}
	sum, logP := 0.0, log0
	o := newOccupancy(k)
	for j := 0.0; j <= most; j++ {
		p := math.Exp(logP)
		sum += p * figure(o)
		if j > mean && p < 1e-17*sum {
			break // the terms after this one shrink at least geometrically
		}
		logP += math.Log(ratio(j))
		o.add()
	}
	return min(sum, 1)
}

// occupancy is the distribution of the number of set bits in one block.
type occupancy struct {
	probes int
	p      [blockBits + 1]float64 // p[x] is the probability of x set bits
	hits   [blockBits + 1]float64 // that a throw hits one of x set bits
	misses [blockBits + 1]float64 // that it misses x-1 set bits; 0 for x = 0
	pow    [blockBits + 1]float64 // hits to the power of probes
	low    int                    // p is 0 below, or so low that it does not matter
	top    int                    // p is 0 above
}

func newOccupancy(probes int) *occupancy {
	o := &occupancy{probes: probes}
	o.p[0] = 1
	for x := range o.pow {
		o.hits[x] = float64(x) / blockBits
		o.pow[x] = 1
		for range probes {
			o.pow[x] *= o.hits[x]
		}
		if x > 0 {
			o.misses[x] = 1 - o.hits[x-1]
		}
	}
	return o
}

// add throws the probes of one more key.
func (o *occupancy) add() {
	for range o.probes {
		o.top = min(o.top+1, blockBits)
		p := o.p[o.low : o.top+1]
		hits, misses := o.hits[o.low:][:len(p)], o.misses[o.low:][:len(p)]
		below := 0.0
		for i, here := range p {
			p[i] = here*hits[i] + below*misses[i]
			below = here
		}
	}
	for o.p[o.low] < negligible {
		o.low++
	}
}

// negligible is the probability of so few set bits that they do not matter. Figures grow with the number of bits, so
// all that is left out changes a mean by a share below 513 · 1e-40.
const negligible = 1e-40

// pass returns the probability that an absent key passes.
func (o *occupancy) pass() float64 {
	sum := 0.0
	for x := o.low; x <= o.top; x++ {
		sum += o.p[x] * o.pow[x]
	}
	return sum
}

// passSquare returns the mean square of the probability that an absent key passes, over the sets of set bits.
func (o *occupancy) passSquare() float64 {
	sum := 0.0
	for x := o.low; x <= o.top; x++ {
		sum += o.p[x] * o.pow[x] * o.pow[x]
	}
	return sum
}

// bitsRate returns the exact false positive rate of the bits of a Bloom unit: the mean over its blocks, of which there
// is at least one, of (set bits / 512)^probes.
func bitsRate(payload []byte, probes int) float64 {
	var blocks [blockBits + 1]uint64 // by the number of their set bits
	for b := payload; len(b) >= blockBytes; b = b[blockBytes:] {
		blocks[setBits(b)]++
	}
	sum := 0.0
	for set, n := range blocks {
		if n > 0 {
			sum += float64(n) * math.Pow(float64(set)/blockBits, float64(probes))
		}
	}
	return sum / float64(len(payload)/blockBytes)
}

// setBits counts the bits of a block.
func setBits(block []byte) (set int) {
	for w := 0; w < blockBytes; w += wordBytes {
		set += bits.OnesCount64(binary.LittleEndian.Uint64(block[w:]))
	}
	return set
}
