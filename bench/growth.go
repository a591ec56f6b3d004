package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bench/machine"
	"github.com/bloomkv/bloomkv/internal/cli"
	"github.com/bloomkv/bloomkv/internal/workload"
	"github.com/bloomkv/bloomkv/internal/workload/own"
)

const (
	// mostRatio is the limit for the time of an absent lookup, divided by its floor, in a compacted store of at least
	// ratioKeys. With fewer keys most memory that the floor touches is cached, and the ratio measures the other work of
	// a lookup.
	mostRatio = 1.5
	ratioKeys = 20_000_000

	phaseOps = 1_000_000 // maximum number of lookups in a phase outside the rounds
)

// A growthReport is the result of growth. The names of its fields in JSON are part of the output.
type growthReport struct {
	Machine machine.Machine `json:"machine"`
	Command string          `json:"command"`

	ValueBytes   int     `json:"value_bytes"`
	Shape        string  `json:"shape"`
	Seed         uint64  `json:"seed"`
	FilterFPR    float64 `json:"fpr_promised"`
	MemoryBudget int64   `json:"memory_budget"`
	MostRatio    float64 `json:"most_ratio"` // limit for the time of an absent lookup, divided by its floor
	Rounds       int     `json:"rounds"`

	Stores []*grown `json:"stores"`
}

// grown is the result for one store.
type grown struct {
	Keys      int   `json:"keys"`
	TableSize int64 `json:"table_size"` // 0 means the default

	Load      workload.Figures `json:"load"`
	Loaded    absence          `json:"absent_as_loaded"`
	Compact   workload.Figures `json:"compact"` // of the whole tree into the last level
	Compacted absence          `json:"absent_compacted"`
	Present   workload.Figures `json:"present"` // in the compacted tree
	// The compacted tree compared with its floor, one operation after the other; nil for more than mostImage bytes.
	Floors *pairFloors `json:"floors,omitempty"`

	Memory     memoryPerKey `json:"memory_bytes_per_key"`
	Resident   uint64       `json:"resident"`    // bytes of the process with the store open, 0 if not known
	TableBytes uint64       `json:"table_bytes"` // on disk
	Reopen     reopening    `json:"reopen"`

	// Met is whether Compacted.Chained.Ratio is at most MostRatio. It is nil for stores of fewer than ratioKeys keys.
	Met *bool `json:"met,omitempty"`
}

// absence is the result of lookups of absent keys in one state of the tree.
type absence struct {
	Runs   int `json:"runs"`
	Tables int `json:"tables"`

	Lookup  workload.Figures `json:"lookup"`  // as an ordinary phase
	Chained comparison       `json:"chained"` // compared with the floor, one lookup after the other
	Free    comparison       `json:"free"`    // compared with the floor, lookups may overlap

	FilterBytes int64 `json:"filter_bytes"` // in memory
	FloorBytes  int64 `json:"floor_filter_bytes"`
	FloorFences int   `json:"floor_fences"`
}

// memoryPerKey is the memory of a store by part, in bytes per key, after many of its keys were looked up.
type memoryPerKey struct {
	Filters   float64 `json:"filters"`
	Indexes   float64 `json:"indexes"`
	Cache     float64 `json:"cache"`
	Memtables float64 `json:"memtables"`
	Other     float64 `json:"other"` // the rest of the live heap: names and bounds of tables, and memory kept for reuse
}

// reopening is the time of an Open after a clean Close.
type reopening struct {
	Open time.Duration `json:"open_ns"` // Open alone
	Warm time.Duration `json:"warm_ns"` // from the start of Open until indexes and filters are in memory
}

// pairFloors compares operations that find pairs with a pairFloor.
type pairFloors struct {
	Present comparison `json:"present"`
	Seek    comparison `json:"seek"` // with seekPairs pairs, by one iterator
	Scan    comparison `json:"scan"` // of a pair
}

// States of a tree.
const (
	asLoaded  = "as loaded"
	compacted = "compacted"
)

// absences returns the results by the name of the state.
func (g *grown) absences() map[string]*absence {
	return map[string]*absence{asLoaded: &g.Loaded, compacted: &g.Compacted}
}

// wrong returns the number of wrong answers and a description of the first.
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
			count(a.Chained.Wrong+a.Free.Wrong, "an absent key was found, in the tree "+state)
		}
		if f := g.Floors; f != nil {
			count(f.Present.Wrong+f.Seek.Wrong+f.Scan.Wrong, "a key was not found next to the floors")
		}
	}
	return n, first
}

