package bloom

import "math"

// Format version 1 puts probe i of a Classic or Partitioned filter at h1 + i·h2 (Kirsch, Mitzenmacher, "Less Hashing,
// Same Performance", ESA 2006). That suffices for usual rates. But the rate has a floor that further probes do not
// lower. A small filter misses a low rate by far: 400 times at 1e-6 with 10 keys, and 2,000 times at 1e-9 with 1,000.
// Filters of version 1 are still read and encoded again as they are. New makes none.

// mulProgression makes the probes of a hash an arithmetic progression, whose step is a second hash.
const mulProgression = 1

// progressionFloor returns the rate that absent keys add to that of independent probes in a filter of version 1 with
// the given number of keys. It is right within a factor of two.
//
// In a Classic filter of m bits, a share p of them set, a step near the fraction j/q of the circle puts the k probes
// into only q groups of neighbouring bits. A step that is off by x bits has q + q·(k-q)·x distinct bits, which are all
// set with probability p^(q+q(k-q)x) instead of p^k. The difference, integrated over x on both sides for φ(q)
// fractions, is the sum below. Besides, an absent key may have nearly the progression of one of n keys. Their share of
// about n/m² was measured.
//
// In the k arrays of w bits of a Partitioned filter only the latter counts. If two progressions are d bits apart at the
// first array and d + k·e at the last, the key passes with probability p^(k·∫|d+e·k·u|du), and the integral over d and
// e is 37/(k³·ln²p). That bits are whole adds the 0.6, which was measured.
func (f *Filter) progressionFloor(keys, p float64) float64 {
	if f.mul != mulProgression || keys == 0 || p == 0 {
		return 0
	}
	if p == 1 { // every key passes already
		return 0
	}
	bits, loss := float64(len(f.units[0].words)*wordBits), -math.Log(p)
	if f.options.Layout == LayoutPartitioned {
		k := float64(len(f.units))
		return min(1, 37*keys*(1/loss+0.6)*(1/loss+0.6)/(bits*bits*k*k*k)) * (1 - power(p, len(f.units)))
	}
	sum, k := 0.0, f.units[0].probes
	all := power(p, k)
	for q := 1; q < k; q++ {
		sum += float64(totient(q)) / float64(q) * ((power(p, q)-all)/(float64(k-q)*loss) - all)
	}
	return 2*sum/bits + keys/(bits*bits)*(1-all)
}

// totient returns the number of fractions j/q in lowest terms, 0 ≤ j < q.
func totient(q int) (n int) {
	for j := range q {
		a, b := q, j
		for b > 0 {
			a, b = b, a%b
		}
		if a == 1 {
			n++
		}
	}
	return n
}
