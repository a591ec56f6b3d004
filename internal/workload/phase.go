package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Kind is what a phase does.
type Kind uint8

const (
	Load    Kind = iota // puts pairs of the set; done again, it overwrites them with the same
	Absent              // looks up absent keys
	Present             // looks up keys of the set
	Mixed               // looks up keys of the set, and puts some
	Seek                // goes to a key of the set and reads on from there
	Insert              // puts absent keys if they are absent, and tries the same with keys of the set: see NewPercent
	Delete              // removes the absent keys that an Insert with the same Ops, NewPercent, Choice and Seed has put
	PutSeek             // puts a pair of the set, and goes to it with a Scan of one: an iterator for each write
	Serve               // runs a Mix of operations, such as those of YCSB

	// Those below have one worker.
	Scan    // reads all pairs in order
	Pop     // takes the first pair of the store and deletes it, in a sorted set; of all, an empty store is left
	Flush   // Store.Flush, one operation
	Settle  // Store.Settle, one operation
	Compact // Store.Compact, one operation
	Reopen  // Store.Reopen, one operation
)

// String names the kind.
func (k Kind) String() string {
	names := [...]string{
		"load", "absent", "present", "mixed", "seek", "insert", "delete", "put and seek", "serve", "scan", "pop", "flush", "settle", "compact", "reopen",
	}
	if int(k) < len(names) {
		return names[k]
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// A Phase is a number of operations of one kind. All but Load expect that all of the set has been loaded, and nothing else;
// Serve that the records of its ledger have been.
type Phase struct {
	Name       string  // for figures; default: the kind, for Serve its mix
	Kind       Kind    // what it does
	Ops        int     // default: each key once, for Absent, Insert and Delete each absent key, but no more than there are keys; Scan and Pop: all
	Choice     Choice  // which keys, in which order; Insert and Delete take absent keys in order or shuffled, each once
	Skew       float64 // of Zipfian and Latest; default 0.99
	Batch      int     // Load: pairs set together; Absent, Present: keys looked up together, with GetMany; default: one by one
	Durable    bool    // Load: PutSync, one by one
	Records    int     // Load: only so many pairs, the first of the set; default: all
	Limit      int     // Seek: entries that one operation reads, the one it went to included; default 10
	PutPercent int     // Mixed: 0 to 100
	NewPercent int     // Insert: how many of 100 operations have an absent key; default 100, all
	Mix        Mix     // Serve
	Ledger     *Ledger // Serve: what the store holds; after the phase, what it then holds
	Workers    int     // goroutines; default 1
	Seed       uint64  // of the choice: rounds with different seeds look up in different orders
}

const (
	chunkOps   = 256     // operations between two looks at the clock, enough to make these cheap
	chunkBytes = 1 << 20 // of values at most in a chunk, unless one is larger
	aloneEvery = 8       // of so many chunks, one has its calls timed one by one
)

// withDefaults is the phase with its defaults in place, or what is wrong with it.
func (p Phase) withDefaults(set Set) (Phase, error) {
	if p.Name == "" {
		p.Name = p.Kind.String()
	}
	if p.Kind > Reopen {
		return p, fmt.Errorf("no %v", p.Kind)
	}
	if p.Ops < 0 || p.Batch < 0 || p.Limit < 0 || p.Workers < 0 || p.PutPercent < 0 || p.PutPercent > 100 {
		return p, fmt.Errorf("ops %d, batch %d, limit %d, workers %d: want none below 0; put percent %d, want 0..100", p.Ops, p.Batch, p.Limit, p.Workers, p.PutPercent)
	}
	if p.Ops == 0 {
		p.Ops = set.Len()
		if p.Kind == Absent {
			p.Ops = min(p.Ops, set.Absents())
		}
	}
	if p.Kind == Scan {
		p.Ops = min(p.Ops, set.Len())
	}
	if p.Kind >= Flush {
		p.Ops = 1
	}
	p.Workers = max(p.Workers, 1)
	if p.Kind >= Scan && p.Workers > 1 {
		return p, fmt.Errorf("%d workers, want 1", p.Workers)
	}
	if p.Limit == 0 {
		p.Limit = 10
	}
	if p.Skew == 0 {
		p.Skew = 0.99
	}
	return p, nil
}

// Run runs one phase on a store that holds pairs of set. Progress, if not nil, is called now and then with the operations
// done so far and all that there are to do, by one goroutine at a time.
//
// A wrong answer is counted in the figures; a failed call, or the end of ctx, ends the phase with that error.
func Run(ctx context.Context, store Store, set Set, p Phase, progress func(done, total int)) (Figures, error) {
	p, err := p.withDefaults(set)
	if err != nil {
		return Figures{}, fmt.Errorf("phase %s: %w", p.Name, err)
	}
	r := &run{store: store, set: set, phase: p, progress: progress, clockCost: clockCost()}
	switch p.Kind {
	case Load, Absent, Present, Mixed, Seek:
		if p.Kind == Seek && !set.Sorted() {
			r.greatest = greatestKey(set)
		}
		n := set.Len()
		if p.Kind == Absent {
			n = set.Absents()
		}
		if r.chooser, err = newChooser(p.Choice, n, p.Skew, p.Seed); err == nil {
			r.chunk = r.chunkSize()
			err = r.operations(ctx)
		}
	case Scan:
		err = r.scan(ctx)
	case Flush:
		err = r.once(ctx, store.Flush)
	case Settle:
		err = r.once(ctx, store.Settle)
	case Compact:
		err = r.once(ctx, store.Compact)
	}
	if err != nil {
		return Figures{}, fmt.Errorf("phase %s: %w", p.Name, err)
	}
	return r.figures(), nil
}

// greatestKey is the last key of a set in the order of keys.
func greatestKey(set Set) []byte {
	var greatest, key []byte
	for i := range set.Len() {
		if key = set.AppendKey(key[:0], i); bytes.Compare(key, greatest) > 0 {
			greatest, key = key, greatest
		}
	}
	return greatest
}

// run is a phase under way.
type run struct {
	store     Store
	set       Set
	phase     Phase // with defaults
	chooser   chooser
	chunk     int // operations in a chunk
	clockCost time.Duration
	greatest  []byte // Seek in an unsorted set: the last key in order

	next     atomic.Int64 // the first operation that no worker has taken
	mu       sync.Mutex
	progress func(done, total int) // guarded by mu
	done     int                   // guarded by mu
	reported time.Time             // guarded by mu

	workers []*worker
}

// chunkSize keeps what a chunk holds small beside the caches that the store wants: by the values of a sample.
func (r *run) chunkSize() int {
	var sample []byte
	n := min(16, r.set.Len())
	for i := range n {
		sample = r.set.AppendValue(sample, i*(r.set.Len()/n))
	}
	perOp := max(1, len(sample)/n)
	size := chunkOps
	switch r.phase.Kind {
	case Seek:
		size = max(8, chunkOps/r.phase.Limit)
		perOp = int(min(int64(perOp)*int64(r.phase.Limit), math.MaxInt32))
	case Load:
		if b := r.phase.Batch; b > 1 {
			return max(1, min(chunkOps, chunkBytes/perOp)/b) * b // whole batches
		}
	default:
	}
	return max(1, min(size, chunkBytes/perOp))
}

// operations runs the chunks of a phase on its workers.
func (r *run) operations(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for range r.phase.Workers {
		w := newWorker(r)
		r.workers = append(r.workers, w)
		group.Go(func() {
			for ctx.Err() == nil {
				first := r.next.Add(int64(r.chunk)) - int64(r.chunk)
				if first >= int64(r.phase.Ops) {
					return
				}
				n := min(r.chunk, r.phase.Ops-int(first))
				if err := w.runChunk(int(first), n); err != nil {
					cancel(err)
					return
				}
				r.report(n)
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// alone reports whether the calls of the chunk that begins at an operation are timed one by one.
func (r *run) alone(first int) bool {
	chunks := (r.phase.Ops + r.chunk - 1) / r.chunk
	return first/r.chunk%aloneEvery == min(3, chunks-1)
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
	w := newWorker(r)
	r.workers = append(r.workers, w)
	begin := time.Now()
	if err := call(ctx); err != nil {
		return err
	}
	d := time.Since(begin)
	w.ops = 1
	w.record(d, 1)
	w.calls.add(uint64(max(d, 0)))
	r.report(1)
	return nil
}

// errEnough ends a scan that has read what it wanted.
var errEnough = errors.New("enough")

// scan reads the store from its first key, in chunks: the clock stands while a chunk is checked.
func (r *run) scan(ctx context.Context) error {
	w := newWorker(r)
	r.workers = append(r.workers, w)
	r.chunk = chunkOps
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
	f := Figures{Phase: r.phase.Name}
	var busy time.Duration
	var whole, alone []float64
	var calls histogram
	for _, w := range r.workers {
		f.Ops += w.ops
		busy += w.busy
		whole = append(whole, w.whole...)
		alone = append(alone, w.alone...)
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
	f.P50Ns, f.P99Ns, f.MaxNs = calls.quantile(0.50), calls.quantile(0.99), float64(calls.largest)
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
