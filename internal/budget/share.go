package budget

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// A Share is the part of a pool that one store uses. It decides how much of the store's filters is in memory: what the
// filter plan asks for, as far as memory allows. It is safe for concurrent use, with the exceptions noted.
type Share struct {
	// constant
	tree     *tree.Tree
	pool     *Pool
	reserved int64 // bytes for memtables
	scaled   bool  // a larger budget would reserve more for memtables in proportion
	planner  filterplan.Planner
	prefix   sstable.PrefixRule
	observer Observer

	plans   atomic.Pointer[filterplan.Plans]
	promise atomic.Pointer[Promises]
	planned atomic.Pointer[manifest.Version] // of the state that memory was last divided for

	held Residents
	left bool          // guarded by pool.mu: the store left; later loads are not counted
	room chan struct{} // capacity 1; holds an element if filters may grow, or the promise has changed

	growing atomic.Bool // filters may have less in memory than their plans

	water highWater   // guarded by pool.Balancing; of the memtables
	pace  pace        // guarded by pool.Balancing; of the memtables
	told  atomic.Bool // the observer knows that the store does not keep what was asked

	writes struct { // what busy knows
		seq  atomic.Uint64 // the newest sequence number at the last call
		last atomic.Int64  // UnixNano of the call that saw it change; 0 for never
	}

	tailLoads, tailBytes atomic.Uint64 // loads of tails; bytes of tails and filters read
}

// A Config holds the parameters of Join.
type Config struct {
	Tree         *tree.Tree
	MemtableSize int64 // bytes
	Scaled       bool  // MemtableSize is a part of the budget, and not an option
	ReadOnly     bool  // there are no memtables that writers fill
	Planner      filterplan.Planner
	Plans        *filterplan.Plans // the first plans
	Prefix       sstable.PrefixRule
	Observer     Observer
}

// Join returns the share of a new store. The error matches ErrMemoryBudget if its memtables do not fit.
func (p *Pool) Join(c Config) (*Share, error) {
	b := &Share{
		tree: c.Tree, pool: p, scaled: c.Scaled, room: make(chan struct{}, 1),
		planner: c.Planner, prefix: c.Prefix, observer: c.Observer,
	}
	if !c.ReadOnly {
		b.reserved = 2 * c.MemtableSize
	}
	b.plans.Store(c.Plans)
	b.promise.Store(promiseFor(c.Plans.Now.FPR, nil, nil, nil))
	return b, p.join(b)
}

// Leave returns everything to the pool. s is the last state of the store's tree, or nil. A scan that is still running
// finds its tables closed; the blocks that it holds go back to the pool when it releases them.
func (b *Share) Leave(s *tree.State) error {
	err := b.tree.Files.Close()
	if s != nil {
		s.EachTable(func(_ int, t *tree.Table) { t.Reader.Close() })
	}
	b.tree.Blocks.Close()
	b.pool.Parts.Leave(b.tree.Blocks)
	b.pool.leave(b)
	b.planned.Store(&manifest.Version{})
	b.tree.Domain.WaitLater()
	return err
}

// need returns the bytes that the memtables of s need, of those that are reserved for them, at the highest moment of
// the last minute or two: what they have, and two steps ahead. While they grow fast they need all. To reduce filters
// takes time and memory, until the collector has found that no lookup asks what they were, so they are reduced once,
// and not at each step. pool.Balancing is held.
func (b *Share) need(s *tree.State, at time.Time) int64 {
	need := b.ahead(s)
	if b.pace.fast(s.MemtableBytes(), b.reserved/tree.MemtableSteps/2, at) {
		need = b.reserved
	}
	return b.water.raise(need, at)
}

// ahead returns what the memtables of s have, and two steps more, of what is reserved.
func (b *Share) ahead(s *tree.State) int64 {
	return min(s.MemtableBytes()+b.reserved/tree.MemtableSteps, b.reserved)
}

// Lends reports whether the store's memtables may need less memory once they have not grown for a while: then
// Rebalance lends it to the rest of the pool.
func (b *Share) Lends() bool {
	if !b.pool.Balancing.TryLock() {
		return true // as far as is known
	}
	defer b.pool.Balancing.Unlock()
	s, release := b.tree.Acquire()
	if s == nil {
		return false
	}
	defer release()
	return max(b.water.now, b.water.before) > b.ahead(s)
}

// LendAfter is the time after which memory that memtables have used is lent to the rest of the store.
const LendAfter = lendAfter + lendAfter/4

// busy reports whether the store was written to within the last minute, as far as earlier calls can tell.
func (b *Share) busy(at time.Time) bool {
	w := &b.writes
	if seq := uint64(b.tree.NewestSeq()); w.seq.Swap(seq) != seq {
		w.last.Store(at.UnixNano())
		return true
	}
	return at.UnixNano()-w.last.Load() < int64(time.Minute)
}

