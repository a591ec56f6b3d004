package main

import (
	"bytes"
	"cmp"
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/bloomkv/bloomkv/tools/workload"
)

// A tail is a figure of the distribution of times.
type tail struct {
	name, title string
	of          func(h *workload.Histogram) float64
}

var tails = []tail{
	{"p50", "p50", quantile(0.5)},
	{"p99", "p99", quantile(0.99)},
	{"p999", "p99.9", quantile(0.999)},
	{"p9999", "p99.99", quantile(0.9999)},
	{"max", "longest", (*workload.Histogram).Largest},
}

func quantile(q float64) func(h *workload.Histogram) float64 {
	return func(h *workload.Histogram) float64 { return h.Quantile(q) }
}

// Prefixes of the rows of tails.
const (
	rowPuts        = "puts-"
	rowBusyAbsent  = "busy-absent-"
	rowBusyPresent = "busy-present-"
	rowBusyPut     = "busy-put-"
	rowBusyCall    = "busy-call-"
)

// Rows of state "many puts" that are no tails.
const (
	rowPutsLong, rowPutsAmp  = rowPuts + "10ms", rowPuts + "amp"
	rowPutsDisk, rowPutsLast = rowPuts + "disk", rowPuts + "last"
)

// longPut is the time above which a put is counted in rowPutsLong.
const longPut = 10 * time.Millisecond

// tailLines returns the lines of the table for one prefix. Some of them, by their names, have targets.
func tailLines(prefix string, in stateID, title string, targets map[string]bar) []line {
	var all []line
	for _, t := range tails {
		name := title + ", " + t.title + " (µs)"
		all = append(all, line{prefix + t.name, in, name, microseconds, targets[t.name]})
	}
	return all
}

func (w *worker) noteTails(prefix string, h *workload.Histogram) {
	for _, t := range tails {
		w.note(prefix+t.name, t.of(h))
	}
}

// manyPuts puts pairs in random order, one by one, and times each. Preparing a pair is not timed.
func (w *worker) manyPuts() {
	n := w.config.puts
	if w.entry.tenth {
		n /= 10
	}
	w.use(w.config.setOf(w.config.shape, n))
	if w.err != nil {
		return
	}
	written, watch := w.countWrites(), watchDisk(w.config.dir)
	order := workload.NewPermutation(n, seed("puts", w.round))
	var times workload.Histogram
	var key, value []byte
	long, first, began := 0, time.Duration(0), time.Now()
	var last time.Time // when the last tenth began
	for i := range n {
		switch i {
		case n / 10:
			first = time.Since(began)
		case n - n/10:
			last = time.Now()
		}
		pick := order.At(i)
		key, value = w.set.AppendKey(key[:0], pick), w.set.AppendValue(value[:0], pick)
		begin := time.Now()
		err := w.engine.Put(key, value)
		took := time.Since(begin)
		if err != nil {
			w.fail(err)
			break
		}
		times.Add(nanoseconds64(took))
		if took > longPut {
			long++
		}
		if i%1024 == 0 && w.ctx.Err() != nil {
			w.fail(context.Cause(w.ctx))
			break
		}
	}
	if first > 0 && w.err == nil {
		w.note(rowPutsLast, first.Seconds()/time.Since(last).Seconds())
	}
	w.noteTails(rowPuts, &times)
	w.note(rowPutsLong, float64(long))
	w.rest(workload.Flush, workload.Settle)
	most, err := watch()
	w.fail(err)
	w.note(rowPutsDisk, float64(most))
	written(rowPutsAmp)
	w.verify()
}

// nanoseconds64 returns a duration that is not negative.
func nanoseconds64(d time.Duration) uint64 { return uint64(max(d, 0)) }

const (
	busyReaders  = 8      // half of them look up absent keys, the others present ones
	busyPuts     = 40_000 // per second
	busyInterval = time.Second / busyPuts
	// A reader gives its processor to the next goroutine after this time, as a server does after a request. Without it
	// the writer would wait for the scheduler, which takes 10 ms, and not for the store.
	busyTurn = 50 * time.Microsecond
)

// A crowd is a number of goroutines that read a store while one of them overwrites it.
type crowd struct {
	store workload.Store
	set   workload.Set
	time  time.Duration
	seed  uint64

	put, call       workload.Histogram // from the intended start of a put, and from its call
	absent, present workload.Histogram // of all readers, as the next two
	wrong           int
	firstWrong      string
}

// A busyReader is one of the goroutines that read.
type busyReader struct {
	times      workload.Histogram
	wrong      int
	firstWrong string
}

