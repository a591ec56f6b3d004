package bloom

import (
	"math"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
)

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

// The position in array i is that of probe i of Classic.

func (f *Filter) addPartitioned(h bloomblock.Hash) bool {
	at, mul, step, clearBits := uint64(h), f.mul, f.step(h), uint64(0)
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
	at, mul, step := uint64(h), f.mul, f.step(h)
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
