package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bench/machine"
	"github.com/bloomkv/bloomkv/internal/workload"
	"github.com/bloomkv/bloomkv/internal/workload/own"
)

const (
	// mostRatio is what a lookup of an absent key may cost, in floors, in a compacted store of at least ratioKeys. With fewer
	// keys the floor is mostly cache hits, and the ratio says what a lookup does beside it, not how that grows.
	mostRatio = 1.5
	ratioKeys = 20_000_000

	promisedFPR = 0.01      // of these stores: the default
	phaseOps    = 1_000_000 // lookups that the phases beside the rounds make at most
	fewestKeys  = 1000      // in a store: with fewer, rounds are too short for the clock
)

// terms are what growth and scale run on.
type terms struct {
	data
	shown
	streams

	rounds int
	dir    string // "" is the system's directory for temporary files
}

// newTerms is the terms with the defaults that both commands have.
func newTerms(s streams) terms {
	return terms{streams: s, data: data{value: 100, shape: workload.Random, memory: 1024, seed: 1}}
}

// flags are those that both commands have beside those of the data.
func (t *terms) flags(c *cobra.Command, rounds int) {
	f := c.Flags()
	f.IntVar(&t.rounds, "rounds", rounds, "rounds in which two sides take turns")
	f.StringVar(&t.dir, "dir", "", "make the stores in a new directory in `DIR`, and remove it (default: that for temporary files)")
	t.shown.flags(c)
}

func (t *terms) check() error {
	if t.rounds < 1 {
		return fmt.Errorf("--rounds %d: want at least 1", t.rounds)
	}
	return errors.Join(t.data.check(), t.checkFiles())
}

// bar is a bar with the name of a store before what is done to it.
func (t *terms) bar(set workload.Set, what string) progress {
	return t.progress(countName(set.Len()) + " keys: " + what)
}

// phase runs one phase with a bar.
func (t *terms) phase(ctx context.Context, store *own.Store, set workload.Set, p workload.Phase) (workload.Figures, error) {
	bar := t.bar(set, cmp.Or(p.Name, p.Kind.String()))
	defer bar.end()
	return workload.Run(ctx, store, set, p, bar.set)
}

// place is a new directory, and what removes it.
func (t *terms) place() (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp(t.dir, "bloomkv-bench-")
	return dir, func() error { return os.RemoveAll(dir) }, err
}

// A growthReport is one run of growth. The names are what --json prints.
type growthReport struct {
	Machine machine.Machine `json:"machine"`
	Command string          `json:"command"`

	ValueBytes   int     `json:"value_bytes"`
	Shape        string  `json:"shape"`
	Seed         uint64  `json:"seed"`
	FilterFPR    float64 `json:"fpr_promised"`
	MemoryBudget int64   `json:"memory_budget"`
	MostRatio    float64 `json:"most_ratio"` // that an absent lookup may take of its floor
	Rounds       int     `json:"rounds"`

	Stores []*grown `json:"stores"`
}

// grown is the figures of one store.
type grown struct {
	Keys      int   `json:"keys"`
	TableSize int64 `json:"table_size"` // 0: the default

	Load      workload.Figures `json:"load"`
	Loaded    absence          `json:"absent_as_loaded"`
	Compact   workload.Figures `json:"compact"` // the whole tree into the last level
	Compacted absence          `json:"absent_compacted"`
	Present   workload.Figures `json:"present"` // in the compacted tree

	Memory     memoryPerKey `json:"memory_bytes_per_key"`
	Resident   uint64       `json:"resident"`    // bytes of the process with the store, 0 where the system does not say
	TableBytes uint64       `json:"table_bytes"` // on disk
	Reopen     reopening    `json:"reopen"`

	// Met says whether Compacted.Chained.Ratio is what it must be, nil where that is not asked.
	Met *bool `json:"met,omitempty"`
}

// absence is what lookups of absent keys cost in one state of the tree.
type absence struct {
	Runs   int `json:"runs"`
	Tables int `json:"tables"`

	Lookup  workload.Figures `json:"lookup"`  // a phase, as all benchmarks have it
	Chained against          `json:"chained"` // beside the floor, one after the other
	Free    against          `json:"free"`    // beside the floor, as the processor likes

	FilterBytes int64 `json:"filter_bytes"` // in memory
	FloorBytes  int64 `json:"floor_filter_bytes"`
	FloorFences int   `json:"floor_fences"`
}

