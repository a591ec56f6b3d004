package testkit

import "testing"

// Long says that a test takes long, and computes or uses stores in one goroutine. With -short it is skipped, as under
// the race detector and with 32-bit words in .ci/run: others show what these can find.
func Long(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("long")
	}
}

// LongUnderRace is Long for a test that 32-bit words may fail: -short skips it under the race detector alone.
func LongUnderRace(tb testing.TB) {
	tb.Helper()
	if RaceEnabled {
		Long(tb)
	}
}
