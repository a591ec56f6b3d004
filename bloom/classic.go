package bloom

import (
	"math"
	"math/bits"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// classicSizes returns the size of one array of m bits: the smallest for which (1-e^(-k·keys/m))^k is at most the rate,
// with the best number k of probes, which is near ln 2 · m / keys (Bloom, "Space/Time Trade-offs in Hash Coding with
// Allowable Errors", CACM 1970; Broder, Mitzenmacher, "Network Applications of Bloom Filters: A Survey", 2004).
func classicSizes(o Options) []unitSize {
	size, probes := classicSize(o.Keys, o.Rate)
	return []unitSize{{size, 1, probes}}
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

// Probe i of a hash is at h1 + i·h2, reduced to the array as bloomblock reduces a hash to a block (Kirsch,
// Mitzenmacher, "Less Hashing, Same Performance", ESA 2006). h2 is odd, so that the probes differ.

func secondHash(h bloomblock.Hash) uint64 { return uint64(h.Next()) | 1 }

// bitAt returns the index of a word and a bit in it for a hash in an array.
func bitAt(h uint64, words []uint64) (word uint64, bit uint64) {
	at, low := bits.Mul64(h, uint64(len(words)))
	return at, 1 << (low >> 58) // the next six bits of the product
}

func addClassic(u *unit, h bloomblock.Hash) bool {
	words := u.words
	h1, h2, clearBits := uint64(h), secondHash(h), uint64(0)
	for range u.probes {
		w, bit := bitAt(h1, words)
		clearBits |= bit &^ words[w]
		words[w] |= bit
		h1 += h2
	}
	return clearBits != 0
}

func askClassic(u *unit, h bloomblock.Hash) bool {
	words := u.words
	h1, h2 := uint64(h), secondHash(h)
	for range u.probes {
		w, bit := bitAt(h1, words)
		if words[w]&bit == 0 {
			return false
		}
		h1 += h2
	}
	return true
}