// busy looks keys up on eight goroutines while another one overwrites pairs with equal ones.
func (w *worker) busy() {
	w.first(func(column string, s workload.Store) {
		w.warm(column, s)
		if w.err != nil {
			return
		}
		runtime.GC() // garbage of the previous phase
		c := &crowd{store: s, set: w.set, time: w.config.busy, seed: seed("busy", w.round)}
		w.fail(c.run(w.ctx))
		w.wrong("busy", c.wrong, c.firstWrong)
		w.noteTails(rowBusyAbsent, &c.absent)
		w.noteTails(rowBusyPresent, &c.present)
		w.noteTails(rowBusyPut, &c.put)
		w.noteTails(rowBusyCall, &c.call)
	})
	w.rest(workload.Flush, workload.Settle)
	w.verify()
}

// run ends after the time of the crowd, or with the first error.
func (c *crowd) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var readers sync.WaitGroup
	done := make(chan struct{})
	var all [busyReaders]busyReader
	for i := range uint64(busyReaders) {
		readers.Go(func() {
			if err := c.read(ctx, done, i, &all[i]); err != nil {
				cancel(err)
			}
		})
	}
	if err := c.write(ctx); err != nil {
		cancel(err)
	}
	close(done)
	readers.Wait()
	for i := range all {
		of := &c.present
		if i%2 == 0 {
			of = &c.absent
		}
		of.Merge(&all[i].times)
		c.wrong, c.firstWrong = c.wrong+all[i].wrong, cmp.Or(c.firstWrong, all[i].firstWrong)
	}
	return context.Cause(ctx)
}

// write puts pairs at a constant rate. A put that begins late, because one before it took long, counts from the time at
// which it should have begun, so that every put that a stall would have delayed counts. A store that cannot keep up has
// long times; puts that have not begun after twice the time of the crowd count with the time that they have waited.
func (c *crowd) write(ctx context.Context) error {
	order := workload.NewPermutation(c.set.Len(), c.seed)
	var key, value []byte
	begin := time.Now()
	for i := range int(c.time / busyInterval) {
		pick := order.At(i % c.set.Len())
		key, value = c.set.AppendKey(key[:0], pick), c.set.AppendValue(value[:0], pick)
		due := time.Duration(i) * busyInterval
		now := time.Since(begin)
		if now < due {
			time.Sleep(due - now)
			now = time.Since(begin)
		}
		if now > 2*c.time || ctx.Err() != nil {
			c.put.Add(nanoseconds64(now - due))
			continue
		}
		if err := c.store.Put(key, value); err != nil {
			return err
		}
		end := time.Since(begin)
		c.put.Add(nanoseconds64(end - due))
		c.call.Add(nanoseconds64(end - now))
	}
	return nil
}

// read looks up keys until done is closed, and checks the answers while the clock stands. Times are from the end of one
// lookup to the end of the next.
func (c *crowd) read(ctx context.Context, done <-chan struct{}, id uint64, r *busyReader) error {
	const most = 256 // lookups in a turn
	absent := id%2 == 0
	n, appendKey := c.set.Len(), c.set.AppendKey
	if absent {
		n, appendKey = c.set.Absents(), c.set.AppendAbsent
	}
	order := workload.NewPermutation(n, c.seed+id+1)
	var keys [most][]byte
	var picks, ends [most]int
	var found [most]bool
	var values, want []byte
	for next := 0; ctx.Err() == nil; {
		select {
		case <-done:
			return nil
		default:
		}
		for i := range keys {
			picks[i] = order.At((next + i) % n)
			keys[i] = appendKey(keys[i][:0], picks[i])
		}
		values = values[:0]
		begin := time.Now()
		last, asked := begin, 0
		for ; asked < most && last.Sub(begin) < busyTurn; asked++ {
			var err error
			if values, found[asked], err = c.store.AppendGet(values, keys[asked]); err != nil {
				return err
			}
			now := time.Now()
			r.times.Add(nanoseconds64(now.Sub(last)))
			last = now
			ends[asked] = len(values)
		}
		from := 0
		for i := range asked {
			want = want[:0]
			if !absent {
				want = c.set.AppendValue(want, picks[i])
			}
			if found[i] == absent || !bytes.Equal(values[from:ends[i]], want) {
				if r.wrong++; r.firstWrong == "" {
					r.firstWrong = "key " + string(keys[i]) + " has another value than the one put, or none"
				}
			}
			from = ends[i]
		}
		next += asked
		runtime.Gosched()
	}
	return nil
}
