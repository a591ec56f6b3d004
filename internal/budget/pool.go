// Package budget divides memory and file descriptors among stores, and among the tables of each: which parts of their
// filters and indexes are in memory, and how much is left for cached blocks.
package budget

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/tablefile"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// ErrNoRoom means that the memtables of one more store do not fit.
var ErrNoRoom = errors.New("no room for another store's memtables")

// A Pool is the memory and the file descriptors that several stores share, or that a single store has. It is safe for
// concurrent use.
//
// Memory for memtables is reserved, two for each open store, and never exceeds half of the total. Filters, indexes
// and cached blocks of all stores share the rest. The cache gets what filters and indexes do not take, and at least a
// quarter of the rest. If filters and indexes need more, the pool drops prefix filters first; then units of filters,
// of all stores in turn: the last of three units of each table, from the last level upwards, because each of its
// bytes saves the fewest reads there, then the second, then whole filters; and finally indexes, which are read again
// when needed.
//
// No store waits for another, neither for its locks nor for its file system: locks of other stores are only tried.
type Pool struct {
	// constant
	Memory int64           // bytes
	Blocks *cache.Pool     // of all stores
	Files  *tablefile.Pool // of all stores

	Held     Residents    // of all stores
	Reserved atomic.Int64 // bytes for memtables; changed under mu

	mu       sync.Mutex // no calls out of this package while held; guards changes of the fields above, and accounts
	accounts []*account // of the stores that are open, or being opened

	// Balancing is held while the pool sheds and sets the capacity of the cache. It is tried, never waited for.
	Balancing  sync.Mutex
	unbalanced atomic.Bool // something has changed since balancing began
}

// NewPool returns a pool with the given bytes of memory and number of descriptors.
func NewPool(memory int64, openFiles int) *Pool {
	return &Pool{Memory: memory, Blocks: cache.NewPool(memory), Files: tablefile.NewPool(openFiles)}
}

// join reserves memory for the memtables of a store.
func (p *Pool) join(a *account) error {
	p.mu.Lock()
	if others := p.Reserved.Load(); others+a.reserved > p.Memory/2 {
		p.mu.Unlock()
		return fmt.Errorf("option MemtableSize: two of %d bytes and the %d of other stores, want at most %d for all, "+
			"half of the memory of Resources: %w", a.reserved/2, others, p.Memory/2, ErrNoRoom)
	}
	p.Reserved.Add(a.reserved)
	p.accounts = append(p.accounts, a)
	p.mu.Unlock()
	p.Rebalance()
	return nil
}

// leave takes back everything that a store had.
func (p *Pool) leave(a *account) {
	p.mu.Lock()
	a.left = true
	h := &a.held
	p.Held.Add(tree.TableBytes{
		Filter: -h.filters.Swap(0), Prefix: -h.prefixes.Swap(0),
		Index: -h.indexes.Swap(0), RangeDeletes: -h.rangeDeletes.Swap(0),
	})
	p.Reserved.Add(-a.reserved)
	p.accounts = slices.DeleteFunc(p.accounts, func(o *account) bool { return o == a })
	p.mu.Unlock()
	p.Rebalance()
	p.Offer()
}

// A Usage is what the stores of a pool hold together.
type Usage struct {
	Stores    int // open, or being opened
	Memtables int64
	Tables    tree.TableBytes
	Cached    int64 // bytes of cached blocks
	Spare     int64 // bytes of buffers kept for reuse
	OpenFiles int
}

// Usage returns what the stores hold now.
func (p *Pool) Usage() Usage {
	u := Usage{Tables: p.Held.Bytes()}
	u.OpenFiles, _ = p.Files.Usage()
	blocks := p.Blocks.Stats()
	u.Cached, u.Spare = blocks.Used, blocks.Spare
	for _, a := range p.members() {
		u.Stores++
		if s, release := a.tree.Acquire(); s != nil {
			u.Memtables += s.MemtableBytes()
			release()
		}
	}
	return u
}

func (p *Pool) members() []*account {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.accounts)
}

// Resident returns the bytes that the tables of all stores have in memory. This includes range tombstones, which are
// never dropped: every read needs them.
func (p *Pool) Resident() int64 { return p.Held.Sum() }

// Free returns the bytes that memtables leave for filters, indexes and the cache.
func (p *Pool) Free() int64 { return p.Memory - p.Reserved.Load() }

// Allowance returns the number of free bytes that filters and indexes may take.
func (p *Pool) Allowance() int64 {
	free := p.Free()
	return free - free/4
}

// Rebalance drops what does not fit and gives the cache the rest. If another goroutine is already doing so, Rebalance
// leaves the work to it. No Table.Loading may be held.
func (p *Pool) Rebalance() {
	p.unbalanced.Store(true)
	for p.unbalanced.Load() && p.Balancing.TryLock() {
		p.unbalanced.Store(false)
		if p.Resident() > p.Allowance() {
			p.shed()
		}
		free := p.Free()
		p.Blocks.SetCapacity(max(free/4, free-p.Resident()))
		p.Balancing.Unlock()
	}
}

// shed drops prefix filters, then units of the other filters, then indexes, from the last level upwards and of all
// stores in turn, until the rest fits. It skips tables that are being loaded: their loader calls Rebalance
// afterwards. Balancing is held.
func (p *Pool) shed() {
	type pinned struct {
		*account

		state *tree.State
	}
	var stores []pinned
	for _, a := range p.members() {
		if s, release := a.tree.Acquire(); s != nil {
			defer release()
			stores = append(stores, pinned{a, s})
		}
	}
	for keep := bloomblock.MaxUnits; keep >= -1; keep-- { // units of each filter to keep; -1 drops indexes too
		for level := manifest.NumLevels - 1; level >= 0; level-- {
			var tables [][]*tree.Table // tables of the level, for each store
			for _, s := range stores {
				tables = append(tables, s.state.LevelTables(level))
			}
			for more, i := true, 0; more; i++ {
				more = false
				for k, s := range stores {
					if p.Resident() <= p.Allowance() {
						return
					}
					if i < len(tables[k]) {
						more = true
						s.Drop(tables[k][i], max(keep, 0), keep < 0)
					}
				}
			}
		}
	}
}

// Offer makes all stores check whether dropped filters fit again.
func (p *Pool) Offer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.accounts {
		select {
		case a.room <- struct{}{}:
		default: // a check is already pending
		}
	}
}
