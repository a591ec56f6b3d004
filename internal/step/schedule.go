//go:build schedule

package step

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
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
	// Mixed is one of the other two by the seed: seven of eight are Priorities.
	Mixed Kind = iota
	// Priorities gives each goroutine a random priority. The highest goes on until one of a few random moments after
	// Meet, at which its priority falls below those of all that have not fallen (PCT: Burckhardt et al., A Randomized
	// Scheduler with Probabilistic Guarantees of Finding Bugs, ASPLOS 2010: a bug that needs d-1 such moments shows in
	// one of n·k^(d-1) runs of n goroutines with k moments). In most seeds only a few priorities fall, so that the
	// goroutine that matters stays behind. More likely are moments of a name that was rare until then, since most are
	// of files and guards; those under locks, since readers without locks may see what is half done, and in half of the
	// seeds nearly only these; and those of goroutines that the caller of Meet began.
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
		trace: Trace{Counts: map[string]int{}, Sum: 14695981039346656037}, lowest: -1,
	}
	if c.Most == 0 {
		c.Most = 1_000_000
	}
	if s.Kind == Mixed {
		c.Kind = Priorities
		if s.Seed%8 == 0 {
			c.Kind = Uniform
		}
	}
	c.flat = []float64{0.001, 0.004, 0.016}[c.rng.IntN(3)]
	c.beside = []float64{0.1, 0.1, 0.1, 0.1, 1}[c.rng.IntN(5)]
	if c.locked = c.rng.IntN(2) == 0; c.locked {
		c.rare = []float64{0.04, 0.08, 0.16}[c.rng.IntN(3)]
		c.left = 2 + c.rng.IntN(3)
	} else {
		c.rare = []float64{0, 0.1, 0.2, 0.3}[c.rng.IntN(4)]
		c.left = []int{2, 3, 4, 10, 30}[c.rng.IntN(5)]
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
	rare     float64      // chance of a fall at the first moment of a name, without locks, or with one if locked
	locked   bool         // the first to fall does so under locks
	flat     float64      // and at any moment, once a priority has fallen
	beside   float64      // share of these chances that others have than those that the one that called Meet began
	left     int          // how many may still fall
	fallen   int          // how many have
	meeting  *goroutine   // called Meet; nil before and after
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
	locks    int           // that it holds
	meets    bool          // the one that called Meet began it
	late     bool          // it goes on if nobody else can
	since    int           // priorities that had fallen when it last returned from Later
	last     string        // the name of its last moment
}

func (c *controller) add(f func()) *goroutine {
	g := &goroutine{id: c.began, priority: c.rng.Float64(), turn: make(chan struct{}, 1), last: "begin"}
	g.meets = c.meeting != nil && c.meeting == c.current
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
	var best, late *goroutine
	n := 0
	for _, g := range c.all {
		if c.Kind != Uniform && best != nil && g.priority < best.priority {
			continue
		}
		if g.ready != nil && !g.ready() {
			if g.late && (late == nil || g.priority > late.priority) {
				late = g
			}
			continue
		}
		if n++; c.Kind != Uniform || c.rng.IntN(n) == 0 {
			best = g
		}
	}
	return cmp.Or(best, late)
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
	if c.Kind != Uniform && c.falls(name) {
		g.priority = -c.rng.Float64()
	}
	c.yield()
}

// falls reports whether the priority of the current goroutine falls at a moment of a name.
func (c *controller) falls(name string) bool {
	if c.meeting == nil || c.left == 0 {
		return false
	}
	locks := float64(c.current.locks)
	weight := 1 + locks
	if c.locked {
		weight = locks * locks
	}
	chance := c.rare * weight / float64(c.trace.Counts[name])
	if c.fallen > 0 || c.rare == 0 {
		chance += c.flat
	}
	if !c.current.meets {
		chance *= c.beside
	}
	if c.rng.Float64() >= chance {
		return false
	}
	c.left--
	c.fallen++
	return true
}

// lower makes the priority of g the lowest.
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
	g.ready, g.late = nil, false
}

// frequent returns the names of the most frequent moments.
func (c *controller) frequent() []string {
	names := slices.Collect(maps.Keys(c.trace.Counts))
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(c.trace.Counts[b], c.trace.Counts[a]) })
	return names[:min(5, len(names))]
}
