package epoch

import (
	"math/bits"
	"unsafe"
)

// Stripe returns a number in [0, n) for the calling goroutine. Data that all goroutines write is kept in stripes on
// separate cache lines, so that goroutines on different processors rarely write to the same one; Go has no data for
// each processor. Two goroutines get the same stripe with a probability of 1/n.
//
// The number is derived from the address of the stack, so that a goroutine keeps to few stripes. It takes 1 ns.
func Stripe(n uint64) int {
	var here byte
	// Stacks are at least 2 KiB, never shared, and lie at small multiples of a power of two from each other. One
	// multiplication would map such neighbours to neighbouring stripes, and often to the same.
	h := uint64(uintptr(unsafe.Pointer(&here))>>11) * 0x9e3779b97f4a7c15
	i, _ := bits.Mul64((h^h>>29)*0xbf58476d1ce4e5b9, n)
	return int(i) //nolint:gosec // below n
}
