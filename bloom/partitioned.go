package bloom

import (
	"math"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// makePartitioned makes k arrays of w bits, the smallest for which (1-(1-1/w)^keys)^k is at most the rate. The arrays
// are independent, so this is the exact rate for every number of keys.
func (f *Filter) makePartitioned() error {
	_, arrays := classicSize(f.options.Keys, f.options.Rate)
	width := 0.0
	if f.options.Keys > 0 {
		set := math.Pow(f.options.Rate, 1/float64(arrays)) // share of the bits to be set
		width = -1 / math.Expm1(math.Log1p(-set)/float64(f.options.Keys))
	}
	for range arrays {
		if err := f.addUnit(width, 1, 1); err != nil {
			return err
		}
	}
	return nil
}

// The position in array i is that of h1 + i·h2, as for Classic.

func (f *Filter) addPartitioned(h bloomblock.Hash) bool {
	h1, h2, clearBits := uint64(h), secondHash(h), uint64(0)
	for i := range f.units {
		words := f.units[i].words
		w, bit := bitAt(h1, words)
		clearBits |= bit &^ words[w]
		words[w] |= bit
		h1 += h2
	}
	return clearBits != 0
}

func (f *Filter) askPartitioned(h bloomblock.Hash) bool {
	h1, h2 := uint64(h), secondHash(h)
	for i := range f.units {
		words := f.units[i].words
		w, bit := bitAt(h1, words)
		if words[w]&bit == 0 {
			return false
		}
		h1 += h2
	}
	return true
}
