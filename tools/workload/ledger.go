package workload

import (
	"slices"
	"sync"
)

// A Ledger records which pairs of a set a store holds: the first ones of the set, some of them in later versions. Serve
// phases check answers against it and record in it what they put, so that one ledger is used for all Serve phases on a
// store. Other phases expect first versions. After a failed phase the ledger must not be used.
type Ledger struct {
	set Set

	mu      sync.Mutex
	records int              // guarded by mu: all pairs below are in the store
	next    int              // guarded by mu: the first pair that no worker has started to insert
	early   map[int]struct{} // guarded by mu: pairs from number records on that are in the store

	// Versions of a pair are put in the order of their numbers, except for those that several workers put at the same
	// time.
	begun  []uint32         // guarded by mu: the newest version of each pair that a worker has started to put
	least  []uint32         // guarded by mu: the oldest version that each pair may still have
	flying map[int][]flight // guarded by mu: the versions of a pair that are being put, in the order of their numbers
	spare  [][]flight       // guarded by mu: slices for reuse in flying
}

// A flight is a version that is being put: from the decision of a worker to put it until the worker has checked it.
type flight struct {
	version uint32
	worker  int
	least   uint32 // no version below it can overwrite this one: see begin
}

// NewLedger returns the ledger of a store into which the first records pairs of set have been loaded.
func NewLedger(set Set, records int) *Ledger {
	const pairs, each = 2 * chunkOps, 8 // usually enough for two workers
	l := &Ledger{
		set: set, records: records, next: records,
		early: make(map[int]struct{}, pairs), flying: make(map[int][]flight, pairs),
		begun: make([]uint32, set.Len()), least: make([]uint32, set.Len()),
	}
	for all := range slices.Chunk(make([]flight, pairs*each), each) {
		l.spare = append(l.spare, all[:0:each])
	}
	return l
}

// Records returns the number of pairs in the store.
func (l *Ledger) Records() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records
}

// insert returns the number of the next pair to insert.
func (l *Ledger) insert() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return l.next - 1
}

// inserted records that pair i is in the store.
func (l *Ledger) inserted(i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.early[i] = struct{}{}
	for {
		if _, ok := l.early[l.records]; !ok {
			return
		}
		delete(l.early, l.records)
		l.records++
	}
}

// begin returns the version of pair i that a worker puts next.
//
// After the put the store holds this version or one that was put at the same time: one that another worker started
// earlier and may not have finished, or a later one. All versions below the first of those are overwritten.
func (l *Ledger) begin(i, worker int) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun[i]++
	f := flight{l.begun[i], worker, l.begun[i]}
	all, ok := l.flying[i]
	if n := len(l.spare); !ok && n > 0 {
		all, l.spare = l.spare[n-1], l.spare[:n-1]
	}
	for _, other := range all {
		if other.worker != worker {
			f.least = other.version
			break
		}
	}
	l.flying[i] = append(all, f)
	return f.version
}

// end records that a version of pair i was put.
func (l *Ledger) end(i int, version uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.flying[i]
	at := slices.IndexFunc(all, func(f flight) bool { return f.version == version })
	l.least[i] = max(l.least[i], all[at].least)
	if all = slices.Delete(all, at, at+1); len(all) > 0 {
		l.flying[i] = all
		return
	}
	delete(l.flying, i)
	l.spare = append(l.spare, all)
}

// noWorker is the ID of a worker that has started nothing.
const noWorker = -1

// oldest returns the oldest version of pair i that a worker may read after everything that it has started.
func (l *Ledger) oldest(i, worker int) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := l.least[i]
	for _, f := range l.flying[i] {
		if f.worker == worker {
			oldest = max(oldest, f.least)
		}
	}
	return oldest
}

// newest returns the newest version of pair i that any worker has started to put. It appends to own the versions that
// the given worker has not ended yet: they were put after its read.
func (l *Ledger) newest(own []uint32, i, worker int) (uint32, []uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.flying[i] {
		if f.worker == worker {
			own = append(own, f.version)
		}
	}
	return l.begun[i], own
}

// known reports whether pair i has been inserted, or a worker has started to insert it.
func (l *Ledger) known(i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return i < l.next
}
