package scheduler

import (
	"time"
)

// Running describes the flushes and compactions in progress.
type Running struct {
	Memtables   int    // that wait for a flush or are flushed: 0 or 1
	Versions    uint64 // in this memtable
	Flushed     uint64 // versions among them that the flush has read
	Compactions []RunningCompaction
}

// A RunningCompaction describes a compaction in progress. A move reads nothing and is not listed.
type RunningCompaction struct {
	From, To     int    // the uppermost level of the inputs, and the level of the outputs
	Tables       int    // inputs
	Bytes        uint64 // of the inputs
	Versions     uint64 // in the inputs
	VersionsRead uint64 // versions among them that were read
	Duration     time.Duration
}

// Running returns the flushes and compactions in progress. It takes the locks of the tree and of the scheduler for a
// moment, which lookups never take.
func (s *Scheduler) Running() Running {
	var r Running
	if mem := s.Tree.View().Flushing.Mem; mem != nil {
		r.Memtables, r.Versions, r.Flushed = 1, uint64(mem.Len()), mem.Flushed() //nolint:gosec // G115: not negative
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.running; j != nil && !j.plan.Move {
		c := RunningCompaction{
			From: j.plan.Inputs[0].Level, To: j.plan.To, Bytes: j.plan.Bytes(), VersionsRead: j.read.Load(),
			Duration: time.Since(j.began),
		}
		for _, in := range j.plan.Inputs {
			c.Tables += len(in.Tables)
			for _, t := range in.Tables {
				c.Versions += t.Entries
			}
		}
		r.Compactions = append(r.Compactions, c)
	}
	return r
}
