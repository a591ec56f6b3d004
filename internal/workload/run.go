package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

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
	case Scan:
		err = r.scan(ctx)
	case Flush:
		err = r.once(ctx, store.Flush)
	case Settle:
		err = r.once(ctx, store.Settle)
	case Compact:
		err = r.once(ctx, store.Compact)
	case Reopen:
		err = r.reopen(ctx)
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
