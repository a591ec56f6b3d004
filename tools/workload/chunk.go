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
	crew      int    // workers that run their chunks together: 1 if each has a processor, else all of them
	loops     Looper // nil if the store has no loops for this kind of phase
	allocated allocations

	next     atomic.Int64 // first operation that no worker has taken
	mu       sync.Mutex
	progress func(done, total int) // guarded by mu
	done     int                   // guarded by mu
	reported time.Time             // guarded by mu

	workers []*worker
	orders  chan order
	ordered sync.WaitGroup // orders that are carried out
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
	if r.crew = 1; p.Workers > runtime.GOMAXPROCS(0) {
		r.crew = p.Workers
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
	if r.crew > 1 {
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

// alone reports whether the calls of the chunks that start at operation first are timed one by one.
func (r *run) alone(first int) bool {
	together := r.crew * r.chunk
	chunks := (r.phase.Ops + together - 1) / together
	return first/together%aloneEvery == min(3, chunks-1)
}

// waitedFor returns the time by which a chunk takes longer if each worker takes d longer.
func (r *run) waitedFor(d time.Duration) time.Duration {
	if r.crew == 1 {
		return d
	}
	return d * time.Duration(r.crew) / time.Duration(runtime.GOMAXPROCS(0))
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
