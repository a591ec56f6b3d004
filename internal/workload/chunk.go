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

// run is a phase under way.
type run struct {
	store     Store
	set       Set
	phase     Phase   // with defaults
	chooser   chooser // of keys of the set; of absent keys for Absent
	absents   chooser // Insert, Delete: of absent keys
	chunk     int     // operations in a chunk
	chunkMem  int     // bytes of values in a chunk, about
	clockCost time.Duration
	greatest  []byte // an unsorted set: the last key in order
	gate      *gate  // nil where each worker has a processor
	allocated allocations

	next     atomic.Int64 // the first operation that no worker has taken
	mu       sync.Mutex
	progress func(done, total int) // guarded by mu
	done     int                   // guarded by mu
	reported time.Time             // guarded by mu

	workers []*worker
}

// choose makes ready what the workers choose keys with.
func (r *run) choose() (err error) {
	p, set := &r.phase, r.set
	if !set.Sorted() && (p.Kind == Seek || p.Kind == PutSeek) {
		r.greatest = greatestKey(set, set.Len())
	}
	n, choice := set.Len(), p.Choice
	switch p.Kind {
	case Load:
		n = cmp.Or(p.Records, n)
	case Absent:
		n = set.Absents()
	case Pop:
		choice = InOrder
	case Insert, Delete:
		each := Shuffled // once
		if choice == InOrder {
			each = InOrder
		}
		if r.absents, err = newChooser(each, set.Absents(), 0, p.Seed); err != nil {
			return err
		}
	case Serve:
		n, choice = set.Len(), p.Mix.Choice
		if !set.Sorted() && p.Mix.Scan > 0 {
			r.greatest = greatestKey(set, p.Ledger.Records())
		}
	default:
	}
	r.chooser, err = newChooser(choice, n, p.Skew, p.Seed)
	if p.Workers > runtime.GOMAXPROCS(0) {
		r.gate = newGate(p.Workers)
	}
	r.chunk = r.chunkSize()
	return err
}

// greatestKey is the last of the first n keys of a set, in the order of keys.
func greatestKey(set Set, n int) []byte {
	var greatest, key []byte
	for i := range n {
		if key = set.AppendKey(key[:0], i); bytes.Compare(key, greatest) > 0 {
			greatest, key = key, greatest
		}
	}
	return greatest
}

// chunkSize keeps what a chunk holds small beside the caches that the store wants: by the values of a sample.
func (r *run) chunkSize() int {
	var sample []byte
	n := min(16, r.set.Len())
	for i := range n {
		sample = r.set.AppendValue(sample, i*(r.set.Len()/n))
	}
	perOp := max(1, len(sample)/max(n, 1))
	size := chunkOps
	if r.gate != nil {
		size *= 8 // to meet takes 10 to 50 µs
	}
	entries := 1 // of an operation
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
		size = min(size, max(1, r.phase.Ops/(8*w))) // so that all are busy most of the time
	}
	if b := r.phase.perCall(); b > 1 {
		size = max(1, size/b) * b // whole batches
	}
	r.chunkMem = int(min(int64(size)*int64(perOp), 2*chunkBytes))
	return size
}

// perCall is how many operations a call of the store does at most.
func (p *Phase) perCall() int {
	switch p.Kind {
	case Load, Absent, Present:
		return max(p.Batch, 1)
	default:
		return 1
	}
}

// take is the next chunk for a worker. Through a gate all workers go in each round, some with nothing in the last.
func (r *run) take(worker, round int) (first, n int, ok bool) {
	if r.gate == nil {
		first = int(r.next.Add(int64(r.chunk))) - r.chunk
		return first, min(r.chunk, r.phase.Ops-first), first < r.phase.Ops
	}
	begin := round * r.chunk * r.phase.Workers
	first = begin + worker*r.chunk
	return first, max(0, min(r.chunk, r.phase.Ops-first)), begin < r.phase.Ops
}

// alone reports whether the calls of the chunk that begins at an operation are timed one by one: through a gate, those of all
// workers or of none.
func (r *run) alone(first int) bool {
	together := r.chunk
	if r.gate != nil {
		together *= r.phase.Workers
	}
	chunks := (r.phase.Ops + together - 1) / together
	return first/together%aloneEvery == min(3, chunks-1)
}

// waitedFor is how much longer a chunk takes if each worker takes d longer.
func (r *run) waitedFor(d time.Duration) time.Duration {
	if r.gate == nil {
		return d
	}
	return d * time.Duration(len(r.workers)) / time.Duration(runtime.GOMAXPROCS(0))
}

// looks is how often the clock is looked at for a call that is timed alone.
func (r *run) looks() time.Duration {
	if r.phase.Kind == PutSeek {
		return 4 // before and after all of it, and Put
	}
	return 2
}

// clockCost is what timing one call adds to it.
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
