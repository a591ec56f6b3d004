package workload

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/bloomkv/bloomkv/internal/words"
)

// worker runs chunks of operations, one at a time: it prepares their keys, runs them while the clock is running, and
// then checks the answers.
type worker struct {
	run     *run
	dice    *dice
	perCall int // operations in a call, at most

	// the present chunk
	first, n int   // its first operation, and their number, which may be 0
	timed    bool  // its calls are timed one by one
	err      error // of a call

	picks    []int    // numbers of the keys
	todo     []op     // what is done with them
	requests Packed   // keys, and values to put
	keys     [][]byte // the same keys, for GetMany
	answers  Packed   // results from the store; lookups leave the keys empty
	found    []bool   // lookups: whether there was a value; Insert: whether the pair was stored
	counts   []int    // scans: number of answers
	base     int      // GetMany: index of the first answer of this call
	end      int      // GetMany: index after the last answer of this call
	records  int      // Serve: records in the store before the chunk
	recent   Zipf     // Serve: over that number of records
	scratch  []byte

	keep func(key, value []byte) error               // appends an entry of Scan to answers
	take func(i int, value []byte, found bool) error // appends a result of GetMany to answers

	ops        int
	busy       time.Duration
	whole      []float64     // ns per operation of the chunks that were timed as a whole
	alone      []float64     // ns per operation of the chunks whose calls were timed one by one
	put        time.Duration // PutSeek: time spent in Put in this chunk, if its calls are timed
	putting    []float64     // PutSeek: ns per operation spent in Put
	calls      Histogram
	wrongs     int
	firstWrong string
}

// newWorker allocates the memory for a chunk and for all times.
func newWorker(r *run) *worker {
	w := &worker{run: r, dice: newDice(), perCall: r.phase.perCall()}
	w.picks = make([]int, 0, r.chunk)
	w.todo = slices.Repeat([]op{{what: onlyOperation[r.phase.Kind], limit: r.phase.Limit}}, r.chunk)
	w.keys = make([][]byte, 0, r.chunk)
	w.found = make([]bool, 0, r.chunk)
	w.counts = make([]int, 0, r.chunk)
	w.requests.grow(r.chunk, r.chunkMem)
	w.answers.grow(r.chunk, r.chunkMem)
	chunks := min(r.phase.Ops/max(r.chunk, 1)+1, 1<<20)
	w.whole = make([]float64, 0, chunks)
	w.alone = make([]float64, 0, chunks/aloneEvery+1)
	w.keep = func(key, value []byte) error {
		w.answers.add(key, value)
		return nil
	}
	w.take = w.takeOne
	return w
}

// record records the time of a chunk of n operations.
func (w *worker) record(d time.Duration, n int) {
	w.busy += d
	if n > 0 {
		w.whole = append(w.whole, float64(d)/float64(n))
	}
}

// recordTimed records the time of a chunk whose calls were timed one by one, without that of reading the clock.
func (w *worker) recordTimed(d time.Duration) {
	calls := time.Duration(w.numCalls()) * w.run.clockCost
	d = max(d-w.run.waitedFor(w.run.looks()*calls), 0)
	w.busy += d
	if w.n == 0 {
		return
	}
	w.alone = append(w.alone, float64(d)/float64(w.n))
	if w.run.phase.Kind == PutSeek {
		w.putting = append(w.putting, float64(max(w.put-calls, 0))/float64(w.n))
		w.put = 0
	}
}

func (w *worker) get(i int) error {
	out, found, err := w.run.store.AppendGet(w.answers.Values, w.requests.key(i))
	w.answers.Values = out
	w.answers.end()
	w.found = append(w.found, found)
	return err
}

// scan appends the entries of a Scan to answers.
func (w *worker) scan(from []byte, limit int) error {
	before := w.answers.len()
	err := w.run.store.Scan(from, limit, w.keep)
	w.counts = append(w.counts, w.answers.len()-before)
	return err
}

func (w *worker) takeOne(i int, value []byte, found bool) error {
	if next := w.answers.len(); i != next-w.base || next == w.end {
		w.wrong("an unexpected answer for key %d of %d of GetMany, after %d answers", i, w.end-w.base, next-w.base)
		return nil
	}
	w.answers.Values = append(w.answers.Values, value...)
	w.answers.end()
	w.found = append(w.found, found)
	return nil
}

// checkPair checks a pair from the store. In a sorted set its number must be want.
func (w *worker) checkPair(key, value []byte, want int) {
	i, ok := w.run.set.Index(key)
	switch {
	case !ok:
		w.wrong("key %s is not in the set", key)
	case w.run.set.Sorted() && i != want:
		w.wrong("key %s has number %d, want %d", key, i, want)
	default:
		w.checkValue(key, value, i)
	}
}

// checkValue checks the value of pair i: the first version or, in a Serve phase, the one in the ledger.
func (w *worker) checkValue(key, got []byte, i int) {
	ledger, version := w.run.phase.Ledger, uint32(0)
	if ledger != nil {
		version = ledger.put[i]
	}
	w.scratch = w.run.set.AppendVersion(w.scratch[:0], i, version)
	switch {
	case bytes.Equal(got, w.scratch):
	case ledger == nil:
		w.wrong("key %s: a value of %d bytes that is not its own of %d", key, len(got), len(w.scratch))
	default:
		w.wrong("key %s: a value of %d bytes that is not one of its versions %d to %d",
			key, len(got), version, ledger.begun[i])
	}
}

// wrong counts a wrong answer, and describes the first. In args, keys are the only slices of bytes.
func (w *worker) wrong(format string, args ...any) {
	w.wrongs++
	if w.firstWrong == "" {
		for i, arg := range args {
			if key, ok := arg.([]byte); ok {
				args[i] = words.Quoted(key)
			}
		}
		w.firstWrong = fmt.Sprintf(format, args...)
	}
}
