package testkit

import (
	"runtime"
	"testing"
	"time"
)

// Patience bounds all waiting of tests. What takes longer hangs, even on a busy machine.
const Patience = 2 * time.Minute

// Soon waits until a condition holds, and ends the test if it does not within Patience.
func Soon(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for begin := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > Patience {
			tb.Fatalf("%s: not within %v", what, Patience)
		}
	}
}

// Within ends the test with the stacks of all goroutines if f does not return within Patience, so that a hang does not
// look like a slow machine.
func Within(tb testing.TB, what string, f func()) {
	tb.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(Patience):
		buf := make([]byte, 1<<20)
		tb.Fatalf("%s did not return within %v\n%s", what, Patience, buf[:runtime.Stack(buf, true)])
	}
}
