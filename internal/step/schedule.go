//go:build schedule

package step

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Schedule says how Run chooses the goroutine that goes on.
type Schedule struct {
	Seed uint64
	Kind Kind
	Most int  // moments after which a run fails; 0 is 1,000,000
	Log  bool // the trace has a line for each moment
}

// A Kind is a kind of schedule.
type Kind uint8

const (
	// Mixed is one of the other two by the seed: three of four are Priorities.
	Mixed Kind = iota
	// Priorities gives each goroutine a random priority. The highest goes on until one of up to three random moments,
	// at which its priority becomes the lowest (PCT: Burckhardt et al., A Randomized Scheduler with Probabilistic
	// Guarantees of Finding Bugs, ASPLOS 2010: a bug that needs d-1 such moments shows in one of n·k^(d-1) runs of n
	// goroutines with k moments). In two of three seeds these are moments of the goroutines that begin after Meet, and
	// early ones are more likely: a call has few moments.
	Priorities
	// Uniform chooses among all goroutines that can go on, at each moment.
	Uniform
)

// A Trace is what happened in a run.
type Trace struct {
	Moments int
	Sum     uint64         // of all moments: equal for equal runs
	Counts  map[string]int // moments by name
	Lines   []string
	Err     error // no goroutine could go on, one of them panicked, or there was no end
}

// Run calls f and runs all goroutines that it begins with Go, and these in turn, one at a time as s says. It returns
// once all of them have ended. After an error it leaves goroutines behind. One Run is possible at a time.
func Run(s Schedule, f func()) Trace {
	c := &controller{
		Schedule: s, rng: rand.New(rand.NewPCG(s.Seed, 1)), end: make(chan struct{}),
		trace: Trace{Counts: map[string]int{}, Sum: 14695981039346656037},
	}
	if c.Most == 0 {
		c.Most = 1_000_000
	}
	if s.Kind == Mixed {
		c.Kind = Priorities
		if s.Seed%4 == 0 {
			c.Kind = Uniform
		}
	}
	c.changes, c.oneIn = 1+c.rng.IntN(3), 64<<c.rng.IntN(3)
	if c.byTurn = s.Seed%3 > 0; c.byTurn {
		for range c.changes {
			c.targets = append(c.targets, target{c.rng.IntN(4), 1 + c.rng.IntN(1<<c.rng.IntN(9))})
		}
	}
	if !active.CompareAndSwap(nil, c) {
		panic("step: a run is in progress")
	}
	defer active.Store(nil)
	c.current = c.add(f)
	c.current.turn <- struct{}{}
	<-c.end
	return c.trace
}

// active is the controller of the run in progress.
var active atomic.Pointer[controller]

// A controller lets one goroutine run at a time. What it has is used only by that one.
type controller struct {
	Schedule
	rng      *rand.Rand
	byTurn   bool
	targets  []target
	changes  int // of priorities that are left
	oneIn    int // moment, on average, of those at which a priority may change
	meeting  bool
	first    int          // goroutine that began after Meet
	all      []*goroutine // that have not ended
	began    int
	lowest   float64 // priority
	current  *goroutine
	trace    Trace
	finished bool
	end      chan struct{}
}

type goroutine struct {
	id       int
	priority float64
	turn     chan struct{} // capacity 1; receives when it goes on
	ready    func() bool   // what it waits for, or nil
	last     string        // the name of its last moment
	moments  int           // since Meet
}

func (c *controller) add(f func()) *goroutine {
	g := &goroutine{id: c.began, priority: c.rng.Float64(), turn: make(chan struct{}, 1), last: "begin"}
	c.began++
	c.all = append(c.all, g)
	go func() {
		<-g.turn
		debug.SetPanicOnFault(true) // memory that was given back is a mistake like others
		defer func() {
			if p := recover(); p != nil {
				c.fail(fmt.Errorf("goroutine %d: %v\n%s", g.id, p, debug.Stack()))
				return
			}
			c.all = slices.DeleteFunc(c.all, func(other *goroutine) bool { return other == g })
			switch next := c.choose(); {
			case len(c.all) == 0:
				c.finish()
			case next == nil:
				c.fail(c.stuck())
			default:
				c.current = next
				next.turn <- struct{}{}
			}
		}()
		f()
	}()
	return g
}

func (c *controller) finish() {
	if !c.finished {
		c.finished = true
		close(c.end)
	}
}

