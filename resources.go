package bloomkv

import (
	"cmp"
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

const (
	defaultMemory    = 64 << 20
	defaultOpenFiles = 500
	minOpenFiles     = 8
	maxMemory        = 1 << 50
	maxOpenFiles     = 1 << 30

	// sharedMemtables is the part of shared memory that a memtable gets by default: two of them a store and half of the memory
	// for all, so that sixteen stores fit.
	sharedMemtables = 64
)

// Resources are the memory and the file descriptors that stores of one process have together: see [NewResources]. They hold
// nothing but what open stores need, and need no Close. All methods are safe for concurrent use.
//
// Memtables are reserved, two for each open store, and never take more than half. What they leave is for filters, indexes
// and the block cache of all stores, as they come. The cache gets what filters and indexes do not take, and never less than
// a quarter. Where filters and indexes need more than the rest, filters of prefixes are dropped first, then units of filters, of
// all stores in turn: the last of three units of each table, from the last level upwards, since each of its bytes saves the fewest
// reads there, then the second, and then whole filters; at last indexes, which come back when they are touched.
//
// No store waits for another: neither for its locks nor for what it reads or who reads from it.
type Resources struct {
	memory int64 // constant
	blocks *cache.Pool
	files  *tablefile.Pool

	held     residents    // of all stores
	reserved atomic.Int64 // bytes for memtables; changed under mu

	mu     sync.Mutex // held over no call out of here; guards the changes of the above, and what follows
	stores []*DB      // that are open, or about to be

	balancing  sync.Mutex  // one at a time sheds and sets the cache's bound; it is tried and never waited for
	unbalanced atomic.Bool // something has changed since balancing began
}

// residents are the bytes that tables have in memory, by part; changed under Resources.mu.
type residents struct{ filters, prefixes, indexes, rangeDeletes atomic.Int64 }

func (h *residents) add(b tree.TableBytes) {
	h.filters.Add(b.Filter)
	h.prefixes.Add(b.Prefix)
	h.indexes.Add(b.Index)
	h.rangeDeletes.Add(b.RangeDeletes)
}

// tell writes the parts into m.
func (h *residents) tell(m *MemoryMetrics) {
	m.PrefixFilters = h.prefixes.Load()
	m.Filters, m.Indexes, m.RangeDeletes = h.filters.Load()+m.PrefixFilters, h.indexes.Load(), h.rangeDeletes.Load()
}

func (h *residents) sum() int64 {
	return h.filters.Load() + h.prefixes.Load() + h.indexes.Load() + h.rangeDeletes.Load()
}

// A share is what one store has of its Resources.
type share struct {
	held     residents
	reserved int64         // bytes for memtables; constant while the store is open
	left     bool          // guarded by Resources.mu: what a late reader loads counts no more
	room     chan struct{} // told when there may be room for filters that were shed
}

// offer tells the store that there may be room for filters that were shed.
func (s *share) offer() {
	select {
	case s.room <- struct{}{}:
	default: // it has not looked since it was told last
	}
}

// NewResources makes memory and file descriptors for several stores to share (Options.Resources): memory in bytes, 0 for
// 64 MiB, at least 8 MiB; openFiles bounds the descriptors held for tables, 0 for 500, at least 8. Stores may be opened and
// closed in any order, and a store that was closed has given all back.
func NewResources(memory int64, openFiles int) (*Resources, error) {
	memory, openFiles = cmp.Or(memory, defaultMemory), cmp.Or(openFiles, defaultOpenFiles)
	if memory < minMemory || memory > maxMemory {
		return nil, fmt.Errorf("bloomkv: resources: memory of %d bytes, want %d to %d", memory, minMemory, int64(maxMemory))
	}
	if openFiles < minOpenFiles || openFiles > maxOpenFiles {
		return nil, fmt.Errorf("bloomkv: resources: %d open files, want %d to %d", openFiles, minOpenFiles, maxOpenFiles)
	}
	return newResources(memory, openFiles), nil
}

func newResources(memory int64, openFiles int) *Resources {
	return &Resources{memory: memory, blocks: cache.NewPool(memory), files: tablefile.NewPool(openFiles)}
}

// join takes the store's share: its memtables now, the rest as it comes. It makes db.cache and db.files.
func (r *Resources) join(db *DB) error {
	want := 2 * db.opts.MemtableSize
	r.mu.Lock()
	if others := r.reserved.Load(); others+want > r.memory/2 {
		r.mu.Unlock()
		return fmt.Errorf("option MemtableSize: two of %d bytes beside the %d of other stores, want at most %d for all, half of what Resources have: %w",
			db.opts.MemtableSize, others, r.memory/2, ErrNoRoom)
	}
	r.reserved.Add(want)
	r.stores = append(r.stores, db)
	r.mu.Unlock()
	db.res, db.share.reserved, db.share.room = r, want, make(chan struct{}, 1)
	db.tree.Blocks = r.blocks.NewCache(db.tree.Domain)
	db.tree.Files = r.files.NewDir(db.opts.FS, db.dir, db.tree.Domain)
	r.rebalance()
	return nil
}

// leave gives all back. s is the store's last state, nil if it never had one; a scan that outlives it finds its tables
// closed, and what it still holds is left to the garbage collector.
func (r *Resources) leave(db *DB, s *tree.State) error {
	err := db.tree.Files.Close()
	if s != nil {
		s.EachTable(func(_ int, t *tree.Table) { t.Reader.Shed(0, true) })
	}
	db.tree.Blocks.Close()
	r.mu.Lock()
	db.share.left = true
	h := &db.share.held
	r.held.add(tree.TableBytes{
		Filter: -h.filters.Swap(0), Prefix: -h.prefixes.Swap(0), Index: -h.indexes.Swap(0), RangeDeletes: -h.rangeDeletes.Swap(0),
	})
	r.reserved.Add(-db.share.reserved)
	r.stores = slices.DeleteFunc(r.stores, func(o *DB) bool { return o == db })
	r.mu.Unlock()
	r.rebalance()
	r.offer()
	return err
}

// ResourcesMetrics is what all stores that share Resources hold together; where a store has its own, what that holds.
type ResourcesMetrics struct {
	Stores            int           `json:"stores"`             // open
	Memory            MemoryMetrics `json:"memory"`             // of all
	MemtablesReserved int64         `json:"memtables_reserved"` // bytes, two memtables for each store
	CacheSpare        int64         `json:"cache_spare"`        // bytes that wait to hold blocks again
	OverBudget        int64         `json:"over_budget"`        // bytes by which all this exceeds the budget, as with a batch larger than a memtable
	OpenFiles         int           `json:"open_files"`         // descriptors held for tables
	MaxOpenFiles      int           `json:"max_open_files"`
}

// Metrics is a snapshot of what the stores hold.
func (r *Resources) Metrics() ResourcesMetrics {
	m := ResourcesMetrics{MaxOpenFiles: r.files.Limit, MemtablesReserved: r.reserved.Load()}
	m.Memory.Budget = r.memory
	r.held.tell(&m.Memory)
	pool := r.blocks.Stats()
	m.Memory.Cache, m.CacheSpare = pool.Used, pool.Spare
	for _, db := range r.openStores() {
		m.Stores++
		if s, release := db.tree.Acquire(); s != nil {
			m.Memory.Memtables += memtableBytes(s)
			release()
		}
	}
	m.OpenFiles, _ = r.files.Usage()
	m.OverBudget = max(m.Memory.Sum()+m.CacheSpare-r.memory, 0)
	return m
}

func (r *Resources) openStores() []*DB {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.stores)
}

