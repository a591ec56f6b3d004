package bloomkv

import (
	"cmp"
	"fmt"

	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/filterplan"
)

const (
	defaultMapped    = 16 << 30
	defaultOpenFiles = 500
	minOpenFiles     = 8
	maxMemory        = 1 << 50
	maxOpenFiles     = 1 << 30

	// A memtable gets a 64th of shared memory by default: each store has two, and all together at most half of the
	// memory, so that sixteen stores fit.
	sharedMemtables = 64
)

// Resources are memory and file descriptors that several stores of one process share: see [NewResources]. They hold
// only what open stores need, and need no Close. All methods are safe for concurrent use.
//
// Memory for memtables is reserved, two for each open store, and never exceeds half of the total. The filters,
// indexes and the block cache of all stores share the rest. The cache gets what filters and indexes do not take, and
// at least a quarter of the rest. If filters and indexes need more, prefix filters are dropped first; then units of
// filters, of all stores in turn: the last of three units of each table, from the last level upwards, because each of
// its bytes saves the fewest reads there, then the second, then whole filters; and finally indexes, which are read
// again when needed.
//
// No store waits for another: not for its locks, nor for its reads, nor for its readers.
type Resources struct{ pool *budget.Pool }

// ResourcesOptions are the limits of Resources. The zero value is right for many programs.
type ResourcesOptions struct {
	MemoryBudget int64 // bytes for all stores together: 0 means 64 MiB, the minimum is 8 MiB
	MaxOpenFiles int   // file descriptors held for tables: 0 means 500, the minimum is 8
	// MaxMappedBytes bounds the bytes of table files that are mapped: 0 means 16 GiB, a negative number none. See
	// Options.MaxMappedBytes.
	MaxMappedBytes int64
}

// NewResources returns memory and file descriptors for several stores to share (Options.Resources). Stores may be
// opened and closed in any order. A store returns everything when it is closed.
func NewResources(o ResourcesOptions) (*Resources, error) {
	memory, files := cmp.Or(o.MemoryBudget, filterplan.DefaultBudget), cmp.Or(o.MaxOpenFiles, defaultOpenFiles)
	mapped := cmp.Or(o.MaxMappedBytes, defaultMapped)
	err := checkLimits([]limit{
		{"MemoryBudget", memory, filterplan.MinBudget, maxMemory},
		{"MaxMappedBytes", max(mapped, -1), -1, maxMemory},
		{"MaxOpenFiles", int64(files), minOpenFiles, maxOpenFiles},
	})
	if err != nil {
		return nil, fmt.Errorf("bloomkv: resources: %w", err)
	}
	return &Resources{newPool(memory, mapped, files)}, nil
}

func newPool(memory, mapped int64, files int) *budget.Pool {
	p := budget.NewPool(memory, files)
	p.Files.MaxMapped = max(mapped, 0)
	return p
}

// ResourcesMetrics describe the memory and files that all stores with the same Resources hold together, or that a
// store without shared Resources holds.
type ResourcesMetrics struct {
	Stores            int           `json:"stores"`             // open
	Memory            MemoryMetrics `json:"memory"`             // of all stores
	MemtablesReserved int64         `json:"memtables_reserved"` // bytes, two memtables for each store
	CacheSpare        int64         `json:"cache_spare"`        // bytes of buffers kept for reuse
	// OverBudget is the number of bytes above the budget, as after a batch larger than a memtable.
	OverBudget   int64 `json:"over_budget"`
	OpenFiles    int   `json:"open_files"` // descriptors held for tables
	MaxOpenFiles int   `json:"max_open_files"`
}

// Metrics returns the current figures of the stores.
func (r *Resources) Metrics() ResourcesMetrics { return resourcesMetrics(r.pool) }

func resourcesMetrics(p *budget.Pool) ResourcesMetrics {
	u := p.Usage()
	m := ResourcesMetrics{
		Stores: u.Stores, Memory: memoryMetrics(p, u.Memtables, u.Tables, p.Parts.Bytes(), u.Cached, p.Files.Mapped()),
		CacheSpare:        u.Spare,
		MemtablesReserved: p.Reserved.Load(), OpenFiles: u.OpenFiles, MaxOpenFiles: p.Files.Limit,
	}
	m.OverBudget = max(m.Memory.Sum()+m.CacheSpare-p.Memory, 0)
	return m
}
