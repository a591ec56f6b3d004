package bloomblock

import "math"

// classicRate returns the rate of an unblocked Bloom filter, whose probes fall anywhere in it, with many keys:
// (1-e^(-probes/bits))^probes (Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors", CACM 1970). It is
// for comparison: a filter of this package, whose probes fall into one cache line, needs more bits for the same rate,
// and a table of classic rates promises too much for it.
func classicRate(bitsPerKey float64, probes int) float64 {
	return math.Pow(-math.Expm1(-float64(probes)/bitsPerKey), float64(probes))
}

// ClassicUnit returns the smallest unblocked filter whose rate is at most rate, in half bits per key, with the fewest
// probes. The rate must be above 0.
func ClassicUnit(rate float64) Unit {
	for u := (Unit{BitsPerKey: minUnitBits}); ; u.BitsPerKey += minUnitBits {
		for u.Probes = 1; float64(u.Probes) <= u.BitsPerKey; u.Probes++ {
			if classicRate(u.BitsPerKey, u.Probes) <= rate {
				return u
			}
		}
	}
}
