package workload

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"
)

// worker runs chunks of operations, one at a time: it prepares their keys, runs them against the clock, and checks what came
// back when the clock stands.
type worker struct {
	run *run

	picks    []int  // numbers of the keys of this chunk
	puts     []bool // Mixed: which operations put
	requests pairs  // keys, and values to put
	answers  pairs  // what the store returned; lookups leave the keys empty
	found    []bool // lookups: whether there was a value
	counts   []int  // seeks: how many answers
	scratch  []byte

	ops        int
	busy       time.Duration
	whole      []float64 // ns per operation, of chunks timed as a whole
	alone      []float64 // the same, of chunks whose calls were timed one by one
	calls      histogram
	wrongs     int
	firstWrong string
}

func newWorker(r *run) *worker { return &worker{run: r} }

// pairs is keys and values end to end.
type pairs struct {
	keys, values       []byte
	keyEnds, valueEnds []int // ends[0] is 0
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

// runChunk runs the n operations from first on. Loads are timed with the making of their pairs, so that a store's background
// work is not given time that nobody counts; reads without.
func (w *worker) runChunk(first, n int) error {
	phase := &w.run.phase
	begin := time.Now()
	w.prepare(first, n)
	if phase.Kind != Load {
		begin = time.Now()
	}
	calls, perCall := n, 1
	if phase.Kind == Load && phase.Batch > 1 {
		perCall = phase.Batch
		calls = (n + perCall - 1) / perCall
	}
	alone := w.run.alone(first)
	if alone {
		for i := range calls {
			one := time.Now()
			if err := w.call(i, perCall, n); err != nil {
				return err
			}
			w.calls.add(uint64(max(time.Since(one)-w.run.clockCost, 0)))
		}
	} else {
		for i := range calls {
			if err := w.call(i, perCall, n); err != nil {
				return err
			}
		}
	}
	d := time.Since(begin)
	if alone {
		d = max(d-2*time.Duration(calls)*w.run.clockCost, 0)
		w.busy += d
		w.alone = append(w.alone, float64(d)/float64(n))
	} else {
		w.record(d, n)
	}
	w.ops += n
	w.check(n)
	return nil
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
	w.picks = append(w.picks[:0], make([]int, n)...)
	r.chooser.fill(w.picks, first)
	w.requests.reset()
	w.answers.reset()
	w.found, w.counts, w.puts = w.found[:0], w.counts[:0], w.puts[:0]
	if r.phase.Kind == Mixed {
		rng := rand.New(rand.NewPCG(r.phase.Seed+golden, word(first))) // a benchmark repeats itself
		for range n {
			w.puts = append(w.puts, rng.IntN(100) < r.phase.PutPercent)
		}
	}
	for i, pick := range w.picks {
		if r.phase.Kind == Absent {
			w.requests.keys = r.set.AppendAbsent(w.requests.keys, pick)
		} else {
			w.requests.keys = r.set.AppendKey(w.requests.keys, pick)
		}
		if r.phase.Kind == Load || r.phase.Kind == Mixed && w.puts[i] {
			w.requests.values = r.set.AppendValue(w.requests.values, pick)
		}
		w.requests.end()
	}
}

// call runs call i of a chunk of n operations.
func (w *worker) call(i, perCall, n int) error {
	r := w.run
	switch {
	case r.phase.Kind == Load && perCall > 1:
		return r.store.Apply(w.requests.batch(i*perCall, min((i+1)*perCall, n)))
	case r.phase.Kind == Load || r.phase.Kind == Mixed && w.puts[i]:
		return r.store.Put(w.requests.key(i), w.requests.value(i))
	case r.phase.Kind == Seek:
		before := w.answers.len()
		err := r.store.Scan(w.requests.key(i), r.phase.Limit, func(key, value []byte) error {
			w.answers.add(key, value)
			return nil
		})
		w.counts = append(w.counts, w.answers.len()-before)
		return err
	default:
		out, found, err := r.store.AppendGet(w.answers.values, w.requests.key(i))
		w.answers.values = out
		w.answers.end()
		w.found = append(w.found, found)
		return err
	}
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
	case Seek:
		answer := 0
		for i, count := range w.counts {
			w.checkSeek(i, answer, count)
			answer += count
		}
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
