package epoch

import (
	"math/bits"
	"unsafe"
)

// Stripe is one of n, in [0, n), for the goroutine that calls. What all goroutines write is kept in stripes on cache lines of
// their own, so that goroutines on different processors rarely write to the same one: in place of data of each processor, which
// Go does not have. Two goroutines meet in one of n cases.
//
// It follows from where the goroutine's stack is and how deep, so that a goroutine stays with few stripes. It takes 1 ns.
func Stripe(n uint64) int {
	var here byte
	// Stacks are at least 2 KiB, never shared, and lie at small multiples of a power of two from each other. One
	// multiplication would send such neighbours to neighbouring stripes, and often to the same.
	h := uint64(uintptr(unsafe.Pointer(&here))>>11) * 0x9e3779b97f4a7c15
	i, _ := bits.Mul64((h^h>>29)*0xbf58476d1ce4e5b9, n)
	return int(i) //nolint:gosec // below n
}
