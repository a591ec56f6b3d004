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

// Seeds returns how many cases a test draws at random, where n find much: Long times n in a long run, a quarter of n in
// an ordinary one, and a small part as AtStride does.
func Seeds(n int) int {
	if part := AtStride(n); part < n {
		return part
	} else if *Long > 1 {
		return n * *Long
	}
	return (n + 3) / 4
}

// Stride returns how many places a test that fails, damages or crashes at each in turn goes on by. In a long run it is
// each place, in an ordinary one every seventh. No stride has a factor in common with the six states that each crash
// leaves, so that all of their kinds come in turn.
func Stride() int {
	switch {
	case testkit.RaceEnabled:
		return 301
	case testing.Short():
		return 25
	case *Long > 1:
		return 1
	}
	return 7
}
