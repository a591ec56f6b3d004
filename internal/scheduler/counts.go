package scheduler

// Counts are figures of all work so far, in numbers and bytes.
type Counts struct {
	Flushes, FlushBytes                uint64
	Ingests, IngestBytes               uint64
	Compactions                        uint64 // that rewrote tables
	CompactedBytesRead, CompactedBytes uint64
	RewrittenBytes                     uint64 // part of CompactedBytes: tables rewritten alone
	Moves                              uint64 // tables that changed their level
}

func (c *Counts) add(d Counts) {
	c.Flushes += d.Flushes
	c.FlushBytes += d.FlushBytes
	c.Ingests += d.Ingests
	c.IngestBytes += d.IngestBytes
	c.Compactions += d.Compactions
	c.CompactedBytesRead += d.CompactedBytesRead
	c.CompactedBytes += d.CompactedBytes
	c.RewrittenBytes += d.RewrittenBytes
	c.Moves += d.Moves
}

// Counts returns the present figures.
func (s *Scheduler) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}
