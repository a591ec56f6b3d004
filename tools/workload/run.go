package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Run runs one phase on a store that holds pairs of set. If progress is not nil, it is called from time to time, by one
// goroutine at a time, with the number of operations done and the number of all.
//
// A wrong answer is counted in the figures. A failed call or the end of ctx ends the phase with that error.
func Run(ctx context.Context, store Store, set Set, p Phase, progress func(done, total int)) (Figures, error) {
	p, err := p.withDefaults(set)
	if err != nil {
		return Figures{}, fmt.Errorf("phase %s: %w", p.Name, err)
	}
	r := &run{store: store, set: set, phase: p, progress: progress, clockCost: clockCost(), orders: make(chan order)}
	if p.Kind == Seek || p.Kind == Scan || (p.Kind == Absent || p.Kind == Present) && p.perCall() == 1 {
		r.loops, _ = store.(Looper)
	}
	if p.full() {
		var ok bool
		if r.full, ok = store.(FullStore); !ok {
			return Figures{}, fmt.Errorf("phase %s: %T is no FullStore", p.Name, store)
		}
	}
	switch p.Kind {
	case Scan:
		err = r.scan(ctx)
	case Flush, Settle, Compact, Reopen:
		err = r.once(ctx)
	default:
		if err = r.choose(); err == nil {
			err = r.operations(ctx)
		}
		if p.Kind == Pop && err == nil && p.Ops == set.Len() {
			err = r.isEmpty()
		}
	}
	if err != nil {
		return Figures{}, fmt.Errorf("phase %s: %w", p.Name, err)
	}
	return r.figures(), nil
}

// begin creates the workers and starts counting allocations.
func (r *run) begin(workers int) {
	for range workers {
		r.workers = append(r.workers, newWorker(r))
	}
	r.allocated = countAllocations()
}

// operations runs the chunks of a phase on its workers. If each has a processor, each runs chunks on its own. If not,
// all run one at the same time, again and again, and the time of a chunk is that until all have ended: on their own,
// some would prepare keys and check answers, which is not timed, on processors that the timed ones wait for.
func (r *run) operations(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var crews, others sync.WaitGroup
	r.begin(r.phase.Workers)
	for range r.crew - 1 {
		others.Go(func() {
			for o := range r.orders {
				o.do(o.worker)
				r.ordered.Done()
			}
		})
	}
	for crew := range slices.Chunk(r.workers, r.crew) {
		crews.Go(func() {
			for ctx.Err() == nil {
				all := r.crew * r.chunk
				first := int(r.next.Add(int64(all))) - all
				if first >= r.phase.Ops {
					return
				}
				if err := r.runChunks(crew, first); err != nil {
					cancel(err)
					return
				}
				r.report(min(all, r.phase.Ops-first))
			}
		})
	}
	crews.Wait()
	close(r.orders)
	others.Wait()
	return context.Cause(ctx)
}

// An order is what a worker of a crew does beside the first one.
type order struct {
	do     func(w *worker)
	worker *worker
}

// each calls do for each worker of a crew, at the same time.
func (r *run) each(crew []*worker, do func(w *worker)) {
	r.ordered.Add(len(crew) - 1)
	for _, w := range crew[1:] {
		r.orders <- order{do, w}
	}
	do(crew[0])
	r.ordered.Wait()
}

// report counts n more operations as done and calls progress at the end, and before that at most every 50 ms.
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

// once times the only operation of a phase.
func (r *run) once(ctx context.Context) (err error) {
	r.begin(1)
	begin := time.Now()
	switch r.phase.Kind {
	case Flush:
		err = r.store.Flush(ctx)
	case Settle:
		err = r.store.Settle(ctx)
	case Compact:
		err = r.store.Compact(ctx)
	default:
		err = ctx.Err()
	}
	took := time.Since(begin)
	if r.phase.Kind == Reopen && err == nil {
		took, err = r.store.Reopen() // the time of the opening alone
	}
	if err != nil {
		return err
	}
	w := r.workers[0]
	w.ops = 1
	w.record(took, 1)
	w.calls.Add(uint64(max(took, 0)))
	r.report(1)
	return nil
}

// isEmpty checks that the store is empty.
func (r *run) isEmpty() error {
	return r.store.Scan(nil, 1, func(key, _ []byte) error {
		r.workers[0].wrong("key %s is left after all were popped", key)
		return nil
	})
}

// errEnough ends a scan that has read more than it asked for.
var errEnough = errors.New("enough")

// scan reads the store from its first key, in chunks. The clock is stopped while a chunk is checked.
func (r *run) scan(ctx context.Context) error {
	r.chunk = chunkOps
	r.begin(1)
	w := r.workers[0]
	want := r.phase.Ops
	var last []byte // last key of the previous chunk
	begin := time.Now()
	check := func() {
		w.record(time.Since(begin), w.answers.len())
		for i := range w.answers.len() {
			key := w.answers.key(i)
			if w.ops > 0 && string(key) <= string(last) {
				w.wrong("scan: key %s follows %s", key, last)
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
	part := func() error {
		check()
		begin = time.Now()
		return ctx.Err()
	}
	one := func(key, value []byte) error {
		if w.ops+w.answers.len() == want {
			w.wrong("scan: key %s follows the %d requested keys", key, want)
			return errEnough
		}
		w.answers.add(key, value)
		if w.answers.len() < r.chunk && len(w.answers.Values) < chunkBytes {
			return nil
		}
		return part()
	}
	var err error
	if r.loops != nil && limit == 0 {
		w.answers.reset()
		err = r.loops.LoopScan(&w.answers, r.chunk, part)
	} else {
		err = r.store.Scan(nil, limit, one)
	}
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	check()
	if w.ops < want {
		w.wrong("scan: stops after %d keys, want %d", w.ops, want)
	}
	return nil
}

// figures adds up the results of the workers.
func (r *run) figures() Figures {
	allocated := countAllocations()
	f := Figures{Phase: r.phase.Name}
	var busy time.Duration
	var whole, alone, putting []float64
	var calls Histogram
	for _, w := range r.workers {
		f.Ops += w.ops
		busy += w.busy
		whole = append(whole, w.whole...)
		alone = append(alone, w.alone...)
		putting = append(putting, w.putting...)
		calls.Merge(&w.calls)
		f.Wrong += w.wrongs
		f.FirstWrong = cmp.Or(f.FirstWrong, w.firstWrong)
	}
	workers := float64(len(r.workers))
	f.Elapsed = time.Duration(float64(busy) / workers)
	f.MeanNs = float64(f.Elapsed) / float64(max(f.Ops, 1))
	if len(whole) == 0 {
		whole = alone
	}
	f.MedianNs = Median(whole) / workers
	f.PutNs = Median(putting) / workers
	f.P50Ns, f.P99Ns, f.P999Ns = calls.Quantile(0.50), calls.Quantile(0.99), calls.Quantile(0.999)
	f.MaxNs = calls.Largest()
	f.Latencies = calls.nonEmpty()
	f.AllocsPerOp = float64(allocated.objects-r.allocated.objects) / float64(max(f.Ops, 1))
	f.BytesPerOp = float64(allocated.bytes-r.allocated.bytes) / float64(max(f.Ops, 1))
	return f
}
