// Package scheduler runs the background work of a store: it flushes frozen memtables, compacts tables by a policy,
// and removes files that are no longer needed. It makes all changes of the tree, retries what fails, and limits the
// rate of compactions and the disk space they take.
package scheduler

import (
	"context"
	"sync/atomic"
	"time"
	"weak"

	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// A Scheduler runs the background work of one store. It is safe for concurrent use.
//
// Locks are taken in this order: choosing, installMu, then those of the tree, then mu.
type Scheduler struct {
	Config // constant after New

	warm     atomic.Bool   // what memory has space for was loaded after Open
	idle     atomic.Bool   // nobody has written for a while
	sought   atomic.Uint64 // looks of seeks into runs of level 0 since it was last merged
	removals atomic.Uint64 // times that dead tables were removed
	pacer    pacer
	workers  step.WaitGroup

	choosing  step.Mutex // held while a compaction is chosen
	fruitless uint64     // guarded by choosing: changes of the tree after which none was due, and 1; 0 before one
	installMu step.Mutex // held while the tree and then its filter plan change

	mu       step.Mutex // guards what follows
	calls    []*call    // calls of Compact, in their order
	running  []*job     // in the order in which they began
	asked    bool       // whether the last one that began was for a call
	waits    bool       // no compaction begins: one was put off
	reported bool       // whether the lack of disk space was, since a compaction succeeded
	counts   Counts
	cuts     [][]byte // where tables end
	staleOf  weak.Pointer[manifest.Version]
	staleAt  uint64  // the loads of filters when stale was estimated
	stale    float64 // of staleOf: see facts

	installing int // calls of install whose filters do not follow the plan yet

	era    context.Context //nolint:containedctx // of compactions; ended by Close, and while the tree is replaced
	endEra context.CancelFunc
}

// A Config holds the parameters of New.
type Config struct {
	Tree     *tree.Tree
	Share    *budget.Share // memory of the tables
	Policy   compaction.Policy
	Tables   compaction.Env                    // what all new tables have in common
	Codecs   [manifest.NumLevels]sstable.Codec // of tables written to each level
	Workers  int                               // goroutines that compact
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

// New returns a scheduler that does no work yet.
func New(c Config) *Scheduler {
	s := &Scheduler{Config: c, pacer: pacer{rate: c.Rate}}
	s.era, s.endEra = context.WithCancel(c.Tree.Life())
	return s
}

// Start starts the background work, which ends after the tree was closed and drained.
func (s *Scheduler) Start() {
	s.workers.Go(s.keepWarm)
	if s.ReadOnly {
		return
	}
	s.workers.Go(s.followMemtables)
	s.workers.Go(s.flushLoop)
	s.workers.Go(s.removeLoop)
	for range s.Workers {
		s.workers.Go(s.compactLoop)
	}
}

// Wait returns once all work has ended.
func (s *Scheduler) Wait() { s.workers.Wait() }

// Warm reports whether the filters that memory has space for were loaded after Open.
func (s *Scheduler) Warm() bool { return s.warm.Load() }

// keepWarm divides memory and loads tails and filters after Open, and later what memory that became free has space for.
func (s *Scheduler) keepWarm() {
	ctx := s.Tree.Life()
	s.Share.Rebalance()
	s.Share.WarmUp(ctx)
	s.installMu.Lock()
	if now := s.Tree.Load(); now != nil {
		_ = s.Share.Replan(now) // the sizes of filters are known now
	}
	s.installMu.Unlock()
	s.Share.Rebalance()
	s.restore()
	s.warm.Store(true)
	for {
		if _, ok := step.TakeOr(ctx, s.Share.Room()); !ok {
			return
		}
		s.restore()
	}
}

// restore loads what filters lack in memory, and wakes those who wait for that, or whose choice depends on filters.
func (s *Scheduler) restore() {
	if s.Share.Restore(s.Tree.Life()) {
		s.Tree.Wake()
	}
}

// followMemtables divides memory anew while memtables grow, and once they have not grown for a while. Then level 0 is
// merged further. It reads no file, and so it does not wait for one as keepWarm may: writers fill memtables faster than
// filters are loaded.
func (s *Scheduler) followMemtables() {
	ctx := s.Tree.Life()
	lend := time.NewTimer(budget.LendAfter)
	defer lend.Stop()
	for {
		if step.Until(func() bool { return len(s.Tree.Grown()) > 0 || ctx.Err() != nil }); ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-s.Tree.Grown():
			s.idle.Store(false)
			s.Share.Rebalance()
			lend.Reset(budget.LendAfter)
		case <-lend.C:
			s.idle.Store(true)
			s.Tree.Wake() // level 0 may be merged further
			s.Share.Rebalance()
			if s.Share.Lends() {
				lend.Reset(budget.LendAfter)
			}
		}
	}
}

// Sought counts n looks of seeks into runs of level 0. After each looksAfter of them, compaction checks whether to
// merge these runs.
func (s *Scheduler) Sought(n uint64) {
	if now := s.sought.Add(n); now/looksAfter != (now-n)/looksAfter {
		s.Tree.Wake()
	}
}

// looksAfter is the number of looks after which compaction checks the tree, which takes up to milliseconds. The looks
// take 100 ms or more.
const looksAfter = 50_000

// WaitForFilters returns nil once filters follow the plan, or the error of ctx if that ends first. New tables are
// visible before filters follow, see install. It does not wait for the loading that Open starts, nor after Close.
func (s *Scheduler) WaitForFilters(ctx context.Context) error {
	defer step.AfterContext(ctx, s.Tree.Wake)()
	follow := false
	s.Tree.Await(func(v tree.View) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		follow = s.installing == 0 && (!s.Share.Owes() || !s.warm.Load() || v.Closing)
		return follow || ctx.Err() != nil
	})
	if follow {
		return nil
	}
	return ctx.Err()
}