// memoryPerKey is what a store holds in memory, by part, after many of its keys were looked up.
type memoryPerKey struct {
	Filters   float64 `json:"filters"`
	Indexes   float64 `json:"indexes"`
	Cache     float64 `json:"cache"`
	Memtables float64 `json:"memtables"`
	Other     float64 `json:"other"` // on the heap and in use, but in no part: tables' names and bounds, and memory kept for later
}

// reopening is an Open after a clean Close.
type reopening struct {
	Open time.Duration `json:"open_ns"` // Open alone
	Warm time.Duration `json:"warm_ns"` // from its beginning until indexes and filters are in memory
}

// States of a tree.
const (
	asLoaded  = "as loaded"
	compacted = "compacted"
)

// absences are those of both states, with their names.
func (g *grown) absences() map[string]*absence {
	return map[string]*absence{asLoaded: &g.Loaded, compacted: &g.Compacted}
}

// wrong is how many answers were wrong, and the first of them.
func (r *growthReport) wrong() (n int, first string) {
	count := func(wrong int, what string) {
		if n == 0 {
			first = what
		}
		n += wrong
	}
	for _, g := range r.Stores {
		for _, f := range []workload.Figures{g.Load, g.Loaded.Lookup, g.Compacted.Lookup, g.Present} {
			count(f.Wrong, f.FirstWrong)
		}
		for state, a := range g.absences() {
			count(a.Chained.Wrong+a.Free.Wrong, "an absent key has a value, in the tree "+state)
		}
	}
	return n, first
}

func growthCommand(s streams, command string) *cobra.Command {
	g := growth{terms: newTerms(s), keys: counts{1_000_000, 5_000_000, 20_000_000}}
	c := &cobra.Command{
		Use:   "growth",
		Short: "Show how costs grow with the number of keys and of tables",
		Long: `growth fills a store with each number of keys, or of small tables, and measures the load, lookups of absent keys in the tree as
the load left it and in the compacted one, lookups of keys that are there, memory by part, and an Open. Every answer is checked.

Beside a lookup of an absent key stands its floor: a loop that hashes the key once, searches one flat array of as many fences
as the last run has tables, and probes for each run one filter, as large as the store's and of a single unit. Store and floor
take turns with the same keys, and what asking costs is taken off both. Before that all is read once, so that the cache
has what --memory has room for: 4096 for 20 million keys. Chained, the next key follows from the last answer, so
that one lookup ends before the next begins; free, the processor may have several under way.`,
		Args: usage(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("tables") && !c.Flags().Changed("keys") {
				g.keys = nil
			}
			if err := g.check(); err != nil {
				return hint(c, err)
			}
			return g.run(c.Context(), command)
		},
	}
	f := c.Flags()
	f.Var(&g.keys, "keys", "pairs in each store")
	f.Var(&g.tables, "tables", "tables of 16 KiB in each store, about, instead of --keys, or beside it where both are given")
	g.data.flags(c, "", "memory budget of a store, in `MIB`")
	g.flags(c, 9)
	return c
}

// growth is the command.
type growth struct {
	terms

	keys, tables counts
}

func (g *growth) check() error {
	for _, n := range g.keys {
		if n < fewestKeys {
			return fmt.Errorf("--keys %d: want at least %d", n, fewestKeys)
		}
	}
	return g.terms.check()
}

func (g *growth) run(ctx context.Context, command string) error {
	r := growthReport{
		Machine: machine.Here(), Command: command, ValueBytes: g.value, Shape: g.shape.String(), Seed: g.seed,
		FilterFPR: promisedFPR, MemoryBudget: g.memory << 20, MostRatio: mostRatio, Rounds: g.rounds,
	}
	for _, n := range g.keys {
		r.Stores = append(r.Stores, &grown{Keys: n})
	}
	for _, n := range g.tables {
		r.Stores = append(r.Stores, &grown{Keys: keysOfTables(n, g.shape.KeyBytes()+g.value), TableSize: smallTable})
	}
	for _, store := range r.Stores {
		if err := g.measure(ctx, store); err != nil {
			return err
		}
	}
	return g.give(ctx, g.streams, &r)
}

