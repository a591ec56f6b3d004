package storetest

import (
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

// AtStride returns n, or a small part of it if tests are short, and a smaller one under the race detector, which is
// slow.
func AtStride(n int) int {
	switch {
	case testkit.RaceEnabled:
		return max(1, n/60)
	case testing.Short():
		return max(1, n/20)
	}
	return n
}

// Seeds returns how many cases a test draws at random, where n find much: Long times n in a long run, a third of n in
// an ordinary one, and a small part as AtStride does.
func Seeds(n int) int {
	if part := AtStride(n); part < n {
		return part
	} else if *Long > 1 {
		return n * *Long
	}
	return (n + 2) / 3
}
