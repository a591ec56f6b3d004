package foreign

import (
	"math/big"
	"testing"
)

func TestShiftsAreThoseOfANumberOf128Bits(t *testing.T) {
	const low, high = 0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9
	number := new(big.Int).Add(new(big.Int).Lsh(new(big.Int).SetUint64(high), 64), new(big.Int).SetUint64(low))
	word := new(big.Int).SetUint64(1<<64 - 1)
	halves := func(v *big.Int) [2]uint64 {
		return [2]uint64{
			new(big.Int).And(v, word).Uint64(), new(big.Int).And(new(big.Int).Rsh(v, 64), word).Uint64(),
		}
	}
	for n := range uint(ribbonSlots) {
		a, b := shiftLeft(low, high, n)
		if got, want := [2]uint64{a, b}, halves(new(big.Int).Lsh(number, n)); got != want {
			t.Errorf("%d to the left: %x, want %x", n, got, want)
		}
		a, b = shiftRight(low, high, n)
		if got, want := [2]uint64{a, b}, halves(new(big.Int).Rsh(number, n)); got != want {
			t.Errorf("%d to the right: %x, want %x", n, got, want)
		}
	}
}