// measure makes one store, asks it all there is to ask, and removes it.
func (g *growth) measure(ctx context.Context, row *grown) (err error) {
	set, err := workload.NewGenerated(g.shape, row.Keys, g.seed, workload.Values{Bytes: g.value})
	if err != nil {
		return err
	}
	dir, remove, err := g.place()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	debug.FreeOSMemory() // what the store before has left is not this one's
	before := liveHeap()
	options := g.options(promisedFPR)
	options.TableSize = row.TableSize
	store, err := own.Open(filepath.Join(dir, "store"), options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := g.build(ctx, store, set, row); err != nil {
		return err
	}
	row.Compacted, err = g.absent(ctx, store, set)
	if err != nil {
		return err
	}
	if row.Keys >= ratioKeys && row.TableSize == 0 {
		met := row.Compacted.Chained.Ratio <= mostRatio
		row.Met = &met
	}
	p := workload.Phase{Kind: workload.Present, Ops: min(phaseOps, set.Len()), Seed: g.seed + 5}
	if row.Present, err = g.phase(ctx, store, set, p); err != nil {
		return err
	}
	m := store.Metrics()
	for _, l := range m.Levels {
		row.TableBytes += l.Bytes
	}
	row.Memory = perKey(m.Memory, liveHeap()-before, set.Len())
	debug.FreeOSMemory()
	if c, ok := machine.Read(); ok {
		row.Resident = c.Resident
	}
	row.Reopen, err = reopen(ctx, store)
	return err
}

// build loads and compacts a store, and looks up absent keys before it is compacted.
func (g *growth) build(ctx context.Context, store *own.Store, set *workload.Generated, row *grown) (err error) {
	if row.Load, err = g.phase(ctx, store, set, workload.Phase{Kind: workload.Load, Seed: g.seed}); err != nil {
		return err
	}
	if err = errors.Join(store.Flush(ctx), store.Settle(ctx)); err != nil {
		return err
	}
	if row.Loaded, err = g.absent(ctx, store, set); err != nil {
		return err
	}
	if row.Compact, err = g.phase(ctx, store, set, workload.Phase{Kind: workload.Compact}); err != nil {
		return err
	}
	return store.Settle(ctx)
}

// absent measures lookups of absent keys in the tree as it is now, after everything was read once: a filter that says maybe for
// nothing costs a search of a block, and what that costs is told by the cache.
func (g *growth) absent(ctx context.Context, store *own.Store, set *workload.Generated) (absence, error) {
	var a absence
	_, err := g.phase(ctx, store, set, workload.Phase{Name: "warm", Kind: workload.Scan})
	if err != nil {
		return a, err
	}
	a.Lookup, err = g.phase(ctx, store, set, workload.Phase{Kind: workload.Absent, Ops: min(phaseOps, set.Absents()), Seed: g.seed + 1})
	if err != nil {
		return a, err
	}
	tree := layers(store.Metrics())
	f, err := newFloor(tree, set, g.seed)
	if err != nil {
		return a, err
	}
	for _, l := range tree {
		a.Runs += l.runs
		a.Tables += l.tables
		a.FilterBytes += l.filterBytes
	}
	a.FloorFences, a.FloorBytes = len(f.fences), f.filterBytes
	bar := g.bar(set, "absent beside the floor")
	defer bar.end()
	for i, c := range []chain{{}, {free: true}} {
		figures, err := compareAbsent(ctx, store.DB, f, set, c, g.rounds, g.seed+2+uint64(i),
			func(rounds int) { bar.set(i*g.rounds+rounds, 2*g.rounds) })
		if err != nil {
			return a, err
		}
		if c.free {
			a.Free = figures
		} else {
			a.Chained = figures
		}
	}
	return a, nil
}

// liveHeap is what the heap holds that is in use.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // below the size of memory
}

// perKey is the memory of a store that has so many keys and takes so much of the heap.
func perKey(m bloomkv.MemoryMetrics, live int64, keys int) memoryPerKey {
	per := func(bytes int64) float64 { return float64(bytes) / float64(keys) }
	return memoryPerKey{
		Filters: per(m.Filters), Indexes: per(m.Indexes), Cache: per(m.Cache), Memtables: per(m.Memtables),
		Other: per(max(0, live-m.Sum())),
	}
}

// reopen closes and opens a store, and waits until it is warm.
func reopen(ctx context.Context, store *own.Store) (r reopening, err error) {
	if r.Open, err = store.Reopen(); err != nil {
		return r, err
	}
	begin := time.Now().Add(-r.Open)
	for !store.Metrics().Warm {
		select {
		case <-ctx.Done():
			return r, context.Cause(ctx)
		case <-time.After(100 * time.Microsecond):
		}
	}
	r.Warm = time.Since(begin)
	return r, nil
}

// byKeys is the stores of one table size, the smallest first.
func (r *growthReport) byKeys(tableSize int64) []*grown {
	some := slices.DeleteFunc(slices.Clone(r.Stores), func(g *grown) bool { return g.TableSize != tableSize })
	slices.SortStableFunc(some, func(a, b *grown) int { return cmp.Compare(a.Keys, b.Keys) })
	return some
}
