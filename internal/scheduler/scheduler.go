// Package scheduler runs the background work of a store: it flushes frozen memtables, compacts tables by a policy,
// and removes files that are no longer needed. It makes all changes of the tree, retries what fails, and limits the
// rate of compactions and the disk space they take.
package scheduler

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// compactors is the number of goroutines that compact. More of them may only run plans that share no level.
const compactors = 1

// A Scheduler runs the background work of one store. It is safe for concurrent use.
//
// Locks are taken in this order: installMu, then those of the tree, then mu.
type Scheduler struct {
	Config // constant after New

	warm    atomic.Bool // indexes and filters were loaded after Open, and the filter plan was made from them
	pacer   pacer
	workers sync.WaitGroup

	installMu sync.Mutex // held while the tree and then its filter plan change

	mu      sync.Mutex // guards what follows
	calls   []*call    // calls of Compact, in their order
	running []*job
	counts  Counts
}

// A Config holds the parameters of New.
type Config struct {
	Tree     *tree.Tree
	Share    *budget.Share // memory of the tables
	Policy   compaction.Policy
	Tables   compaction.Env                    // what all new tables have in common
	Codecs   [manifest.NumLevels]sstable.Codec // of tables written to each level
	Rate     int64                             // bytes per second that compactions write; 0 means no limit
	ReadOnly bool                              // no work is done except loading filters
	Observer Observer
}

// An Observer is called for what background work does. The tables are new, and durable.
type Observer interface {
	Flushed(f Flush, tables []*manifest.Table)
	Compacted(c Compaction, tables []*manifest.Table)
	Removed(level int, t *manifest.Table)           // the file of a table
	WorkFailed(work string, attempt int, err error) // work that will be tried again
	Damaged(err error)
}

// Counts are figures of all work so far, in numbers and bytes.
type Counts struct {
	Flushes, FlushBytes           uint64
	Ingests, IngestBytes          uint64
	Compactions                   uint64 // that rewrote tables
	CompactedRead, CompactedBytes uint64
	RewrittenBytes                uint64 // part of CompactedBytes: tables rewritten alone
	Moves                         uint64 // tables that changed their level
}

func (c *Counts) add(d Counts) {
	c.Flushes += d.Flushes
	c.FlushBytes += d.FlushBytes
	c.Ingests += d.Ingests
	c.IngestBytes += d.IngestBytes
	c.Compactions += d.Compactions
	c.CompactedRead += d.CompactedRead
	c.CompactedBytes += d.CompactedBytes
	c.RewrittenBytes += d.RewrittenBytes
	c.Moves += d.Moves
}

// New returns a scheduler that does no work yet.
func New(c Config) *Scheduler {
	return &Scheduler{Config: c, pacer: pacer{rate: c.Rate}}
}

// Start starts the background work, which ends after the tree was closed and drained.
func (s *Scheduler) Start() {
	s.workers.Go(s.keepWarm)
	if s.ReadOnly {
		return
	}
	s.workers.Go(s.flushLoop)
	for range compactors {
		s.workers.Go(s.compactLoop)
	}
	s.workers.Go(s.Tree.ReleaseStates)
}

// Wait returns once all work has ended.
func (s *Scheduler) Wait() { s.workers.Wait() }

// Warm reports whether indexes and filters were loaded after Open.
func (s *Scheduler) Warm() bool { return s.warm.Load() }

// Counts returns the present figures.
func (s *Scheduler) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Settled reports whether there is nothing left to flush or compact. It is false after Close.
func (s *Scheduler) Settled() (settled bool) {
	s.Tree.Await(func(v tree.View) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		settled = v.State != nil && (s.ReadOnly ||
			len(v.Flushing) == 0 && len(s.calls) == 0 && len(s.running) == 0 && s.pick(v.State) == nil)
		return true
	})
	return settled
}

// Env returns what is needed to write tables for a level. Its snapshots are those open now, so the inputs must be
// fixed before the call. Readers see a new state before its filter plan is made, so Env waits for the plan.
func (s *Scheduler) Env(level int) compaction.Env {
	s.installMu.Lock()
	plan := s.Share.Plans().Now
	s.installMu.Unlock()
	env := s.Tables
	env.Codec, env.Filter = s.Codecs[level], plan.Levels[level].Params
	env.Recodes = s.Codecs[level] != s.Codecs[0]
	env.Snapshots = s.Tree.Pinned()
	return env
}

// keepWarm loads indexes and filters after Open, and later reloads dropped ones when there is memory for them again.
func (s *Scheduler) keepWarm() {
	ctx := s.Tree.Life()
	s.Share.WarmUp(ctx)
	s.installMu.Lock()
	if now := s.Tree.Load(); now != nil {
		_ = s.Share.Replan(now) // the sizes of filters are known now; drops those that do not fit
	}
	s.installMu.Unlock()
	s.Share.Restore(ctx)
	s.warm.Store(true)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.Share.Room():
			s.Share.Restore(ctx)
		}
	}
}

// WaitForFlush returns once all memtables frozen up to the sequence number last are durable in tables, and filters
// follow the plan.
func (s *Scheduler) WaitForFlush(ctx context.Context, last ikey.Seq) error {
	err := s.Tree.Wait(ctx, func(v tree.View) bool { return len(v.Flushing) == 0 || v.Flushing[0].Last > last })
	if err != nil {
		return err
	}
	s.installMu.Lock() // new tables are visible before their filters follow the plan: see install
	defer s.installMu.Unlock()
	return nil
}
