//go:build schedule

package step

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Scheduled reports whether goroutines run by a schedule.
const Scheduled = true

// Meet begins to change the priorities of goroutines, in Priorities: what comes before is only preparation.
func Meet() {
	if c := active.Load(); c != nil {
		c.meeting = c.current
	}
}

// Met ends what Meet began.
func Met() {
	if c := active.Load(); c != nil {
		c.meeting = nil
	}
}

// Later returns after n falls of priorities since Meet, or since the goroutine last returned from Later, or when no
// other goroutine can go on: a call that begins then meets one that has stopped halfway. In Uniform it returns at once.
func Later(n int) {
	if c := active.Load(); c != nil && c.Kind != Uniform && n > 0 {
		g := c.current
		g.late = true
		n += g.since
		wait("later", func() bool { return c.fallen >= n })
		g.late, g.since = false, c.fallen
	}
}

// At lets another goroutine go on, if the schedule wants that.
func At(name string) {
	if f, ok := calls.Load(name); ok {
		f.(func())() //nolint:errcheck,forcetypeassert // stored by On
	}
	if c := active.Load(); c != nil {
		c.moment(name)
	}
}

var calls sync.Map // by name: functions that At calls

// On has f called at each moment of a name, on its goroutine, until the returned function is called. f may meet such a
// moment itself.
func On(name string, f func()) (off func()) {
	calls.Store(name, f)
	return func() { calls.Delete(name) }
}

// Assert panics unless a condition holds.
func Assert(holds bool, what string) {
	if !holds {
		panic("step: " + what)
	}
}

// Until returns once ready returns true.
func Until(ready func() bool) { wait("wait", ready) }

func wait(name string, ready func() bool) {
	c := active.Load()
	if c == nil || ready() {
		return
	}
	c.current.last = name
	c.current.ready = ready
	c.yield()
}

// Take receives from a channel that is either closed and never sent on, or has a capacity.
func Take[T any](ch <-chan T) T {
	Until(func() bool { return filled(ch) })
	return <-ch
}

// TakeOr does what Take does until ctx ends: then ok is false.
func TakeOr[T any](ctx context.Context, ch <-chan T) (v T, ok bool) {
	if active.Load() == nil {
		select {
		case v = <-ch:
			return v, true
		case <-ctx.Done():
			return v, false
		}
	}
	Until(func() bool { return filled(ch) || ctx.Err() != nil })
	if ctx.Err() != nil {
		return v, false
	}
	return <-ch, true
}

// filled reports whether a receipt does not wait.
func filled[T any](ch <-chan T) bool {
	if cap(ch) > 0 {
		return len(ch) > 0
	}
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// Go calls f on another goroutine of the run.
func Go(f func()) {
	c := active.Load()
	if c == nil {
		go f()
		return
	}
	c.add(f)
	c.moment("go")
}

// Poll lets all others go on first: the time is as long as that takes.
func Poll(d time.Duration) {
	c := active.Load()
	if c == nil {
		time.Sleep(d)
		return
	}
	c.lower(c.current)
	c.moment("poll")
}

// Pause is a Poll: time is as the schedule wants.
func Pause(ctx context.Context, d time.Duration) {
	if c := active.Load(); c != nil {
		if ctx.Err() == nil {
			Poll(d)
		}
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Rand returns a number below n, of the schedule.
func Rand(n uint32) uint32 {
	if c := active.Load(); c != nil {
		return c.rng.Uint32N(n)
	}
	return rand.Uint32N(n)
}

// Now returns a time at which each moment has taken a microsecond.
func Now() time.Time {
	if c := active.Load(); c != nil {
		return time.Unix(0, int64(c.trace.Moments)*1000)
	}
	return time.Now()
}

// Since returns the time since t.
func Since(t time.Time) time.Duration { return Now().Sub(t) }

// A Mutex is a mutex that the run knows.
type Mutex struct {
	mu   sync.Mutex
	held atomic.Bool
}

// Lock locks m.
func (m *Mutex) Lock() {
	wait("lock", func() bool { return !m.held.Load() })
	m.mu.Lock()
	m.held.Store(true)
	holds(1)
}

// holds adds to the number of locks of the current goroutine.
func holds(more int) {
	if c := active.Load(); c != nil {
		c.current.locks += more
	}
}

// TryLock locks m and returns true, if nobody holds it.
func (m *Mutex) TryLock() bool {
	if !m.mu.TryLock() {
		return false
	}
	m.held.Store(true)
	holds(1)
	return true
}

// Unlock unlocks m.
func (m *Mutex) Unlock() {
	holds(-1)
	m.held.Store(false)
	m.mu.Unlock()
}

// A Cond is a condition variable that the run knows.
type Cond struct {
	L     sync.Locker
	calls atomic.Uint64 // of Broadcast
}

// Wait unlocks L until Broadcast is called.
func (c *Cond) Wait() {
	before := c.calls.Load()
	woken := func() bool { return c.calls.Load() != before }
	c.L.Unlock()
	for active.Load() == nil && !woken() { // outside of runs
		time.Sleep(100 * time.Microsecond)
	}
	wait("cond", woken)
	c.L.Lock()
}

// Broadcast wakes all that wait.
func (c *Cond) Broadcast() { c.calls.Add(1) }

// A WaitGroup is a group of goroutines that the run knows.
type WaitGroup struct {
	real sync.WaitGroup
	n    atomic.Int64
}

// Add adds delta to the counter.
func (w *WaitGroup) Add(delta int) {
	w.n.Add(int64(delta))
	w.real.Add(delta)
}

// Done subtracts one.
func (w *WaitGroup) Done() { w.Add(-1) }

// Go calls f on another goroutine and adds it to the group.
func (w *WaitGroup) Go(f func()) {
	w.Add(1)
	Go(func() {
		defer w.Done()
		f()
	})
}

// Wait returns once the counter is zero.
func (w *WaitGroup) Wait() {
	wait("group", func() bool { return w.n.Load() == 0 })
	w.real.Wait()
}

// A Timer calls a function once, unless it is stopped.
type Timer struct {
	real    *time.Timer // outside of runs
	decided atomic.Bool // it was stopped, or it has fired
}

// Stop prevents the call and returns true, unless it was made or stopped before.
func (t *Timer) Stop() bool {
	if t.real != nil {
		return t.real.Stop()
	}
	return t.decided.CompareAndSwap(false, true)
}

// AfterFunc calls f whenever the schedule wants.
func AfterFunc(d time.Duration, f func()) *Timer {
	c := active.Load()
	if c == nil {
		return &Timer{real: time.AfterFunc(d, f)}
	}
	t := &Timer{}
	Go(func() {
		if c.rng.IntN(2) == 0 {
			c.lower(c.current)
		}
		c.moment("timer")
		if t.decided.CompareAndSwap(false, true) {
			f()
		}
	})
	return t
}

// AfterContext calls f once ctx has ended, unless stop is called before.
func AfterContext(ctx context.Context, f func()) (stop func() bool) {
	switch {
	case active.Load() == nil:
		return context.AfterFunc(ctx, f)
	case ctx.Done() == nil:
		return func() bool { return true }
	}
	t := &Timer{}
	Go(func() {
		wait("context", func() bool { return ctx.Err() != nil || t.decided.Load() })
		if t.decided.CompareAndSwap(false, true) {
			f()
		}
	})
	return t.Stop
}