// fail ends the run with an error. The goroutine of the caller, unless it has panicked, stops for ever.
func (c *controller) fail(err error) {
	c.trace.Err = err
	c.finish()
}

func (c *controller) stuck() error {
	var b strings.Builder
	for _, g := range c.all {
		fmt.Fprintf(&b, " goroutine %d after %q;", g.id, g.last)
	}
	return fmt.Errorf("no goroutine can go on:%s", strings.TrimSuffix(b.String(), ";"))
}

// choose returns the goroutine that goes on, or nil if none can.
func (c *controller) choose() *goroutine {
	var best *goroutine
	n := 0
	for _, g := range c.all {
		if c.Kind != Uniform && best != nil && g.priority < best.priority || g.ready != nil && !g.ready() {
			continue
		}
		if n++; c.Kind != Uniform || c.rng.IntN(n) == 0 {
			best = g
		}
	}
	return best
}

// moment records a moment of the current goroutine and lets another one go on, if that is chosen.
func (c *controller) moment(name string) {
	g := c.current
	g.last = name
	c.trace.Moments++
	c.trace.Counts[name]++
	const prime = 1099511628211                 // FNV-1a
	sum := (c.trace.Sum ^ uint64(g.id)) * prime //nolint:gosec // not negative
	for i := range len(name) {
		sum = (sum ^ uint64(name[i])) * prime
	}
	c.trace.Sum = sum
	if c.Log {
		c.trace.Lines = append(c.trace.Lines, fmt.Sprintf("%d %s", g.id, name))
	}
	if c.trace.Moments == c.Most {
		c.fail(fmt.Errorf("no end after %d moments: %v", c.Most, c.frequent()))
		select {}
	}
	if c.Kind != Uniform && c.changesAt(g) {
		c.lower(g)
	}
	c.yield()
}

// A target is a moment at which a priority falls: that of a goroutine, by the order in which they begin after Meet.
type target struct{ goroutine, moment int }

// changesAt reports whether the priority of the current goroutine falls at this moment.
func (c *controller) changesAt(g *goroutine) bool {
	if !c.meeting {
		return false
	}
	if g.moments++; c.byTurn {
		return slices.Contains(c.targets, target{g.id - c.first, g.moments})
	}
	if c.changes == 0 || c.rng.IntN(c.oneIn) > 0 {
		return false
	}
	c.changes--
	return true
}

func (c *controller) lower(g *goroutine) {
	c.lowest--
	g.priority = c.lowest
}

// yield lets the chosen goroutine go on, and returns when the current one does.
func (c *controller) yield() {
	g, next := c.current, c.choose()
	switch {
	case next == nil:
		c.fail(c.stuck())
		select {}
	case next != g:
		c.current = next
		next.turn <- struct{}{}
		<-g.turn
	}
	g.ready = nil
}

// frequent returns the names of the most frequent moments.
func (c *controller) frequent() []string {
	names := slices.Collect(maps.Keys(c.trace.Counts))
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(c.trace.Counts[b], c.trace.Counts[a]) })
	return names[:min(5, len(names))]
}

// Scheduled reports whether goroutines run by a schedule.
const Scheduled = true

// Meet begins to change the priorities of goroutines, in Priorities: what comes before is only preparation.
func Meet() {
	if c := active.Load(); c != nil {
		c.meeting, c.first = true, c.began
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
}

// TryLock locks m and returns true, if nobody holds it.
func (m *Mutex) TryLock() bool {
	if !m.mu.TryLock() {
		return false
	}
	m.held.Store(true)
	return true
}

// Unlock unlocks m.
func (m *Mutex) Unlock() {
	m.held.Store(false)
	m.mu.Unlock()
}

// A Cond is a condition variable that the run knows.
type Cond struct {
	L     sync.Locker
	calls atomic.Uint64 // of Broadcast
	once  sync.Once
	real  *sync.Cond // used outside of runs
}

func (c *Cond) init() { c.once.Do(func() { c.real = sync.NewCond(c.L) }) }

// Wait unlocks L until Broadcast is called.
func (c *Cond) Wait() {
	if active.Load() == nil {
		c.init()
		c.real.Wait()
		return
	}
	before := c.calls.Load()
	c.L.Unlock()
	wait("cond", func() bool { return c.calls.Load() != before })
	c.L.Lock()
}

// Broadcast wakes all that wait.
func (c *Cond) Broadcast() {
	c.calls.Add(1)
	c.init()
	c.real.Broadcast()
}

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
		c.lower(c.current)
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
