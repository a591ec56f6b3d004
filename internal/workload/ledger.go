package workload

// A Ledger is what a store holds of a set: the first records, some of them in another version than the first. Serve phases
// write it and check answers with it; one ledger goes with a store from phase to phase.
type Ledger struct {
	set     Set
	records int
}

// NewLedger is that of a store into which the first records pairs of set have been loaded.
func NewLedger(set Set, records int) *Ledger { return &Ledger{set: set, records: records} }

// Records is how many pairs the store holds.
func (l *Ledger) Records() int { return l.records }
