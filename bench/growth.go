package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bench/machine"
	"github.com/bloomkv/bloomkv/internal/workload"
	"github.com/bloomkv/bloomkv/internal/workload/own"
)

// mostRatio is what a lookup of an absent key may cost, in floors. It is a promise for 20 million keys; it is shown for all.
const mostRatio = 1.5

// promisedFPR is what the stores promise: the default.
const promisedFPR = 0.01

// phaseOps is how many lookups the phases beside the rounds make at most.
const phaseOps = 1_000_000

// fewestKeys is the least that a store here may hold: below, all is in the first cache, and rounds are too short.
const fewestKeys = 1000

// terms are what growth and scale are run on, as their flags say.
type terms struct {
	value  int
	shape  workload.Shape
	memory int64 // MiB
	seed   uint64
	rounds int
	dir    string
	json   bool
	plot   string
}

func (t *terms) flags(c *cobra.Command, rounds int) {
	f := c.Flags()
	f.IntVar(&t.value, "value", 100, "length of a value, in `BYTES`")
	f.TextVar(&t.shape, "shape", workload.Random, "what keys look like, a `NAME`: random (16 bytes), prefixed (36, the first 20 the same), decimal or bigendian")
	f.Int64Var(&t.memory, "memory", 1024, "memory budget of a store, in `MIB`")
	f.Uint64Var(&t.seed, "seed", 1, "of keys, values and choices")
	f.IntVar(&t.rounds, "rounds", rounds, "rounds in which two sides take turns")
	f.StringVar(&t.dir, "dir", "", "make the stores in new directories below `DIR`, and remove them (default: the directory for temporary files)")
	f.BoolVar(&t.json, "json", false, "print a JSON object")
	f.StringVar(&t.plot, "plot", "", "write the pictures as SVG and PNG into `DIR`")
}

func (t *terms) check() error {
	if t.value < 0 || t.value > bloomkv.MaxValueSize {
		return fmt.Errorf("--value %d: want 0 to %d bytes", t.value, bloomkv.MaxValueSize)
	}
	if t.memory < 8 || t.memory > 1<<40 {
		return fmt.Errorf("--memory %d: want at least 8 MiB", t.memory)
	}
	if t.rounds < 1 {
		return fmt.Errorf("--rounds %d: want at least 1", t.rounds)
	}
	return nil
}

// options are those of the main run. A table size of 0 is the store's default.
func (t *terms) options(tableSize int64) *bloomkv.Options {
	budget := t.memory << 20
	return &bloomkv.Options{
		Durability: bloomkv.NoSync, Compression: bloomkv.NoCompression,
		FilterFPR: promisedFPR, MemoryBudget: budget, MemtableSize: min(64<<20, budget/4), TableSize: tableSize,
	}
}

func (t *terms) set(keys int) (*workload.Generated, error) {
	return workload.NewGenerated(t.shape, keys, t.seed, workload.Values{Bytes: t.value})
}

