package main

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/workload"
)

// A question asks a subject whether it holds a key. It is used by one goroutine.
type question func(key []byte) bool

// A chain asks for keys one after the other. In a chained series the next key depends on the last answer: after an
// unexpected answer, one key is skipped. The position of the next key is stored in an atomic variable, so that the
// processor can neither guess the answer nor start with the next key early, and the time of a single lookup is
// measured. In a free series nothing depends on the answer, and lookups may overlap.
type chain struct {
	free bool
	want bool // the expected answer
}

// ask returns the number of keys that it asked for, and the number of unexpected answers.
func (c chain) ask(keys keyList, q question) (asked, others int) {
	if c.free {
		for at := 0; at < len(keys.bytes); at += keys.width {
			others += differ(q(keys.at(at)), c.want)
		}
		return len(keys.bytes) / keys.width, others
	}
	var next atomic.Int64 // on amd64, an atomic store and load wait for all earlier loads
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

// String returns the name of the kind of series.
func (c chain) String() string {
	if c.free {
		return "free"
	}
	return "chained"
}

// A keyList holds keys of one length, end to end.
type keyList struct {
	bytes []byte
	width int
}

func (k *keyList) at(at int) []byte { return k.bytes[at : at+k.width : at+k.width] }

// fill sets the list to n keys of a set, or absent keys: those from index first on in a shuffled order, which starts
// again at its end.
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

// chunks yields the keys in parts that are timed together.
func (k *keyList) chunks() iter.Seq[keyList] {
	return func(yield func(keyList) bool) {
		for part := range slices.Chunk(k.bytes, chunkKeys*k.width) {
			if !yield(keyList{part, k.width}) {
				return
			}
		}
	}
}

// asking answers as expected at no cost, to measure the cost of asking.
func (c chain) asking([]byte) bool { return c.want }

// A storeReader asks a store. It is used by one goroutine.
type storeReader struct {
	db     *bloomkv.DB
	value  []byte
	length int // sum over all values
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

// A comparison is the result of asking a store and its floor for the same keys in turn.
type comparison struct {
	Chain   string  `json:"chain"`
	StoreNs float64 `json:"store_ns"` // per lookup, median of the rounds, less the cost of asking
	FloorNs float64 `json:"floor_ns"`
	AskNs   float64 `json:"ask_ns"` // the cost of asking

	// Ratio is StoreNs ÷ FloorNs of a round: the median of the rounds, the minimum and the maximum.
	Ratio float64 `json:"ratio"`
	Least float64 `json:"ratio_least"`
	Most  float64 `json:"ratio_most"`

	FloorFPR float64 `json:"floor_fpr"` // measured, of the floor's filters
	Wrong    int     `json:"wrong"`     // wrong answers of the store
}

const (
	// turnKeys is the number of keys for which one side is asked in a row, enough to fill the first-level caches with
	// its data.
	turnKeys = 1 << 18
	// chunkKeys is the number of keys that are timed together: few enough that most chunks are not disturbed by other
	// work on the machine, and enough that the clock costs little.
	chunkKeys = 2048
	// warmPart is the inverse of the share of a turn that is not timed, because the caches hold data of the other side.
	warmPart = 4
)

// A turn asks one question for keys of a set, chunk by chunk, and returns the time per key. It uses the keys from index
// first on in a shuffled order, and prepares them while the clock is stopped.
type turn struct {
	chain  chain
	set    *workload.Generated
	absent bool
	order  workload.Permutation
	keys   keyList

	asked, others int // in all turns so far
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

// compareAbsent asks a store and its floor for absent keys in turn, for the given number of rounds. Each round uses
// other keys, the same for both. done is called after each round.
func compareAbsent(ctx context.Context, db *bloomkv.DB, f *floor, set *workload.Generated, c chain,
	rounds int, seed uint64, done func(round int),
) (comparison, error) {
	r := storeReader{db: db}
	a, err := compare(ctx, r.ask, f.mayContain, set, c, turnKeys, rounds, seed, done)
	return a, errors.Join(err, r.err)
}

// compare asks a store and its floor in turn, for keys of the set if c.want is true, else for absent ones. Each round
// uses other keys, the same for both, at most the given number. done is called after each round.
func compare(ctx context.Context, store, floor question, set *workload.Generated, c chain, most, rounds int,
	seed uint64, done func(round int),
) (comparison, error) {
	questions := [...]question{store, floor, c.asking}
	var turns [len(questions)]*turn
	for i := range turns {
		turns[i] = newTurn(set, c, !c.want, seed)
	}
	var times [len(questions)][]float64 // per key
	n := min(most, set.Absents())
	runtime.GC()
	for round := range rounds {
		for i := range turns { // the sides take turns in being first
			if err := ctx.Err(); err != nil {
				return comparison{}, err
			}
			which := (i + round) % len(turns)
			times[which] = append(times[which], turns[which].take(round*n, n, questions[which]))
		}
		done(round + 1)
	}
	return summary(c, turns[0], turns[1], times), nil
}

// summary returns the result from the times of a store, a floor and asking itself.
func summary(c chain, store, floor *turn, times [3][]float64) comparison {
	a := comparison{Chain: c.String(), AskNs: workload.Median(times[2]), Wrong: store.others}
	if c.want {
		a.Wrong += floor.others // it denies a key
	} else {
		a.FloorFPR = float64(floor.others) / float64(max(floor.asked, 1))
	}
	ratios := make([]float64, len(times[0]))
	var net [2][]float64
	for i := range ratios {
		for side := range net {
			// noise in the cost of asking must not change the sign
			net[side] = append(net[side], max(times[side][i]-a.AskNs, 1))
		}
		ratios[i] = net[0][i] / net[1][i]
	}
	a.StoreNs, a.FloorNs = workload.Median(net[0]), workload.Median(net[1])
	a.Ratio, a.Least, a.Most = workload.Median(ratios), slices.Min(ratios), slices.Max(ratios)
	return a
}
