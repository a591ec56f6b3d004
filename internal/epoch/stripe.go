package epoch

import "unsafe"

// Stripes are the parts that what all goroutines write is kept in, on cache lines of their own, so that goroutines on
// different processors rarely write to the same one: in place of data of each processor, which Go does not have. Two
// goroutines meet in one of Stripes cases.
const Stripes = 1 << stripeBits

const stripeBits = 6

// Stripe is the one of the goroutine that calls, in [0, Stripes). It follows from where its stack is and how deep, so that a
// goroutine stays with few of them. It takes 1 ns.
func Stripe() int {
	var here byte
	// Stacks are at least 2 KiB, never shared, and lie at small multiples of a power of two from each other. One
	// multiplication would send such neighbours to neighbouring stripes, and often to the same.
	h := uint64(uintptr(unsafe.Pointer(&here))>>11) * 0x9e3779b97f4a7c15
	return int((h ^ h>>29) * 0xbf58476d1ce4e5b9 >> (64 - stripeBits))
}