// inDirectory calls f with a new directory, and removes it.
func (t *terms) inDirectory(f func(dir string) error) (err error) {
	dir, err := os.MkdirTemp(t.dir, "bloomkv-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return f(dir)
}

// invocation is the command that was run, as it can be typed again.
func invocation(c *cobra.Command) string {
	words := []string{"go run ./bench", c.Name()}
	c.Flags().Visit(func(f *pflag.Flag) { words = append(words, "--"+f.Name+"="+f.Value.String()) })
	return strings.Join(words, " ")
}

// A growthReport is one run of growth. The names are what --json prints.
type growthReport struct {
	Machine machine.Machine `json:"machine"`
	Command string          `json:"command"`

	ValueBytes   int     `json:"value_bytes"`
	Shape        string  `json:"shape"`
	FilterFPR    float64 `json:"filter_fpr"`
	MemoryBudget int64   `json:"memory_budget"`
	MostRatio    float64 `json:"most_ratio"` // that an absent lookup may take of its floor in the compacted tree

	Stores []grown `json:"stores"`
}

// grown is the figures of one store.
type grown struct {
	Keys      int   `json:"keys"`
	TableSize int64 `json:"table_size"` // 0: the default

	Load    workload.Figures `json:"load"`
	Loaded  absence          `json:"loaded"`    // the tree as the load left it
	Compact workload.Figures `json:"compact"`   // the whole tree into the last level
	Last    absence          `json:"compacted"` // the tree that it left
	Present workload.Figures `json:"present"`   // in the compacted tree

	Memory    memoryPerKey `json:"memory_bytes_per_key"`
	DiskBytes uint64       `json:"disk_bytes"` // of tables
	Reopen    reopening    `json:"reopen"`
}

// absence is what lookups of absent keys cost in one tree.
type absence struct {
	Tree   string `json:"tree"`
	Runs   int    `json:"runs"`
	Tables int    `json:"tables"`

	Lookup  workload.Figures `json:"lookup"`  // a phase, as everywhere: keys in a row of which the processor sees many
	Chained against          `json:"chained"` // beside the floor, one after the other
	Free    against          `json:"free"`    // beside the floor, as fast as they go

	FloorFences int   `json:"floor_fences"`
	FloorBytes  int   `json:"floor_filter_bytes"`
	FilterBytes int64 `json:"filter_bytes"`
}

// memoryPerKey is what a store holds in memory, by part, after all its keys were looked up, or as many as a phase has.
type memoryPerKey struct {
	Filters   float64 `json:"filters"`
	Indexes   float64 `json:"indexes"`
	Cache     float64 `json:"cache"`
	Memtables float64 `json:"memtables"`
	Other     float64 `json:"other"` // live on the heap beside all that: names, bounds, files, and what is waiting to be used again
}

// reopening is a clean Close and an Open.
type reopening struct {
	Open time.Duration `json:"open_ns"` // Open alone
	Warm time.Duration `json:"warm_ns"` // from the beginning of Open until indexes and filters are in memory
}

// wrong is how many answers of a store were wrong, and where the first of them was.
func (g *grown) wrong() (n int, first string) {
	for _, f := range []workload.Figures{g.Load, g.Loaded.Lookup, g.Last.Lookup, g.Present} {
		if n == 0 {
			first = f.FirstWrong
		}
		n += f.Wrong
	}
	for _, a := range []against{g.Loaded.Chained, g.Loaded.Free, g.Last.Chained, g.Last.Free} {
		if n == 0 && a.Wrong > 0 {
			first = "an absent key has a value"
		}
		n += a.Wrong
	}
	return n, first
}

func growthCommand(s streams) *cobra.Command {
	var t terms
	keys, tables := counts{1_000_000, 5_000_000, 20_000_000}, counts(nil)
	c := &cobra.Command{
		Use:   "growth",
		Short: "Show how costs grow with the number of keys and of tables",
		Long: `growth fills a store with each number of keys, or of small tables, and measures the load, lookups of absent keys in the tree as
the load left it and in the compacted one, lookups of keys that are there, memory by part, and a reopening.

Beside each lookup of an absent key stands its floor: a loop that hashes the key once, searches one flat array of as many fences
as the last run has tables, and probes for each run one filter of a single unit that is as large as the store's. Store and floor
take turns with the same keys, and the cost of asking is taken from both. Chained, the next key follows from the last answer, so
that lookups do not overlap; free, they may. The ratio is the median of the rounds.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("tables") && !c.Flags().Changed("keys") {
				keys = nil
			}
			g := growth{terms: t, streams: s}
			r := growthReport{
				Machine: machine.Here(), Command: invocation(c), ValueBytes: t.value, Shape: t.shape.String(),
				FilterFPR: promisedFPR, MemoryBudget: t.memory << 20, MostRatio: mostRatio,
			}
			return g.run(c.Context(), r, keys, tables)
		},
	}
	t.flags(c, 9)
	c.Flags().Var(&keys, "keys", "pairs in a store, each of a `LIST`")
	c.Flags().Var(&tables, "tables", "tables of 16 KiB in a compacted store, about, each of a `LIST`; without --keys, these stores alone")
	return c
}

// growth is a run of the command.
type growth struct {
	terms
	streams
}

func (g *growth) run(ctx context.Context, r growthReport, keys, tables counts) error {
	if err := g.check(); err != nil {
		return err
	}
	for _, n := range keys {
		if n < fewestKeys {
			return fmt.Errorf("--keys %d: want at least %d", n, fewestKeys)
		}
	}
	for _, n := range keys {
		if err := g.add(ctx, &r, n, 0); err != nil {
			return err
		}
	}
	for _, n := range tables {
		if err := g.add(ctx, &r, max(fewestKeys, g.keysOfTables(n)), smallTable); err != nil {
			return err
		}
	}
	if err := g.give(&r); err != nil {
		return err
	}
	return r.wrongError()
}

// add makes a store of so many keys and adds its figures to the report.
func (g *growth) add(ctx context.Context, r *growthReport, keys int, tableSize int64) error {
	set, err := g.set(keys)
	if err != nil {
		return err
	}
	return g.inDirectory(func(dir string) error {
		row := grown{Keys: keys, TableSize: tableSize}
		err := g.measure(ctx, &row, set, filepath.Join(dir, "store"))
		r.Stores = append(r.Stores, row)
		return err
	})
}

// measure fills one store and asks it all there is to ask.
func (g *growth) measure(ctx context.Context, row *grown, set *workload.Generated, dir string) (err error) {
	before := liveHeap()
	options := g.options(row.TableSize)
	db, err := bloomkv.Open(dir, options)
	if err != nil {
		return err
	}
	defer func() {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	store := &own.Store{DB: db}
	phase := func(p workload.Phase) workload.Figures {
		var f workload.Figures
		if err == nil {
			f, err = g.phase(ctx, store, set, p)
		}
		return f
	}
	absent := func(tree string) absence {
		var a absence
		if err == nil {
			a, err = g.absent(ctx, store, set, tree)
		}
		return a
	}
	row.Load = phase(workload.Phase{Name: "load", Kind: workload.Load, Seed: g.seed})
	phase(workload.Phase{Kind: workload.Flush})
	phase(workload.Phase{Kind: workload.Settle})
	row.Loaded = absent("as loaded")
	row.Compact = phase(workload.Phase{Kind: workload.Compact})
	phase(workload.Phase{Kind: workload.Settle})
	row.Last = absent("compacted")
	phase(workload.Phase{Name: "warm", Kind: workload.Present, Ops: min(phaseOps, set.Len()), Seed: g.seed + 3})
	row.Present = phase(workload.Phase{Name: "present", Kind: workload.Present, Ops: min(phaseOps, set.Len()), Seed: g.seed + 4})
	if err != nil {
		return err
	}
	m := db.Metrics()
	row.Memory = perKey(m.Memory, liveHeap()-before, set.Len())
	for _, l := range m.Levels {
		row.DiskBytes += l.Bytes
	}
	closing := db
	db = nil
	if err = closing.Close(); err != nil {
		return err
	}
	db, row.Reopen, err = reopen(ctx, dir, options)
	return err
}

// phase runs one phase with a bar.
func (g *growth) phase(ctx context.Context, store *own.Store, set workload.Set, p workload.Phase) (workload.Figures, error) {
	bar := newProgress(g.err, g.terminal, countName(set.Len())+" keys: "+cmp.Or(p.Name, p.Kind.String()))
	defer bar.end()
	return workload.Run(ctx, store, set, p, bar.set)
}

// absent measures lookups of absent keys in the tree as it is now.
func (g *growth) absent(ctx context.Context, store *own.Store, set *workload.Generated, tree string) (absence, error) {
	a := absence{Tree: tree}
	var err error
	a.Lookup, err = g.phase(ctx, store, set, workload.Phase{Name: "absent", Kind: workload.Absent, Ops: min(phaseOps, set.Absents()), Seed: g.seed + 1})
	if err != nil {
		return a, err
	}
	m := store.Metrics()
	levels := layers(m)
	for _, l := range levels {
		a.Runs += l.runs
		a.Tables += l.tables
	}
	a.FilterBytes = m.Memory.Filters
	f, err := newFloor(levels, set, g.seed)
	if err != nil {
		return a, err
	}
	a.FloorFences, a.FloorBytes = len(f.fences), f.bytes
	bar := newProgress(g.err, g.terminal, countName(set.Len())+" keys: absent beside the floor")
	defer bar.end()
	done := func(round int) { bar.set(round, 2*g.rounds) }
	if a.Chained, err = compareAbsent(ctx, store.DB, f, set, chain{}, g.rounds, g.seed+2, done); err != nil {
		return a, err
	}
	a.Free, err = compareAbsent(ctx, store.DB, f, set, chain{free: true}, g.rounds, g.seed+3, func(round int) { done(g.rounds + round) })
	return a, err
}

// liveHeap is what the heap holds that is in use.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // below the size of memory
}

func perKey(m bloomkv.MemoryMetrics, live int64, keys int) memoryPerKey {
	per := func(bytes int64) float64 { return float64(bytes) / float64(keys) }
	return memoryPerKey{
		Filters: per(m.Filters), Indexes: per(m.Indexes), Cache: per(m.Cache), Memtables: per(m.Memtables),
		Other: per(max(0, live-m.Sum())),
	}
}

// reopen opens a store and waits until it is warm.
func reopen(ctx context.Context, dir string, options *bloomkv.Options) (*bloomkv.DB, reopening, error) {
	var r reopening
	begin := time.Now()
	db, err := bloomkv.Open(dir, options)
	if err != nil {
		return nil, r, err
	}
	r.Open = time.Since(begin)
	for !db.Metrics().Warm {
		select {
		case <-ctx.Done():
			return db, r, context.Cause(ctx)
		case <-time.After(100 * time.Microsecond):
		}
	}
	r.Warm = time.Since(begin)
	return db, r, nil
}

// wrongError is errWrong if an answer of a store was wrong.
func (r *growthReport) wrongError() error {
	var sum int
	var first string
	for i := range r.Stores {
		n, what := r.Stores[i].wrong()
		if sum == 0 {
			first = what
		}
		sum += n
	}
	if sum > 0 {
		return fmt.Errorf("%d %w; the first: %s", sum, errWrong, first)
	}
	return nil
}

// give prints the report.
func (g *growth) give(r *growthReport) error {
	if g.json {
		out := json.NewEncoder(g.out)
		out.SetIndent("", "  ")
		return out.Encode(r)
	}
	return r.print(g.out)
}

func (r *growthReport) print(w io.Writer) error {
	r.Machine.Header(w, r.Command, "bench")
	fmt.Fprintf(w, "\n%s keys, values of %d bytes, promised %g wasted reads per absent lookup, %d MiB of memory, no compression\n",
		r.Shape, r.ValueBytes, r.FilterFPR, r.MemoryBudget>>20)
	fmt.Fprintf(w, "\nLookups of absent keys, ns. Store ÷ floor must be at most %g, chained, in the compacted tree.\n\n", r.MostRatio)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "keys\ttree\truns\ttables\tphase\tchained\tfloor\tratio\tleast\tmost\tmust\tfree\tfloor\tratio\tasking\t")
	for i := range r.Stores {
		g := &r.Stores[i]
		for _, a := range []*absence{&g.Loaded, &g.Last} {
			must := ""
			if a == &g.Last {
				must = met(a.Chained.Ratio <= r.MostRatio)
			}
			fmt.Fprintf(t, "%d\t%s\t%d\t%d\t%.1f\t%.1f\t%.1f\t%.2f\t%.2f\t%.2f\t%s\t%.1f\t%.1f\t%.2f\t%.1f\t\n", g.Keys, a.Tree, a.Runs, a.Tables, a.Lookup.MedianNs,
				a.Chained.StoreNs, a.Chained.FloorNs, a.Chained.Ratio, a.Chained.Least, a.Chained.Most, must,
				a.Free.StoreNs, a.Free.FloorNs, a.Free.Ratio, a.Chained.AskNs)
		}
	}
	t.Flush()
	fmt.Fprintln(w, "\nEverything else; memory and disk in bytes for a key.")
	fmt.Fprintln(w)
	fmt.Fprintln(t, "keys\ttables\tload ns\tcompaction\tpresent ns\tfilters\tindexes\tcache\tmemtables\tother\tdisk\topen\twarm\t")
	for i := range r.Stores {
		g := &r.Stores[i]
		fmt.Fprintf(t, "%d\t%d\t%.0f\t%s\t%.0f\t%.2f\t%.2f\t%.1f\t%.2f\t%.2f\t%.1f\t%s\t%s\t\n", g.Keys, g.Last.Tables, g.Load.MeanNs, g.Compact.Elapsed.Round(time.Millisecond), g.Present.MedianNs,
			g.Memory.Filters, g.Memory.Indexes, g.Memory.Cache, g.Memory.Memtables, g.Memory.Other, float64(g.DiskBytes)/float64(g.Keys),
			g.Reopen.Open.Round(10*time.Microsecond), g.Reopen.Warm.Round(10*time.Microsecond))
	}
	t.Flush()
	var err error
	fmt.Fprintln(w)
	for i := range r.Stores {
		g := &r.Stores[i]
		for _, f := range []workload.Figures{g.Load, g.Last.Lookup, g.Present} {
			_, err = fmt.Fprintln(w, f.Benchmark(fmt.Sprintf("%s/keys=%d/tables=%d", f.Phase, g.Keys, g.Last.Tables)))
		}
	}
	return err
}

// met says of a target whether it is.
func met(yes bool) string {
	if yes {
		return "met"
	}
	return "not met"
}
