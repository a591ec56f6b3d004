package workload

// A Ledger records which pairs of a set a store holds: the first ones of the set, some of them in later versions. Serve
// phases check answers against it and record in it what they put, so that one ledger is used for all Serve phases on a
// store. Other phases expect first versions. After a failed phase the ledger must not be used. It is for one goroutine.
//
// A chunk is decided before its operations run, and checked afterwards in their order. While it is checked, the ledger
// has what the store held when the operation ran.
type Ledger struct {
	set Set

	next    int // the first pair that no operation inserts
	records int // all pairs below are in the store

	begun []uint32 // the newest version of each pair that an operation puts
	put   []uint32 // the version of each pair in the store
}

// NewLedger returns the ledger of a store into which the first records pairs of set have been loaded.
func NewLedger(set Set, records int) *Ledger {
	return &Ledger{
		set: set, next: records, records: records, begun: make([]uint32, set.Len()), put: make([]uint32, set.Len()),
	}
}

// Records returns the number of pairs in the store.
func (l *Ledger) Records() int { return l.records }

// insert returns the number of the next pair to insert.
func (l *Ledger) insert() int {
	l.next++
	return l.next - 1
}

// begin returns the version of pair i that an operation puts next.
func (l *Ledger) begin(i int) uint32 {
	l.begun[i]++
	return l.begun[i]
}
