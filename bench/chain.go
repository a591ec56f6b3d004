package main

import (
	"context"
	"iter"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/workload"
)

// A question is what is timed: whether a key is there. It is asked by one goroutine.
type question func(key []byte) bool

// A chain asks for keys one after the other, and which key is next depends on the last answer: where that is not the one
// that was wanted, a key is left out. The place of the next key goes through memory that others might write, so that a
// processor cannot guess the answer and begin with the next key before: it is the time of one lookup. Where nothing follows
// from the answer it can, and several lookups overlap: a free chain.
type chain struct {
	free bool
	want bool // the answer
}

// ask returns how many keys it asked for, and how many answers were not the one that was wanted.
func (c chain) ask(keys keyList, q question) (asked, others int) {
	if c.free {
		for at := 0; at < len(keys.bytes); at += keys.width {
			others += differ(q(keys.at(at)), c.want)
		}
		return len(keys.bytes) / keys.width, others
	}
	var next atomic.Int64 // a store and a load that are atomic wait for all loads before, on amd64
	for {
		at := int(next.Load())
		if at >= len(keys.bytes) {
			return asked, others
		}
		other := differ(q(keys.at(at)), c.want)
		asked++
		others += other
		next.Store(int64(at + keys.width<<other))
	}
}

func differ(got, want bool) int {
	if got != want {
		return 1
	}
	return 0
}

// String names the kind of chain.
func (c chain) String() string {
	if c.free {
		return "free"
	}
	return "chained"
}

// A keyList is keys of one length, end to end.
type keyList struct {
	bytes []byte
	width int
}

func (k *keyList) at(at int) []byte { return k.bytes[at : at+k.width : at+k.width] }

// fill makes n keys of a set, or absent ones: those at the places from first on of a shuffled order, beginning again at its end.
func (k *keyList) fill(set *workload.Generated, absent bool, order workload.Permutation, first, n int) {
	k.bytes, k.width = k.bytes[:0], set.Shape().KeyBytes()
	length := set.Len()
	if absent {
		length = set.Absents()
	}
	for i := range n {
		if at := order.At((first + i) % length); absent {
			k.bytes = set.AppendAbsent(k.bytes, at)
		} else {
			k.bytes = set.AppendKey(k.bytes, at)
		}
	}
}

// chunks are the keys in parts that are timed at once.
func (k *keyList) chunks() iter.Seq[keyList] {
	return func(yield func(keyList) bool) {
		for part := range slices.Chunk(k.bytes, chunkKeys*k.width) {
			if !yield(keyList{part, k.width}) {
				return
			}
		}
	}
}

// nothing is the question that costs nothing: what is left is the cost of asking.
func nothing([]byte) bool { return false }

// A storeReader asks a store, and holds what came back. It is for one goroutine.
type storeReader struct {
	db     *bloomkv.DB
	value  []byte
	length int // of all values together
	err    error
}

func (r *storeReader) ask(key []byte) bool {
	value, err := r.db.AppendGet(r.value[:0], key)
	if err == nil {
		r.value = value
		r.length += len(value)
		return true
	}
	if err != bloomkv.ErrNotFound { //nolint:errorlint // the DB promises it bare, and the clock runs
		r.err = err
	}
	return false
}

// An against is two questions asked for the same keys in turn: a store's, and one that does less.
type against struct {
	Chain   string  `json:"chain"`
	StoreNs float64 `json:"store_ns"` // medians of the rounds, for a lookup, without the cost of asking
	FloorNs float64 `json:"floor_ns"`
	AskNs   float64 `json:"ask_ns"` // the cost of asking

	// Ratio is StoreNs ÷ FloorNs within a round: the median of the rounds, the least and the most.
	Ratio float64 `json:"ratio"`
	Least float64 `json:"ratio_least"`
	Most  float64 `json:"ratio_most"`

	FloorFPR float64 `json:"floor_fpr"` // of the floor's filters, as measured
	Wrong    int     `json:"wrong"`     // answers of the store
}

const (
	// turnKeys is how many keys one side is asked for in a row, so that the first caches are its own again.
	turnKeys = 1 << 18
	// chunkKeys is how many of them are timed at once: few enough that most chunks are disturbed by nothing from outside, and
	// so many that the clock is cheap.
	chunkKeys = 2048
	// warmPart of a turn is not timed: the other side was there before.
	warmPart = 4
)

// A turn asks one question for keys of a set, chunk by chunk, and returns the times for a key. The keys are those at the
// places from first on of a shuffled order; they are made when the clock stands.
type turn struct {
	chain  chain
	set    *workload.Generated
	absent bool
	order  workload.Permutation
	keys   keyList

	asked, others int // so far
}

func newTurn(set *workload.Generated, c chain, absent bool, seed uint64) *turn {
	n := set.Len()
	if absent {
		n = set.Absents()
	}
	return &turn{chain: c, set: set, absent: absent, order: workload.NewPermutation(n, seed)}
}

func (t *turn) take(first, n int, q question) (ns float64) {
	var times []float64
	for done := 0; done < n; {
		chunk := min(chunkKeys, n-done)
		t.keys.fill(t.set, t.absent, t.order, first+done, chunk)
		begin := time.Now()
		asked, others := t.chain.ask(t.keys, q)
		took := time.Since(begin)
		t.asked += asked
		t.others += others
		if done >= n/warmPart || done+chunk == n {
			times = append(times, float64(took)/float64(asked))
		}
		done += chunk
	}
	return workload.Median(times)
}

// compareAbsent asks a store and its floor for absent keys in turn, for so many rounds, each with other keys, and both for the
// same. done is told how many rounds are.
func compareAbsent(ctx context.Context, db *bloomkv.DB, f *floor, set *workload.Generated, c chain, rounds int, seed uint64, done func(round int)) (against, error) {
	r := storeReader{db: db}
	questions := [...]question{r.ask, f.mayContain, nothing}
	var turns [len(questions)]*turn
	for i := range turns {
		turns[i] = newTurn(set, c, true, seed)
	}
	var times [len(questions)][]float64 // for a key
	n := min(turnKeys, set.Absents())
	runtime.GC()
	for round := range rounds {
		for i := range turns { // each side is the first in its turn
			if err := ctx.Err(); err != nil {
				return against{}, err
			}
			which := (i + round) % len(turns)
			times[which] = append(times[which], turns[which].take(round*n, n, questions[which]))
		}
		done(round + 1)
	}
	return summary(c, turns[0], turns[1], times), r.err
}

// summary of the rounds of a store, a floor and asking itself.
func summary(c chain, store, floor *turn, times [3][]float64) against {
	a := against{Chain: c.String(), AskNs: workload.Median(times[2]), Wrong: store.others}
	a.FloorFPR = float64(floor.others) / float64(max(floor.asked, 1))
	ratios := make([]float64, len(times[0]))
	var net [2][]float64
	for i := range ratios {
		for side := range net {
			net[side] = append(net[side], max(times[side][i]-a.AskNs, 1)) // noise in the cost of asking must not turn the sign
		}
		ratios[i] = net[0][i] / net[1][i]
	}
	a.StoreNs, a.FloorNs = workload.Median(net[0]), workload.Median(net[1])
	a.Ratio, a.Least, a.Most = workload.Median(ratios), slices.Min(ratios), slices.Max(ratios)
	return a
}
