package workload

import (
	"sync"
	"time"
)

// A gate makes workers start and end their chunks together. It is used when there are more workers than processors.
// Without it, some workers would prepare keys and check answers, which is not timed, on processors that the timed
// workers wait for. The time of a chunk is then the time from the arrival of the last worker before it to the arrival
// of the last worker after it.
type gate struct {
	mu     sync.Mutex
	all    sync.Cond // uses mu
	size   int       // workers
	here   int       // guarded by mu; workers that wait
	turn   int       // guarded by mu; number of times that the gate has opened
	last   time.Time // guarded by mu; time of the last opening
	broken bool      // guarded by mu
}

func newGate(workers int) *gate {
	g := &gate{size: workers}
	g.all.L = &g.mu
	return g
}

// pass waits for all workers and returns the time at which the last one arrived, the same for each. With a nil or
// broken gate it does not wait.
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
	return g.last // the gate cannot open again before this worker arrives
}

// open breaks the gate, because a worker has failed and will not arrive.
func (g *gate) open() {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.broken = true
	g.all.Broadcast()
	g.mu.Unlock()
}
