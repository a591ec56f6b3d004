package workload

import (
	"bytes"
	"cmp"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// run is the state of a running phase.
type run struct {
	store     Store
	full      FullStore // nil if the phase does not need it
	set       Set
	phase     Phase   // with defaults applied
	chooser   chooser // of keys of the set; for Absent and Insert, of absent keys
	chunk     int     // operations in a chunk
	chunkMem  int     // approximate bytes of values in a chunk
	clockCost time.Duration
	greatest  []byte // unsorted sets: the greatest key
	gate      *gate  // nil if each worker has a processor
	loops     Looper // nil if the store has no loops for this kind of phase
	allocated allocations

	next     atomic.Int64 // first operation that no worker has taken
	mu       sync.Mutex
	progress func(done, total int) // guarded by mu
	done     int                   // guarded by mu
	reported time.Time             // guarded by mu

	workers []*worker
}

// choose sets up the choice of keys and the size of chunks.
func (r *run) choose() (err error) {
	p, set := &r.phase, r.set
	n, choice := set.Len(), p.Choice
	switch p.Kind {
	case Load:
		n = cmp.Or(p.Records, n)
	case Absent:
		n = set.Absents()
	case Pop:
		choice = InOrder
	case Insert:
		n = set.Absents()
		if choice != InOrder {
			choice = Shuffled // each key once
		}
	case Serve:
		choice = p.Mix.Choice
	default:
	}
	if !set.Sorted() && (p.Kind == Seek || p.Mix.Scan > 0) { // PutSeek reads one entry, which is not the end
		r.greatest = greatestKey(set, cmp.Or(p.Records, set.Len()))
	}
	r.chooser, err = newChooser(choice, n, p.Seed)
	if choice == Zipfian && p.Ranks != 0 {
		r.chooser.perm = NewPermutation(n, p.Ranks)
	}
	if p.Workers > runtime.GOMAXPROCS(0) {
		r.gate = newGate(p.Workers)
	}
	r.chunk = r.chunkSize()
	return err
}

// greatestKey returns the greatest of the first n keys of a set.
func greatestKey(set Set, n int) []byte {
	var greatest, key []byte
	for i := range n {
		if key = set.AppendKey(key[:0], i); bytes.Compare(key, greatest) > 0 {
			greatest, key = key, greatest
		}
	}
	return greatest
}

// chunkSize returns the number of operations in a chunk. A chunk is kept small, judged by a sample of values, so that
// it does not push the store's data out of the processor's caches.
func (r *run) chunkSize() int {
	var sample []byte
	n := min(16, r.set.Len())
	for i := range n {
		sample = r.set.AppendValue(sample, i*(r.set.Len()/n))
	}
	perOp := max(1, len(sample)/max(n, 1))
	size := chunkOps
	if r.gate != nil {
		size *= 8 // waiting for the others takes 10 to 50 µs
	}
	entries := 1 // entries per operation
	switch r.phase.Kind {
	case Seek:
		entries = r.phase.Limit
	case Serve:
		entries = max(1, r.phase.Mix.ScanMost/2*r.phase.Mix.Scan/100)
	default:
	}
	if entries > 1 {
		size = max(8, size/entries)
		perOp = int(min(int64(perOp)*int64(entries), math.MaxInt32))
	}
	size = max(1, min(size, chunkBytes/perOp))
	if w := r.phase.Workers; w > 1 {
		size = min(size, max(1, r.phase.Ops/(8*w))) // so that all workers are busy most of the time
	}
	if b := r.phase.perCall(); b > 1 {
		size = max(1, size/b) * b // whole batches
	}
	r.chunkMem = int(min(int64(size)*int64(perOp), 2*chunkBytes))
	return size
}

// perCall returns the maximum number of operations in one call of the store.
func (p *Phase) perCall() int {
	switch p.Kind {
	case Load, Absent, Present:
		return max(p.Batch, 1)
	default:
		return 1
	}
}

// take returns the next chunk for a worker. With a gate, all workers take part in each round, some with an empty chunk
// in the last one.
func (r *run) take(worker, round int) (first, n int, ok bool) {
	if r.gate == nil {
		first = int(r.next.Add(int64(r.chunk))) - r.chunk
		return first, min(r.chunk, r.phase.Ops-first), first < r.phase.Ops
	}
	begin := round * r.chunk * r.phase.Workers
	first = begin + worker*r.chunk
	return first, max(0, min(r.chunk, r.phase.Ops-first)), begin < r.phase.Ops
}

// alone reports whether the calls of the chunk that starts at operation first are timed one by one. With a gate, all
// workers of a round do the same.
func (r *run) alone(first int) bool {
	together := r.chunk
	if r.gate != nil {
		together *= r.phase.Workers
	}
	chunks := (r.phase.Ops + together - 1) / together
	return first/together%aloneEvery == min(3, chunks-1)
}

// waitedFor returns the time by which a chunk takes longer if each worker takes d longer.
func (r *run) waitedFor(d time.Duration) time.Duration {
	if r.gate == nil {
		return d
	}
	return d * time.Duration(len(r.workers)) / time.Duration(runtime.GOMAXPROCS(0))
}

// looks returns how often the clock is read for a call that is timed alone.
func (r *run) looks() time.Duration {
	if r.phase.Kind == PutSeek {
		return 4 // around the whole operation and around Put
	}
	return 2
}

// clockCost measures the time that one reading of the clock adds.
func clockCost() time.Duration {
	costs := make([]float64, 0, 64)
	for range cap(costs) {
		begin := time.Now()
		for range 16 {
			_ = time.Since(begin)
		}
		costs = append(costs, float64(time.Since(begin))/17)
	}
	return time.Duration(Median(costs))
}

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
