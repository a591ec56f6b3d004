package workload

import (
	"bytes"
	"fmt"
	"runtime"
	"time"
)

// worker runs chunks of operations, one at a time: it prepares their keys, runs them against the clock, and checks what came
// back when the clock stands.
type worker struct {
	run  *run
	id   int
	dice *dice

	picks    []int    // numbers of the keys of this chunk
	puts     []bool   // Mixed: which operations put; Insert: which have an absent key
	requests pairs    // keys, and values to put
	keys     [][]byte // the same keys, for GetMany
	answers  pairs    // what the store returned; lookups leave the keys empty
	found    []bool   // lookups: whether there was a value; Insert: whether it was stored
	counts   []int    // seeks: how many answers
	base     int      // GetMany: the first answer of this call
	end      int      // and where the next begins
	serve    serving
	scratch  []byte

	keep func(key, value []byte) error               // adds an answer of Scan
	take func(i int, value []byte, found bool) error // adds an answer of GetMany

	ops        int
	busy       time.Duration
	whole      []float64     // ns per operation, of chunks timed as a whole
	alone      []float64     // the same, of chunks whose calls were timed one by one
	put        time.Duration // PutSeek: of this chunk, the time of Put if calls are timed
	putting    []float64     // ns per operation of that
	calls      histogram
	wrongs     int
	firstWrong string
}

// newWorker reserves the memory for a chunk, and for the times of all.
func newWorker(r *run) *worker {
	w := &worker{run: r, id: len(r.workers), dice: newDice()}
	w.picks = make([]int, 0, r.chunk)
	w.puts = make([]bool, 0, r.chunk)
	w.keys = make([][]byte, 0, r.chunk)
	w.found = make([]bool, 0, r.chunk)
	w.counts = make([]int, 0, r.chunk)
	w.requests.grow(r.chunk, r.chunkMem)
	w.answers.grow(r.chunk, r.chunkMem)
	chunks := min(r.phase.Ops/max(r.chunk, 1)+1, 1<<20)
	w.whole = make([]float64, 0, chunks)
	w.alone = make([]float64, 0, chunks/aloneEvery+1)
	if r.phase.Kind == Serve {
		w.serve = serving{
			what: make([]operation, 0, r.chunk), limits: make([]int, 0, r.chunk),
			versions: make([]uint32, 0, r.chunk), oldest: make([]uint32, 0, r.chunk),
		}
	}
	w.keep = func(key, value []byte) error {
		w.answers.add(key, value)
		return nil
	}
	w.take = w.takeOne
	return w
}

// pairs is keys and values end to end.
type pairs struct {
	keys, values       []byte
	keyEnds, valueEnds []int // ends[0] is 0
}

// grow makes room for n pairs with so many bytes of values.
func (p *pairs) grow(n, values int) {
	p.keys, p.values = make([]byte, 0, n*64), make([]byte, 0, values+values/4)
	p.keyEnds, p.valueEnds = make([]int, 0, n+1), make([]int, 0, n+1)
}

func (p *pairs) reset() {
	p.keys, p.values = p.keys[:0], p.values[:0]
	p.keyEnds, p.valueEnds = append(p.keyEnds[:0], 0), append(p.valueEnds[:0], 0)
}

func (p *pairs) len() int { return max(0, len(p.keyEnds)-1) }

// add copies one pair.
func (p *pairs) add(key, value []byte) {
	if len(p.keyEnds) == 0 {
		p.reset()
	}
	p.keys, p.values = append(p.keys, key...), append(p.values, value...)
	p.end()
}

// end says that what was appended to keys and values is one pair.
func (p *pairs) end() {
	p.keyEnds, p.valueEnds = append(p.keyEnds, len(p.keys)), append(p.valueEnds, len(p.values))
}

func (p *pairs) key(i int) []byte { return p.keys[p.keyEnds[i]:p.keyEnds[i+1]:p.keyEnds[i+1]] }
func (p *pairs) value(i int) []byte {
	return p.values[p.valueEnds[i]:p.valueEnds[i+1]:p.valueEnds[i+1]]
}

