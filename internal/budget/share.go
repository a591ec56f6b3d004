package budget

import (
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// A Share is the part of a pool that one store uses. It decides how much of the store's filters is in memory: what the
// filter plan asks for, as far as memory allows. It is safe for concurrent use, with the exceptions noted.
type Share struct {
	member

	pool *Pool // constant

	tailLoads, tailBytes atomic.Uint64 // loads of tails; bytes of tails and filters read

	again *step.Timer   // of Restore; has what could not be loaded tried again
	pause time.Duration // of Restore; before that
}

// An Observer is called when something happens to filters.
type Observer interface {
	Damaged(err error)                              // a filter is damaged; reads go on without it
	WorkFailed(work string, attempt int, err error) // work is "load", attempt 1; it will be tried again
	Promise(p Promises)                             // the store does not keep what was asked, or keeps it again
}

// A Config holds the parameters of Join.
type Config struct {
	Tree         *tree.Tree
	MemtableSize int64 // bytes
	Scaled       bool  // MemtableSize is a part of the budget, which would grow with it, and not an option
	ReadOnly     bool  // there are no memtables that writers fill
	Planner      filterplan.Planner
	Plans        *filterplan.Plans // the first plans
	Prefix       sstable.PrefixRule
	Observer     Observer
}

// Join returns the share of a new store. The error matches ErrMemoryBudget if its memtables do not fit.
func (p *Pool) Join(c Config) (*Share, error) {
	b := &Share{member: member{Config: c, all: &p.Held, room: make(chan struct{}, 1)}, pool: p}
	if !c.ReadOnly {
		b.reserved = 2 * c.MemtableSize
	}
	b.plans.Store(c.Plans)
	b.promise.Store(promiseFor(c.Plans.Now.FPR, nil, nil, nil))
	return b, p.join(&b.member)
}

// Leave returns everything to the pool. s is the last state of the store's tree, or nil. A scan that is still running
// finds its tables closed; the blocks that it holds go back to the pool when it releases them.
func (b *Share) Leave(s *tree.State) error {
	if b.again != nil {
		b.again.Stop() // it would keep the closed store in memory
	}
	err := b.Tree.Files.Close()
	if s != nil {
		s.EachTable(func(_ int, t *tree.Table) { t.Reader.Close() })
	}
	b.Tree.Blocks.Close()
	b.pool.Parts.Leave(b.Tree.Blocks)
	b.pool.leave(&b.member)
	b.planned.Store(&manifest.Version{})
	b.Tree.Domain.End()
	return err
}

// Lends reports whether the store's memtables may need less memory once they have not grown for a while: then
// Rebalance lends it to the rest of the pool.
func (b *Share) Lends() bool {
	if !b.pool.Balancing.TryLock() {
		return true // as far as is known
	}
	defer b.pool.rebalance()
	defer b.pool.Balancing.Unlock()
	s := b.Tree.Hold()
	if s == nil {
		return false
	}
	defer b.Tree.Release(s)
	return max(b.water.now, b.water.before) > b.ahead(s)
}

// LendAfter is the time after which memory that memtables have used is lent to the rest of the store.
const LendAfter = lendAfter + lendAfter/4

// Rebalance divides the memory of the pool anew, as Pool.Rebalance does. If no other store shares the pool, the memory
// is divided when it returns.
func (b *Share) Rebalance() {
	p := b.pool
	p.unbalanced.Store(true)
	if len(p.members()) == 1 {
		p.Balancing.Lock() // a goroutine of this store may have it, for some milliseconds
		p.balance()
		p.Balancing.Unlock()
	}
	p.rebalance()
}

// ensurePlan divides the memory if that was not done since Open: background work is about to do so.
func (b *Share) ensurePlan() {
	if b.planned.Load() == nil {
		b.Rebalance()
	}
}

// TailLoads returns the number of tails read, and the bytes read of tails and filters.
func (b *Share) TailLoads() (loads, bytes uint64) { return b.tailLoads.Load(), b.tailBytes.Load() }

// Released divides memory anew, or leaves that to the goroutine that is doing so.
func (b *Share) Released() { b.pool.Rebalance() }