// count brings the accounts up to date with what the table has in memory. t.loading is held.
func (r *Resources) count(db *DB, t *tree.Table) (changed bool) {
	now := tree.TableBytes{
		Filter: t.Reader.FilterBytes(), Prefix: t.Reader.PrefixBytes(), Index: t.Reader.IndexBytes(), RangeDeletes: t.Reader.RangeDelBytes(),
	}
	if now == t.Counted {
		return false
	}
	was := t.Counted
	more := tree.TableBytes{
		Filter: now.Filter - was.Filter, Prefix: now.Prefix - was.Prefix, Index: now.Index - was.Index,
		RangeDeletes: now.RangeDeletes - was.RangeDeletes,
	}
	t.Counted = now
	r.mu.Lock()
	defer r.mu.Unlock()
	if db.share.left {
		return false
	}
	r.held.add(more)
	db.share.held.add(more)
	return true
}

// resident is what the tables of all stores take. Range deletes are among it, and stay: no read is right without them.
func (r *Resources) resident() int64 { return r.held.sum() }

// free is what the memtables leave for filters, indexes and cache.
func (r *Resources) free() int64 { return r.memory - r.reserved.Load() }

// allowance is how much of it filters and indexes may take.
func (r *Resources) allowance() int64 {
	free := r.free()
	return free - free/4
}

