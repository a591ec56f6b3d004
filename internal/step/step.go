//go:build !schedule

package step

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

type (
	// A Mutex is a sync.Mutex.
	Mutex = sync.Mutex
	// A Cond is a sync.Cond. Only Wait and Broadcast are used.
	Cond = sync.Cond
	// A WaitGroup is a sync.WaitGroup.
	WaitGroup = sync.WaitGroup
	// A Timer is a time.Timer made by AfterFunc.
	Timer = time.Timer
)

// Scheduled reports whether goroutines run by a schedule: then nothing may depend on addresses.
const Scheduled = false

// At names a moment at which another goroutine may go on.
func At(string) {}

// Assert panics in a schedule unless a condition holds.
func Assert(bool, string) {}

// Until precedes a select that may wait, and says what it waits for. ready must only look.
func Until(func() bool) {}

// Take receives from a channel that is either closed and never sent on, or has a capacity.
func Take[T any](ch <-chan T) T { return <-ch }

// TakeOr does what Take does until ctx ends: then ok is false.
func TakeOr[T any](ctx context.Context, ch <-chan T) (v T, ok bool) {
	select {
	case v = <-ch:
		return v, true
	case <-ctx.Done():
		return v, false
	}
}

// Go calls f on another goroutine.
func Go(f func()) { go f() }

// Poll pauses a loop that waits for a condition.
func Poll(d time.Duration) {
	runtime.Gosched()
	time.Sleep(d)
}

// Pause returns after d, or once ctx has ended.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Rand returns a random number below n.
func Rand(n uint32) uint32 { return rand.Uint32N(n) }

// Now is time.Now, for waits that depend on it.
func Now() time.Time { return time.Now() }

// Since is time.Since.
func Since(t time.Time) time.Duration { return time.Since(t) }

// AfterFunc is time.AfterFunc.
func AfterFunc(d time.Duration, f func()) *Timer { return time.AfterFunc(d, f) }

// AfterContext is context.AfterFunc.
func AfterContext(ctx context.Context, f func()) (stop func() bool) { return context.AfterFunc(ctx, f) }
