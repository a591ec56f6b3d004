package bloomkv

import (
	"sync/atomic"
)

// writeCounts are the counters behind WriteMetrics.
type writeCounts struct {
	operations, groups, logBytes, logSyncs, flushes, flushBytes, ingests, ingestBytes atomic.Uint64

	compactions, compactedRead, compactedBytes, rewrittenBytes, moves atomic.Uint64

	stalls [stallReasons]stallCount
}

func (w *writeCounts) metrics() WriteMetrics {
	return WriteMetrics{
		Operations: w.operations.Load(), Groups: w.groups.Load(),
		LogBytes: w.logBytes.Load(), LogSyncs: w.logSyncs.Load(),
		Flushes: w.flushes.Load(), FlushBytes: w.flushBytes.Load(),
		Ingests: w.ingests.Load(), IngestBytes: w.ingestBytes.Load(),
		Compactions: w.compactions.Load(), CompactedRead: w.compactedRead.Load(),
		CompactedBytes: w.compactedBytes.Load(), RewrittenBytes: w.rewrittenBytes.Load(), Moves: w.moves.Load(),
		SlowedByLevel0:    w.stalls[SlowedByLevel0].metrics(),
		StoppedByLevel0:   w.stalls[StoppedByLevel0].metrics(),
		StoppedByMemtable: w.stalls[StoppedByMemtable].metrics(),
	}
}