// rebalance sheds what does not fit and gives the cache the rest, or leaves that to another goroutine that is at it. No
// t.loading is held.
func (r *Resources) rebalance() {
	r.unbalanced.Store(true)
	for r.unbalanced.Load() && r.balancing.TryLock() {
		r.unbalanced.Store(false)
		if r.resident() > r.allowance() {
			r.shed()
		}
		free := r.free()
		r.blocks.SetCapacity(max(free/4, free-r.resident()))
		r.balancing.Unlock()
	}
}

// shed drops filters of prefixes, then units of the others, then indexes, from the last levels upwards and of the stores in turn,
// until the rest fits. balancing is held. Tables that are being loaded are left out: whoever loads them sees to the balance afterwards.
func (r *Resources) shed() {
	type pinned struct {
		db    *DB
		state *tree.State
	}
	var stores []pinned
	for _, db := range r.openStores() {
		if s, release := db.tree.Acquire(); s != nil {
			defer release()
			stores = append(stores, pinned{db, s})
		}
	}
	for keep := bloomblock.MaxUnits; keep >= -1; keep-- { // units of each filter; first only those of prefixes are dropped, at last indexes
		for level := manifest.NumLevels - 1; level >= 0; level-- {
			var tables [][]*tree.Table // of the level, of each store
			for _, p := range stores {
				tables = append(tables, levelTables(p.state, level))
			}
			for more, i := true, 0; more; i++ {
				more = false
				for k, p := range stores {
					if r.resident() <= r.allowance() {
						return
					}
					if i < len(tables[k]) {
						more = true
						r.shedTable(p.db, tables[k][i], max(keep, 0), keep < 0)
					}
				}
			}
		}
	}
}

// shedTable drops what a table has in memory beyond keep units of its filter, and the index too where index is true.
func (r *Resources) shedTable(db *DB, t *tree.Table, keep int, index bool) {
	if !index && keep > 0 && t.Reader.FilterUnits() <= keep && t.Reader.PrefixBytes() == 0 || !t.Loading.TryLock() {
		return
	}
	defer t.Loading.Unlock()
	if keep == 0 || t.Reader.FilterUnits() > keep {
		t.Kept.Store(int32(keep)) //nolint:gosec // at most MaxUnits
	}
	t.Reader.Shed(keep, index)
	r.count(db, t)
}

// levelTables is the tables of a level, oldest run first.
func levelTables(s *tree.State, level int) (tables []*tree.Table) {
	for _, r := range slices.Backward(s.Runs) {
		if r.Level == level {
			tables = append(tables, r.Tables...)
		}
	}
	return tables
}

// offer tells the stores that there may be room for filters that were shed.
func (r *Resources) offer() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, db := range r.stores {
		db.share.offer()
	}
}
