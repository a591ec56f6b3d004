package scheduler

import (
	"time"

	"github.com/bloomkv/bloomkv/internal/tree"
)

// Running describes the flushes and compactions in progress.
type Running struct {
	Memtables   int    // that wait for a flush, including the one that is flushed
	Versions    uint64 // in these memtables
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
	s.Tree.Await(func(v tree.View) bool {
		r.Memtables = len(v.Flushing)
		for _, f := range v.Flushing {
			r.Versions += uint64(f.Mem.Len()) //nolint:gosec // G115: not negative
		}
		return true
	})
	r.Flushed = min(s.Tree.Flushed.Load(), r.Versions)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.running {
		if j.plan.Move {
			continue
		}
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
