//go:build !linux || race

package pages

// Huge reports whether large loans are in huge pages, if the system has them.
const Huge = false

const slabBytes = 128 << 10

func keepSmall([]byte) {}

func forgetPages([]byte) {}

func mappedHuge(n int) []byte { return mapped(n) }
