package budget

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// A Share is the part of a pool that one store uses. It decides which parts of the store's tables are in memory:
// those that the filter plan asks for, as far as memory allows. It is safe for concurrent use, with the exceptions
// noted.
type Share struct {
	account

	// constant
	planner  filterplan.Planner
	prefix   sstable.PrefixRule
	observer Observer

	plans atomic.Pointer[filterplan.Plans]

	tailLoads, tailBytes atomic.Uint64 // loads of indexes; bytes of indexes and filters read
}

// A Config holds the parameters of Join.
type Config struct {
	Tree         *tree.Tree
	MemtableSize int64 // bytes
	Planner      filterplan.Planner
	Plan         *filterplan.Plan // the first plan; permanent unless Planner.Memory is set
	Prefix       sstable.PrefixRule
	Observer     Observer
}

// Join returns the share of a new store. The error matches ErrNoRoom if its memtables do not fit.
func (p *Pool) Join(c Config) (*Share, error) {
	b := &Share{
		account: account{tree: c.Tree, pool: p, reserved: 2 * c.MemtableSize, room: make(chan struct{}, 1)},
		planner: c.Planner, prefix: c.Prefix, observer: c.Observer,
	}
	b.plans.Store(filterplan.One(c.Plan))
	return b, p.join(&b.account)
}

// Leave returns everything to the pool. s is the last state of the store's tree, or nil. A scan that is still running
// finds its tables closed; the blocks that it holds go back to the pool when it releases them.
func (b *Share) Leave(s *tree.State) error {
	err := b.tree.Files.Close()
	if s != nil {
		s.EachTable(func(_ int, t *tree.Table) { t.Reader.Shed(0, true) })
	}
	b.tree.Blocks.Close()
	b.pool.leave(&b.account)
	b.tree.Domain.WaitLater()
	return err
}

// Offer makes all stores of the pool check whether dropped filters fit again.
func (b *Share) Offer() { b.pool.Offer() }

// Full reports whether filters and indexes take all the memory that they may take.
func (b *Share) Full() bool { return b.pool.Resident() > b.pool.Allowance() }

// Room returns a channel that receives when dropped filters may fit again: see Restore.
func (b *Share) Room() <-chan struct{} { return b.room }

// Bytes returns the bytes that the store's tables have in memory.
func (b *Share) Bytes() tree.TableBytes { return b.held.Bytes() }

// TailLoads returns the number of indexes read, and the bytes read of indexes and filters.
func (b *Share) TailLoads() (loads, bytes uint64) { return b.tailLoads.Load(), b.tailBytes.Load() }

// Trim drops the units of a filter that its table no longer needs at a deeper level, or that do not fit.
func (b *Share) Trim(t *tree.Table) {
	if t.Reader.FilterBytes()+t.Reader.PrefixBytes() == 0 {
		return
	}
	t.Loading.Lock()
	defer t.Loading.Unlock()
	if err := errors.Join(t.Reader.Trim(b.RateOf(t)), t.Reader.DropFilterUnits(t.Units())); err != nil {
		b.observer.LoadFailed("trim", err)
	}
	b.count(t)
}

// ReleaseTable drops everything that a table has in memory, and its descriptor. No reader can see the table any more.
func (b *Share) ReleaseTable(t *tree.Table) error {
	t.Loading.Lock()
	_ = t.Reader.DropFilterUnits(0) // with no unit left, nothing can be damaged
	t.Reader.Close()
	b.settle(t)
	return t.File.Close()
}

// Recount counts a table again after a lookup had to load its index, which had been dropped.
func (b *Share) Recount(t *tree.Table) {
	t.Loading.Lock()
	b.settle(t)
}

// Restore loads units of filters that had been dropped, and those that a new plan asks for, while they fit: the first
// unit of all tables, newest data first, then the second units, then the third. It stops when ctx is done.
func (b *Share) Restore(ctx context.Context) {
	s, release := b.tree.Acquire()
	if s == nil {
		return
	}
	defer release()
	for n := 1; n <= bloomblock.MaxUnits; n++ {
		s.EachTable(func(_ int, t *tree.Table) {
			if ctx.Err() == nil && b.lacks(t, n) {
				if err := b.Load(t); err != nil {
					b.observer.LoadFailed("load", err)
				}
			}
		})
	}
}

// lacks reports whether the table should have n units of its filter in memory, does not have them, and they fit now.
// If the filter was not read yet, all its units count as the first.
func (b *Share) lacks(t *tree.Table, n int) bool {
	have, shed := t.Reader.FilterUnits(), int(t.Kept.Load()) < n
	if !shed && (b.planner.Memory == 0 || !t.Reader.Loaded()) || have >= n || int(t.Planned.Load()) < n {
		return false
	}
	need, known := int64(t.Meta.FilterLen), false //nolint:gosec // below the size of a file, as below
	if h, ok := t.Reader.FilterHeader(); ok {
		if have < n-1 || h.UnitsFor(b.RateOf(t)) < n {
			return false
		}
		need, known = int64(h.Units[n-1].Bytes()), true //nolint:gosec // as above
	}
	if b.pool.Resident()+need > b.pool.Allowance() {
		return false
	}
	if !known {
		n = bloomblock.MaxUnits
	}
	t.Kept.Store(max(t.Kept.Load(), int32(n)))
	return true
}

// WarmUp loads indexes and filters after Open, newest data first, so that few lookups have to. It stops when ctx is
// done.
func (b *Share) WarmUp(ctx context.Context) {
	s, release := b.tree.Acquire()
	if s == nil {
		return
	}
	defer release()
	s.EachTable(func(_ int, t *tree.Table) {
		if ctx.Err() != nil || t.Reader.Loaded() || b.pool.Resident() > b.pool.Allowance()*7/8 {
			return
		}
		if err := b.Load(t); err != nil {
			b.observer.LoadFailed("load", err)
		}
	})
}