// batch is the pairs from i to j, without j.
func (p *pairs) batch(i, j int) Batch {
	return Batch{p.keys, p.values, p.keyEnds[i : j+1], p.valueEnds[i : j+1]}
}

// runChunk runs the n operations from first on, perhaps none. Loads are timed with the making of their pairs, so that a store's
// background work is not given time that nobody counts; others without.
func (w *worker) runChunk(first, n int) error {
	phase, gate := &w.run.phase, w.run.gate
	if n == 0 { // the others' time is this one's too
		begin := gate.pass()
		w.busy += gate.pass().Sub(begin)
		return nil
	}
	var begin time.Time
	if phase.Kind == Load {
		begin = gate.pass()
	}
	w.prepare(first, n)
	if phase.Kind != Load {
		begin = gate.pass()
	}
	perCall := phase.perCall()
	calls := (n + perCall - 1) / perCall
	if w.run.alone(first) {
		looks := w.run.looks()
		for i := range calls {
			one := time.Now()
			if err := w.call(i, perCall, n, true); err != nil {
				return err
			}
			w.calls.add(uint64(max(time.Since(one)-(looks-1)*w.run.clockCost, 0)))
		}
		cost := looks * time.Duration(calls) * w.run.clockCost
		d := max(gate.pass().Sub(begin)-w.run.waitedFor(cost), 0)
		w.busy += d
		w.alone = append(w.alone, float64(d)/float64(n))
		if phase.Kind == PutSeek {
			w.putting = append(w.putting, float64(max(w.put-time.Duration(calls)*w.run.clockCost, 0))/float64(n))
			w.put = 0
		}
	} else {
		for i := range calls {
			if err := w.call(i, perCall, n, false); err != nil {
				return err
			}
		}
		w.record(gate.pass().Sub(begin), n)
	}
	w.ops += n
	w.check(n)
	return nil
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

// record counts a chunk of n operations that took d as a whole.
func (w *worker) record(d time.Duration, n int) {
	w.busy += d
	if n > 0 {
		w.whole = append(w.whole, float64(d)/float64(n))
	}
}

// prepare picks the keys of a chunk and makes what its calls need.
func (w *worker) prepare(first, n int) {
	r := w.run
	w.requests.reset()
	w.answers.reset()
	w.picks, w.puts, w.keys = w.picks[:0], w.puts[:0], w.keys[:0]
	w.found, w.counts = w.found[:0], w.counts[:0]
	switch r.phase.Kind {
	case Insert:
		w.prepareInserts(first, n)
		return
	case Serve:
		w.prepareServe(first, n)
		return
	default:
	}
	w.picks = append(w.picks, make([]int, n)...)
	choose := &r.chooser
	if r.phase.Kind == Delete {
		choose = &r.absents
	}
	choose.fill(w.picks, first, w.dice)
	if r.phase.Kind == Mixed {
		rng := w.dice.seeded(r.phase.Seed+golden, first)
		for range n {
			w.puts = append(w.puts, rng.IntN(100) < r.phase.PutPercent)
		}
	}
	for i, pick := range w.picks {
		switch r.phase.Kind {
		case Absent, Delete:
			w.requests.keys = r.set.AppendAbsent(w.requests.keys, pick)
		default:
			w.requests.keys = r.set.AppendKey(w.requests.keys, pick)
		}
		if k := r.phase.Kind; k == Load || k == PutSeek || k == Mixed && w.puts[i] {
			w.requests.values = r.set.AppendValue(w.requests.values, pick)
		}
		w.requests.end()
	}
	if r.phase.Kind != Load && r.phase.perCall() > 1 {
		for i := range w.picks {
			w.keys = append(w.keys, w.requests.key(i))
		}
	}
}

// prepareInserts picks absent keys in their order, and keys of the set between them. All values are ones that no key of the
// set has, so that an overwritten pair is noticed later.
func (w *worker) prepareInserts(first, n int) {
	r := w.run
	for i := range n {
		w.puts = append(w.puts, place(r.phase.Seed, first+i) < r.phase.NewPercent)
	}
	absents := placedBefore(r.phase.Seed, r.phase.NewPercent, first)
	w.picks = append(w.picks, make([]int, n)...)
	r.chooser.fill(w.picks, first-absents, w.dice) // for the others, and some to spare
	others := 0
	for _, isNew := range w.puts {
		var pick int
		if isNew {
			pick = r.absents.at(absents)
			absents++
			w.requests.keys = r.set.AppendAbsent(w.requests.keys, pick)
		} else {
			pick = w.picks[others]
			others++
			w.requests.keys = r.set.AppendKey(w.requests.keys, pick)
		}
		w.requests.values = r.set.AppendVersion(w.requests.values, pick%r.set.Len(), 1)
		w.requests.end()
	}
}

// call runs call i of a chunk of n operations.
func (w *worker) call(i, perCall, n int, timed bool) error {
	r := w.run
	switch kind := r.phase.Kind; {
	case perCall == 1 && (kind == Absent || kind == Present): // first: they are the shortest
		return w.get(i)
	case kind == Load && perCall > 1:
		return r.store.Apply(w.requests.batch(i*perCall, min((i+1)*perCall, n)))
	case kind == Load && r.phase.Durable:
		return r.store.PutSync(w.requests.key(i), w.requests.value(i))
	case kind == Load || kind == Mixed && w.puts[i]:
		return r.store.Put(w.requests.key(i), w.requests.value(i))
	case perCall > 1:
		return w.getMany(i*perCall, min((i+1)*perCall, n))
	case kind == Seek:
		return w.scan(w.requests.key(i), r.phase.Limit)
	case kind == PutSeek:
		return w.putSeek(i, timed)
	case kind == Pop:
		return w.pop()
	case kind == Insert:
		stored, err := r.store.PutIfAbsent(w.requests.key(i), w.requests.value(i))
		w.found = append(w.found, stored)
		return err
	case kind == Delete:
		return r.store.Delete(w.requests.key(i))
	case kind == Serve:
		return w.serveOne(i)
	default:
		return w.get(i)
	}
}

func (w *worker) get(i int) error {
	out, found, err := w.run.store.AppendGet(w.answers.values, w.requests.key(i))
	w.answers.values = out
	w.answers.end()
	w.found = append(w.found, found)
	return err
}

// scan keeps what a Scan yields.
func (w *worker) scan(from []byte, limit int) error {
	before := w.answers.len()
	err := w.run.store.Scan(from, limit, w.keep)
	w.counts = append(w.counts, w.answers.len()-before)
	return err
}

func (w *worker) putSeek(i int, timed bool) error {
	key, value := w.requests.key(i), w.requests.value(i)
	var begin time.Time
	if timed {
		begin = time.Now()
	}
	if err := w.run.store.Put(key, value); err != nil {
		return err
	}
	if timed {
		w.put += time.Since(begin)
	}
	return w.scan(key, 1)
}

// pop deletes the first pair that the store has, if it has one.
func (w *worker) pop() error {
	if err := w.scan(nil, 1); err != nil || w.counts[len(w.counts)-1] == 0 {
		return err
	}
	return w.run.store.Delete(w.answers.key(w.answers.len() - 1))
}

// getMany looks up the keys from one to another, without that.
func (w *worker) getMany(from, to int) error {
	w.base = w.answers.len()
	w.end = w.base + to - from
	if err := w.run.store.GetMany(w.keys[from:to], w.take); err != nil {
		return err
	}
	for got := w.answers.len(); got < w.end; got++ {
		w.wrong("key %d of %d looked up together has no answer", got-w.base, to-from)
		w.answers.end()
		w.found = append(w.found, false)
	}
	return nil
}

func (w *worker) takeOne(i int, value []byte, found bool) error {
	if next := w.answers.len(); i != next-w.base || next == w.end {
		w.wrong("an answer for key %d of %d looked up together, after %d answers", i, w.end-w.base, next-w.base)
		return nil
	}
	w.answers.values = append(w.answers.values, value...)
	w.answers.end()
	w.found = append(w.found, found)
	return nil
}

// check compares the answers of a chunk with the set.
func (w *worker) check(n int) {
	switch w.run.phase.Kind {
	case Absent:
		for i := range n {
			if w.found[i] {
				w.wrong("absent key %q has a value of %d bytes", w.requests.key(i), len(w.answers.value(i)))
			}
		}
	case Present, Mixed:
		lookup := 0
		for i := range n {
			if w.run.phase.Kind == Mixed && w.puts[i] {
				continue
			}
			if !w.found[lookup] {
				w.wrong("key %q is not found", w.requests.key(i))
			} else {
				w.checkValue(w.requests.key(i), w.answers.value(lookup), w.picks[i])
			}
			lookup++
		}
	case Seek, PutSeek:
		answer := 0
		for i, count := range w.counts {
			w.checkSeek(i, answer, count)
			answer += count
		}
	case Pop:
		answer := 0
		for i, count := range w.counts {
			if count == 1 {
				w.checkPair(w.answers.key(answer), w.answers.value(answer), w.picks[i])
			} else {
				w.wrong("pop: %d first pairs, want 1, that of key %q", count, w.requests.key(i))
			}
			answer += count
		}
	case Insert:
		for i, isNew := range w.puts {
			if w.found[i] != isNew {
				w.wrong("put key %q if it is absent: %v, want %v", w.requests.key(i), w.found[i], isNew)
			}
		}
	case Serve:
		w.checkServe()
	default:
	}
}

// checkSeek checks the count answers of operation i, from answer on.
func (w *worker) checkSeek(i, answer, count int) {
	set, limit := w.run.set, w.run.phase.Limit
	pick := w.picks[i]
	if count == 0 || count > limit || !bytes.Equal(w.answers.key(answer), w.requests.key(i)) {
		w.wrong("seek to %q: %d entries that do not begin there, want 1..%d that do", w.requests.key(i), count, limit)
		return
	}
	if want := min(limit, set.Len()-pick); set.Sorted() && count != want {
		w.wrong("seek to %q: %d entries, want %d", w.requests.key(i), count, want)
	}
	if last := w.answers.key(answer + count - 1); count < limit && !set.Sorted() && !bytes.Equal(last, w.run.greatest) {
		w.wrong("seek to %q: ends after %d entries at %q, which is not the last key", w.requests.key(i), count, last)
	}
	for j := range count {
		key := w.answers.key(answer + j)
		if j > 0 && bytes.Compare(w.answers.key(answer+j-1), key) >= 0 {
			w.wrong("seek to %q: key %q comes after %q", w.requests.key(i), key, w.answers.key(answer+j-1))
		}
		w.checkPair(key, w.answers.value(answer+j), pick+j)
	}
}

// checkPair checks a pair that the store came up with; in a sorted set it has number want.
func (w *worker) checkPair(key, value []byte, want int) {
	i, ok := w.run.set.Index(key)
	switch {
	case !ok:
		w.wrong("key %q is not in the set", key)
	case w.run.set.Sorted() && i != want:
		w.wrong("key %q has number %d, want %d", key, i, want)
	default:
		w.checkValue(key, value, i)
	}
}

func (w *worker) checkValue(key, got []byte, i int) {
	w.scratch = w.run.set.AppendValue(w.scratch[:0], i)
	if !bytes.Equal(got, w.scratch) {
		w.wrong("key %q: a value of %d bytes that is not its own of %d", key, len(got), len(w.scratch))
	}
}

func (w *worker) wrong(format string, args ...any) {
	w.wrongs++
	if w.firstWrong == "" {
		w.firstWrong = fmt.Sprintf(format, args...)
	}
}
