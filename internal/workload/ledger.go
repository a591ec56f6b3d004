package workload

import (
	"slices"
	"sync"
)

// A Ledger is what a store holds of a set: the first pairs of it, some of them in another version than the first. Serve phases
// check answers with it and write in it what they have put; so one ledger goes with a store from phase to phase. Other phases
// expect the first versions, and after a phase that has failed the ledger is worth nothing.
type Ledger struct {
	set Set

	mu      sync.Mutex
	records int              // guarded by mu: all below are in the store
	next    int              // guarded by mu: the first that nobody has begun to insert
	early   map[int]struct{} // guarded by mu: numbers from records on that are in the store

	// Versions of a pair are put in the order of their numbers, but for those that are under way at the same time.
	begun  []uint32         // guarded by mu: the newest version of each pair that was begun
	least  []uint32         // guarded by mu: of each pair, all older versions have been overwritten for sure
	flying map[int][]flight // guarded by mu: by pair, the versions that are being put, in the order of their numbers
	spare  [][]flight       // guarded by mu: slices for flying
}

// A flight is a version from the moment a worker has decided to put it until the worker has checked that it was put.
type flight struct {
	version uint32
	worker  int
	least   uint32 // what no version that may overwrite this one is below: see begin
}

// NewLedger is that of a store into which the first records pairs of set have been loaded, and no other.
func NewLedger(set Set, records int) *Ledger {
	const pairs, each = 2 * chunkOps, 8 // enough for two workers, as a rule
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

// Records is how many pairs the store holds.
func (l *Ledger) Records() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records
}

// insert is the number of the next pair to put.
func (l *Ledger) insert() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return l.next - 1
}

// inserted says that pair i is in the store.
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

// begin is the version of pair i that a worker puts next.
//
// What is in the store once it is put is this version, or one that was under way at the same time: another worker's that
// began before and is not yet known to have ended, or a later one. All below the first of those are overwritten.
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

// end says that a version of pair i is put.
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

// oldest is the oldest version of pair i that a worker may read after all that it has begun.
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

// newest is the newest version of pair i that anybody has begun. Of those up to it, the worker's own that it has not yet said
// to have ended, which are appended to own, came after what it has read.
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

// known reports whether somebody has put pair i or begun to.
func (l *Ledger) known(i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return i < l.next
}

// settled is the oldest version that pair i may have, whoever asks.
func (l *Ledger) settled(i int) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.least[i]
}