// StartSeq sets the newest sequence number of the store when it was opened, so that it is idle until it is written to.
func (b *Share) StartSeq(seq uint64) { b.writes.seq.Store(seq) }

// Rebalance divides the memory of the pool anew, as Pool.Rebalance does. If no other store shares the pool, the memory
// is divided when it returns.
func (b *Share) Rebalance() {
	p := b.pool
	if len(p.members()) == 1 {
		p.unbalanced.Store(true)
		p.Balancing.Lock() // a goroutine of this store may have it, for some milliseconds
		p.balance()
		p.Balancing.Unlock()
	}
	p.Rebalance()
}

// ensurePlan divides the memory if that was not done since Open: background work is about to do so.
func (b *Share) ensurePlan() {
	if b.planned.Load() == nil {
		b.Rebalance()
	}
}

// Planned reports whether the memory of filters was divided since the tables of the store became those of s.
func (b *Share) Planned(s *tree.State) bool { return b.planned.Load() == s.Version }

// Room returns a channel that receives when filters may grow: see Restore.
func (b *Share) Room() <-chan struct{} { return b.room }

// offer makes Room receive.
func (b *Share) offer() {
	select {
	case b.room <- struct{}{}:
	default: // it will receive
	}
}

// Bytes returns the bytes that the store's tables have in memory.
func (b *Share) Bytes() tree.TableBytes { return b.held.Bytes() }

// TailLoads returns the number of tails read, and the bytes read of tails and filters.
func (b *Share) TailLoads() (loads, bytes uint64) { return b.tailLoads.Load(), b.tailBytes.Load() }

// ReleaseTable drops everything that a table has in memory, and its descriptor. No reader can see the table any more.
// Released divides what that has made free.
func (b *Share) ReleaseTable(t *tree.Table) error {
	t.Loading.Lock()
	t.Reader.Close()
	t.Released = true
	b.settle(t)
	return t.File.Close()
}

// Released divides memory anew, or leaves that to the goroutine that is doing so.
func (b *Share) Released() { b.pool.Rebalance() }

// partsStep is the number of bytes by which the parts of indexes may grow before the cache gives way.
const partsStep = 64 << 10

// Fit makes the cache give way to parts of indexes that readers have loaded.
func (b *Share) Fit() {
	if p := b.pool; p.Parts.Bytes()-p.fitted.Load() >= partsStep {
		p.fit()
	}
}

// Count adds bytes, which may be negative, to what the store knows beside its tables.
func (b *Share) Count(bytes int64) {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if !b.left {
		b.pool.Held.Add(tree.TableBytes{Description: bytes})
		b.held.Add(tree.TableBytes{Description: bytes})
	}
}

// Restore loads what the plan has for filters, newest data first, and reports whether the store keeps what was asked.
// It stops when ctx is done.
func (b *Share) Restore(ctx context.Context) {
	if b.pool.unplanned.Load() {
		b.Rebalance()
	}
	s, release := b.tree.Acquire()
	if s == nil {
		return
	}
	defer release()
	if !b.growing.Swap(false) {
		b.report()
		return // no filter lacks anything
	}
	s.EachTable(func(_ int, t *tree.Table) {
		switch {
		case ctx.Err() != nil:
			b.growing.Store(true)
		case b.lacks(t):
			if err := b.Load(t); err != nil {
				b.observer.LoadFailed("load", err)
			}
		case t.Keys.Known():
			b.ready(t)
		}
	})
	b.report()
}

// report calls the observer if the store does not keep what was asked once its memtables are full, or keeps it again.
// The promise has to be missed by a sixteenth, so that a tree that changes all the time is not reported all the time.
func (b *Share) report() {
	p := b.promise.Load()
	short := !p.Kept(p.Full)
	if told := b.told.Load(); told == short || short && p.Full.Passed < p.Whole*17/16 {
		return
	}
	if b.told.CompareAndSwap(!short, short) {
		b.observer.Promise(*p)
	}
}

// WarmUp loads tails and the headers of filters after Open, newest data first, and then the filters, so that few
// lookups have to. It stops when ctx is done.
func (b *Share) WarmUp(ctx context.Context) {
	s, release := b.tree.Acquire()
	if s == nil {
		return
	}
	defer release()
	s.EachTable(func(_ int, t *tree.Table) {
		if ctx.Err() == nil {
			if err := b.know(t); err != nil {
				b.observer.LoadFailed("load", err)
			}
		}
	})
	b.growing.Store(true)
	b.Rebalance()
}