func growthCommand(s *cli.Streams, command string) *cobra.Command {
	g := growth{terms: newTerms(s), keys: counts{1_000_000, 5_000_000, 20_000_000}}
	c := &cobra.Command{
		Use:   "growth",
		Short: "Show how costs grow with the number of keys and of tables",
		Long: `growth fills stores of the given numbers of keys, or of small tables, and measures in each: the load,
lookups of absent keys right after the load and after a compaction, lookups of present keys, memory by
part, and Open. Every answer is checked.

Lookups of absent keys are compared with their floor, the least work that they need: hash the key once,
search one flat array with a fence for each table of the last run, and probe one filter per run, as
large as the store's but of a single unit. The store and the floor take turns with the same keys, and
the cost of asking is subtracted from both. Everything is read once before, to fill the cache. In a
chained series the next key depends on the last answer, so that lookups cannot overlap; in a free series
they can.

Lookups of present keys, seeks with ten pairs, and scans are compared with floors too: a loop over a copy
of the pairs in sorted order, which are found by flat arrays of the heads of keys. This is done in
compacted stores of at most 1 GiB of keys and values.`,
		Args: cli.Arguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("tables") && !c.Flags().Changed("keys") {
				g.keys = nil
			}
			if err := g.check(); err != nil {
				return cli.Hint(c, err)
			}
			return g.run(c.Context(), command)
		},
	}
	f := c.Flags()
	f.Var(&g.keys, "keys", "numbers of pairs, a store for each")
	f.Var(&g.tables, "tables",
		"approximate numbers of 16 KiB tables, a store for each, instead of --keys or in addition to a given --keys")
	g.data.flags(c, "", "memory budget of a store, in `MIB`; 4096 holds 20 million pairs")
	g.flags(c, 9)
	return c
}

// growth holds the flags of the command.
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
	return show(g.Streams, g.json, &r)
}

// measure creates one store, measures it and removes it.
func (g *growth) measure(ctx context.Context, row *grown) (err error) {
	set, err := workload.NewGenerated(g.shape, row.Keys, g.seed, workload.Values{Bytes: g.value})
	if err != nil {
		return err
	}
	dir, remove, err := g.newDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	debug.FreeOSMemory() // memory left over from the previous store must not be counted here
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
	if row.Floors, err = g.floors(ctx, store, set); err != nil {
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

// build loads a store, looks up absent keys, and compacts the store.
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

// absent measures lookups of absent keys in the current tree. Everything is read once before, because a false positive
// costs a search of a block, whose time depends on whether the block is cached.
func (g *growth) absent(ctx context.Context, store *own.Store, set *workload.Generated) (absence, error) {
	var a absence
	_, err := g.phase(ctx, store, set, workload.Phase{Name: "warm", Kind: workload.Scan})
	if err != nil {
		return a, err
	}
	a.Lookup, err = g.phase(ctx, store, set,
		workload.Phase{Kind: workload.Absent, Ops: min(phaseOps, set.Absents()), Seed: g.seed + 1})
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
	bar := g.bar(set, "absent keys and the floor")
	defer bar.End()
	for i, c := range []chain{{}, {free: true}} {
		figures, err := compareAbsent(ctx, store.DB, f, set, c, g.rounds, g.seed+2+uint64(i),
			func(rounds int) { bar.Set(i*g.rounds+rounds, 2*g.rounds) })
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

// floors compares present keys, seeks and scans of a compacted store with their floors.
func (g *growth) floors(ctx context.Context, store *own.Store, set *workload.Generated) (_ *pairFloors, err error) {
	if int64(set.Len())*int64(g.shape.KeyBytes()+g.value) > mostImage {
		return nil, nil //nolint:nilnil // nil is the documented value of the field
	}
	tree := layers(store.Metrics())
	f, err := newPairFloor(tree[len(tree)-1], set)
	if err != nil {
		return nil, err
	}
	bar := g.bar(set, "present keys, seeks, scans and their floors")
	defer bar.End()
	done := func(round int) { bar.Set(round, g.rounds) }
	var all pairFloors
	gets, want := storeReader{db: store.DB}, chain{want: true}
	all.Present, err = compare(ctx, gets.ask, f.get, set, want, turnKeys, g.rounds, g.seed+6, done)
	if err = errors.Join(err, gets.err); err != nil {
		return nil, err
	}
	r := pairReader{it: store.Iter(bloomkv.IterOptions{})}
	defer func() { err = errors.Join(err, r.it.Close()) }()
	all.Seek, err = compare(ctx, r.seek, f.seek, set, want, turnKeys/seekPairs, g.rounds, g.seed+7, done)
	if err = errors.Join(err, r.it.Err()); err != nil {
		return nil, err
	}
	all.Scan, err = compareScans(ctx, &r, f, g.rounds, done)
	return &all, err
}

// liveHeap returns the size of the live objects on the heap.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // below the size of memory
}

// perKey returns the memory of a store per key. live is the size of its objects on the heap.
func perKey(m bloomkv.MemoryMetrics, live int64, keys int) memoryPerKey {
	per := func(bytes int64) float64 { return float64(bytes) / float64(keys) }
	return memoryPerKey{
		Filters: per(m.Filters), Indexes: per(m.Indexes), Cache: per(m.Cache), Memtables: per(m.Memtables),
		Other: per(max(0, live-m.Sum())),
	}
}

// reopen closes and opens a store, and waits until its indexes and filters are loaded.
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
