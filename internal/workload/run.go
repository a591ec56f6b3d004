package workload

import (
	"bytes"
	"cmp"
	"context"
	"errors"
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

// begin makes the workers, and counts from here on what is allocated.
func (r *run) begin(workers int) {
	for range workers {
		r.workers = append(r.workers, newWorker(r))
	}
	r.allocated = countAllocations()
}

// operations runs the chunks of a phase on its workers.
func (r *run) operations(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	r.begin(r.phase.Workers)
	for _, w := range r.workers {
		group.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				first, n, ok := r.take(w.id, round)
				if !ok {
					return
				}
				if err := w.runChunk(first, n); err != nil {
					cancel(err)
					break
				}
				r.report(n)
			}
			r.gate.open() // nobody must wait for who has failed
		})
	}
	group.Wait()
	return context.Cause(ctx)
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

// report counts n more operations as done and says so, at the end and at most every 50 ms before.
func (r *run) report(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done += n
	if r.progress == nil {
		return
	}
	if now := time.Now(); r.done == r.phase.Ops || now.Sub(r.reported) >= 50*time.Millisecond {
		r.reported = now
		r.progress(r.done, r.phase.Ops)
	}
}

// once times one call.
func (r *run) once(ctx context.Context, call func(context.Context) error) error {
	r.begin(1)
	begin := time.Now()
	if err := call(ctx); err != nil {
		return err
	}
	r.took(time.Since(begin))
	return nil
}

// took counts the one operation of a phase.
func (r *run) took(d time.Duration) {
	w := r.workers[0]
	w.ops = 1
	w.record(d, 1)
	w.calls.add(uint64(max(d, 0)))
	r.report(1)
}

// reopen takes the time that the store says.
func (r *run) reopen(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.begin(1)
	d, err := r.store.Reopen()
	if err != nil {
		return err
	}
	r.took(d)
	return nil
}

// isEmpty checks that all was popped.
func (r *run) isEmpty() error {
	return r.store.Scan(nil, 1, func(key, _ []byte) error {
		r.workers[0].wrong("key %q is there when all were popped", key)
		return nil
	})
}

// errEnough ends a scan that has read what it wanted.
var errEnough = errors.New("enough")

// scan reads the store from its first key, in chunks: the clock stands while a chunk is checked.
func (r *run) scan(ctx context.Context) error {
	r.chunk = chunkOps
	r.begin(1)
	w := r.workers[0]
	want := r.phase.Ops
	var last []byte // the last key of the chunks before
	begin := time.Now()
	check := func() {
		w.record(time.Since(begin), w.answers.len())
		for i := range w.answers.len() {
			key := w.answers.key(i)
			if w.ops > 0 && string(key) <= string(last) {
				w.wrong("scan: key %q comes after %q", key, last)
			}
			w.checkPair(key, w.answers.value(i), w.ops)
			last = append(last[:0], key...)
			w.ops++
		}
		r.report(w.answers.len())
		w.answers.reset()
	}
	limit := 0
	if want < r.set.Len() {
		limit = max(want, 1)
	}
	err := r.store.Scan(nil, limit, func(key, value []byte) error {
		if w.ops+w.answers.len() == want {
			w.wrong("scan: key %q comes after the %d that were asked for", key, want)
			return errEnough
		}
		w.answers.add(key, value)
		if w.answers.len() < r.chunk && len(w.answers.values) < chunkBytes {
			return nil
		}
		check()
		begin = time.Now()
		return ctx.Err()
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	check()
	if w.ops < want {
		w.wrong("scan: ends after %d keys, want %d", w.ops, want)
	}
	return nil
}

// figures sums up the workers.
func (r *run) figures() Figures {
	allocated := countAllocations()
	f := Figures{Phase: r.phase.Name}
	var busy time.Duration
	var whole, alone, putting []float64
	var calls histogram
	for _, w := range r.workers {
		f.Ops += w.ops
		busy += w.busy
		whole = append(whole, w.whole...)
		alone = append(alone, w.alone...)
		putting = append(putting, w.putting...)
		calls.merge(&w.calls)
		f.Wrong += w.wrongs
		if f.FirstWrong == "" {
			f.FirstWrong = w.firstWrong
		}
	}
	workers := float64(len(r.workers))
	f.Elapsed = time.Duration(float64(busy) / workers)
	f.MeanNs = float64(f.Elapsed) / float64(max(f.Ops, 1))
	if len(whole) == 0 {
		whole = alone
	}
	f.MedianNs = Median(whole) / workers
	f.PutNs = Median(putting) / workers
	f.P50Ns, f.P99Ns, f.P999Ns, f.MaxNs = calls.quantile(0.50), calls.quantile(0.99), calls.quantile(0.999), float64(calls.largest)
	f.Latencies = calls.nonEmpty()
	f.AllocsPerOp = float64(allocated.objects-r.allocated.objects) / float64(max(f.Ops, 1))
	f.BytesPerOp = float64(allocated.bytes-r.allocated.bytes) / float64(max(f.Ops, 1))
	return f
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
