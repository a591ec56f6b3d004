package workload

import (
	"sync"
	"time"
)

// A gate makes workers begin and end their chunks together, where there are more of them than processors: else some would
// make keys and check answers, uncounted, on processors that others' clocks wait for, and some would be timed as if each had
// one of its own. What a chunk took is then the time from the last worker's arrival before it to the last one's after it.
type gate struct {
	mu     sync.Mutex
	all    sync.Cond // uses mu
	size   int       // workers
	here   int       // guarded by mu; who wait
	turn   int       // guarded by mu; how often it has opened
	last   time.Time // guarded by mu; when it last did
	broken bool      // guarded by mu
}

func newGate(workers int) *gate {
	g := &gate{size: workers}
	g.all.L = &g.mu
	return g
}

// pass waits for all workers and returns when the last one came, the same time to each. A nil gate waits for nobody, and a
// broken one for nobody any more.
func (g *gate) pass() time.Time {
	if g == nil {
		return time.Now()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.here++
	if g.here == g.size {
		g.here, g.last = 0, time.Now()
		g.turn++
		g.all.Broadcast()
		return g.last
	}
	for turn := g.turn; turn == g.turn; {
		if g.broken {
			return time.Now()
		}
		g.all.Wait()
	}
	return g.last // it cannot open again before this worker comes
}

// open breaks the gate: a worker has failed and will not come.
func (g *gate) open() {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.broken = true
	g.all.Broadcast()
	g.mu.Unlock()
}
