package commit

import "sync/atomic"

// Counts are figures of all writes so far.
type Counts struct {
	Operations, Groups uint64
	LogBytes, LogSyncs uint64
	Stalls             [Reasons]StallCount
}

type counts struct {
	operations, groups, logBytes, logSyncs atomic.Uint64

	stalls [Reasons]stallCount
}

// Counts returns the present figures.
func (w *Writer) Counts() Counts {
	c := &w.counts
	now := Counts{
		Operations: c.operations.Load(), Groups: c.groups.Load(),
		LogBytes: c.logBytes.Load(), LogSyncs: c.logSyncs.Load(),
	}
	for i := range c.stalls {
		now.Stalls[i] = c.stalls[i].load()
	}
	return now
}
