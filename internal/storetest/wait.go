package storetest

import (
	"runtime"
	"testing"
	"time"
)

// Soon waits until a condition holds, and fails the test if it takes more than 30 seconds.
func Soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for begin := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 30*time.Second {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// Within fails the test with the stacks of all goroutines if f takes too long, so that a hang does not look like a slow
// machine.
func Within(t *testing.T, limit time.Duration, what string, f func()) {
	t.Helper()
	if RaceEnabled {
		limit *= 4
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		buf := make([]byte, 1<<20)
		t.Fatalf("%s did not return within %v\n%s", what, limit, buf[:runtime.Stack(buf, true)])
	}
}

// AtStride returns n, or a small part of it if tests are short, and a smaller one under the race detector, which is
// slow.
func AtStride(n int) int {
	switch {
	case RaceEnabled:
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
