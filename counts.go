package bloomkv

import (
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/commit"
)

// writeCounts are the counters behind WriteMetrics.
type writeCounts struct {
	flushes, flushBytes, ingests, ingestBytes atomic.Uint64

	compactions, compactedRead, compactedBytes, rewrittenBytes, moves atomic.Uint64
}

func (w *writeCounts) metrics(c commit.Counts) WriteMetrics {
	return WriteMetrics{
		Operations: c.Operations, Groups: c.Groups, LogBytes: c.LogBytes, LogSyncs: c.LogSyncs,
		Flushes: w.flushes.Load(), FlushBytes: w.flushBytes.Load(),
		Ingests: w.ingests.Load(), IngestBytes: w.ingestBytes.Load(),
		Compactions: w.compactions.Load(), CompactedRead: w.compactedRead.Load(),
		CompactedBytes: w.compactedBytes.Load(), RewrittenBytes: w.rewrittenBytes.Load(), Moves: w.moves.Load(),
		SlowedByLevel0:    StallMetrics(c.Stalls[commit.SlowedByLevel0]),
		StoppedByLevel0:   StallMetrics(c.Stalls[commit.StoppedByLevel0]),
		StoppedByMemtable: StallMetrics(c.Stalls[commit.StoppedByMemtable]),
	}
}
