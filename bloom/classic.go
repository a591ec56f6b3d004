package bloom

import (
	"math"
	"math/bits"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// classicSizes returns the size of one array of m bits: the smallest for which (1-e^(-k·keys/m))^k is at most the rate,
// with the best number k of probes, which is near ln 2 · m / keys (Bloom, "Space/Time Trade-offs in Hash Coding with
// Allowable Errors", CACM 1970; Broder, Mitzenmacher, "Network Applications of Bloom Filters: A Survey", 2004), and
// (k+2)/4 bits more. These make up for what the formula leaves out: the number of set bits varies, and its mean is a
// little higher. See classicRate.
func classicSizes(o Options) []unitSize {
	size, probes := classicSize(o.Keys, o.Rate)
	return []unitSize{{size + float64(probes+2)/4, 1, probes}}
}

// classicSize returns the bits of a classic filter and its number of probes.
func classicSize(keys int, rate float64) (size float64, probes int) {
	size = math.Inf(1)
	for k := 1; k <= maxHashes; k++ {
		// A share of rate^(1/k) of the bits is to be set.
		if s := float64(keys) * float64(k) / -math.Log1p(-math.Pow(rate, 1/float64(k))); s < size {
			size, probes = s, k
		}
	}
	return size, max(probes, 1)
}

// partitionedSizes returns the sizes of k arrays of w bits: the smallest for which (1-(1-1/w)^keys)^k is at most the
// rate. The arrays are independent, so this is the exact rate for every number of keys.
func partitionedSizes(o Options) []unitSize {
	_, arrays := classicSize(o.Keys, o.Rate)
	width := 0.0
	if o.Keys > 0 {
		set := math.Pow(o.Rate, 1/float64(arrays)) // share of the bits to be set
		width = -1 / math.Expm1(math.Log1p(-set)/float64(o.Keys))
	}
	return slices.Repeat([]unitSize{{width, 1, 1}}, arrays)
}

// maxSteps is the largest number of throws times probes for which classicRate is exact. It then takes a millisecond.
const maxSteps = 1 << 20

// classicRate returns the rate of an array of m bits with k probes for each of the keys. All throws are independent.
//
// An absent key passes if all of its d distinct bits are set. Given d bits, the first throw hits one of them with
// probability d/m, and then the others must hit the other d-1. All terms are positive, so nothing cancels. For many
// throws it returns (1-(1-1/m)^(k·keys))^k, the k-th power of the mean share of set bits. That is low by a share of
// 0.15·k²/m in a full filter: by less than 0.4 % in the 35,000 bits or more for which it is used, by a third in 400.
func classicRate(keys int, m float64, k int) float64 {
	throws := float64(keys) * float64(k)
	if k == 1 || throws*float64(k) > maxSteps { // exact for one probe
		return power(-math.Expm1(throws*math.Log1p(-1/m)), k)
	}
	var distinct, set [maxHashes + 1]float64 // probability of d distinct bits; and that d given bits are set
	distinct[0], set[0] = 1, 1
	for range k {
		for d := k; d > 0; d-- {
			distinct[d] = distinct[d]*float64(d)/m + distinct[d-1]*(m-float64(d-1))/m
		}
		distinct[0] = 0
	}
	for range keys * k {
		for d := k; d > 0; d-- {
			set[d] += (set[d-1] - set[d]) * float64(d) / m
		}
	}
	rate := 0.0
	for d := range k + 1 {
		rate += distinct[d] * set[d]
	}
	return rate
}

func power(x float64, n int) float64 {
	p := 1.0
	for range n {
		p *= x
	}
	return p
}

// Probe 0 of a mixed hash is at the hash itself, and each next probe at mul·(the one before) + step modulo 2⁶⁴, reduced
// to the array as bloomblock reduces a hash to a block. With mulProbe and step 0 the top bits of a probe, which decide
// its position, depend on all bits of the hash, and the probes of a key are as good as independent.

// mulProbe is a multiplier whose successive products are evenly distributed in two to eight dimensions (Steele, Vigna,
// "Computationally Easy, Spectrally Good Multipliers for Congruential Pseudorandom Number Generators", Software:
// Practice and Experience 2022).
const mulProbe = 0xd1342543de82ef95

// step returns what is added from probe to probe of a mixed hash.
func step(mul uint64, h bloomblock.Hash) uint64 {
	if mul == mulProgression {
		return uint64(h.Next()) | 1
	}
	return 0
}

// bitAt returns the index of a word and a bit in it for a hash in an array.
func bitAt(h uint64, words []uint64) (word uint64, bit uint64) {
	at, low := bits.Mul64(h, uint64(len(words)))
	return at, 1 << (low >> 58) // the next six bits of the product
}

func (f *Filter) addClassic(h bloomblock.Hash) bool {
	words := f.units[0].words
	at, mul, step, clearBits := uint64(h), f.mul, step(f.mul, h), uint64(0)
	for range f.units[0].probes {
		w, bit := bitAt(at, words)
		old := words[w]
		words[w] = old | bit
		clearBits |= bit &^ old
		at = at*mul + step
	}
	return clearBits != 0
}

func (f *Filter) askClassic(h bloomblock.Hash) bool {
	words := f.units[0].words
	at, mul, step := uint64(h), f.mul, step(f.mul, h)
	for range f.units[0].probes {
		w, bit := bitAt(at, words)
		if words[w]&bit == 0 {
			return false
		}
		at = at*mul + step
	}
	return true
}

// The position in array i is that of probe i of Classic.

func (f *Filter) addPartitioned(h bloomblock.Hash) bool {
	at, mul, step, clearBits := uint64(h), f.mul, step(f.mul, h), uint64(0)
	for i := range f.units {
		words := f.units[i].words
		w, bit := bitAt(at, words)
		old := words[w]
		words[w] = old | bit
		clearBits |= bit &^ old
		at = at*mul + step
	}
	return clearBits != 0
}

func (f *Filter) askPartitioned(h bloomblock.Hash) bool {
	at, mul, step := uint64(h), f.mul, step(f.mul, h)
	for i := range f.units {
		words := f.units[i].words
		w, bit := bitAt(at, words)
		if words[w]&bit == 0 {
			return false
		}
		at = at*mul + step
	}
	return true
}
