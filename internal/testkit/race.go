package testkit

import "testing"

// InOneGoroutine says that a test computes, or uses stores, in one goroutine and takes long under the race detector,
// where -short skips it: other tests show the detector the goroutines of stores, and calls side by side.
func InOneGoroutine(tb testing.TB) {
	tb.Helper()
	if RaceEnabled && testing.Short() {
		tb.Skip("in one goroutine")
	}
}
