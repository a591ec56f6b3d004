package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bench/machine"
	"github.com/bloomkv/bloomkv/internal/workload"
	"github.com/bloomkv/bloomkv/internal/workload/own"
)

// sweep is one command of the sweeps: the same lookups in many stores that differ in one thing.
type sweep struct {
	data
	shown
	streams

	fpr float64
	dir string // of the stores, one after the other

	report sweepReport
}

// sweepReport is what a sweep measured. The names are what --json prints.
type sweepReport struct {
	Machine machine.Machine `json:"machine"`
	Command string          `json:"command"`

	Sweep        string  `json:"sweep"` // fpr, runs or keys: what differs from point to point
	ValueBytes   int     `json:"value_bytes"`
	Shape        string  `json:"shape"`
	Seed         uint64  `json:"seed"`
	MemoryBudget int64   `json:"memory_budget"`
	Points       []point `json:"points"`
}

// A point is the lookups in one store.
type point struct {
	Filters   string  `json:"filters"`       // on or off
	State     string  `json:"state"`         // of the tree: loaded or compacted
	FilterFPR float64 `json:"fpr_promised"`  // wasted reads for a lookup of an absent key; 1 is without filters
	Predicted float64 `json:"fpr_predicted"` // by the filters in memory, added up over the runs

	Keys             int     `json:"keys"`
	Runs             int     `json:"runs"`
	Tables           int     `json:"tables"`
	TableBytes       uint64  `json:"table_bytes"`
	FilterBitsPerKey float64 `json:"filter_bits_per_key"` // in memory
	IndexBitsPerKey  float64 `json:"index_bits_per_key"`  // in memory
	FiltersShed      int     `json:"filters_shed"`        // that the memory budget has no room for

	Absent  phase `json:"absent"`
	Present phase `json:"present"`
}

const (
	fewestOps   = 20_000 // of a measurement: a small store's keys are looked up again and again
	sweepKeys   = 200_000
	mostRuns    = 1 + 12  // with more in level 0 a store lets nobody write
	buildMemory = 1024    // MiB: a run is what one memtable holds
	hardlyEver  = 1       // byte a second: a compaction that begins does not end
	series      = "1-2-5" // the steps of rates and numbers of keys
	states      = "as it is after the load, and compacted"
)

func sweepCommand(s streams, command string) *cobra.Command {
	c := &cobra.Command{
		Use:   "sweep",
		Short: "Show how the costs of lookups change with one thing",
		Long:  "sweep makes many stores that differ in one thing, and looks up absent and present keys in each. Every answer is checked.",
		Args:  usage(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(sweepFPR(s, command), sweepRuns(s, command), sweepKeyCounts(s, command))
	return c
}

// newSweep is a sweep with the flags that all have.
func newSweep(s streams, c *cobra.Command, name, command string, memory int64) *sweep {
	w := &sweep{streams: s, data: data{keys: sweepKeys, value: 100, shape: workload.Random, memory: memory, seed: 1}, fpr: 0.01}
	w.report = sweepReport{Sweep: name, Command: command}
	keys := "pairs in each store"
	if name == "keys" {
		keys = ""
	}
	w.data.flags(c, keys, "memory budget of a store while it is read, in `MIB`")
	w.shown.flags(c)
	return w
}

// run makes the directory of the stores, has points measured, and gives the report.
func (w *sweep) run(c *cobra.Command, measure func(ctx context.Context) error) (err error) {
	if err := errors.Join(w.data.check(), w.checkFiles()); err != nil {
		return hint(c, err)
	}
	if w.keys < 2 {
		return hint(c, fmt.Errorf("--keys %d: want 2 at least, for an absent one between", w.keys))
	}
	dir, remove, err := tempDir("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	w.dir = dir
	r := &w.report
	r.Machine, r.ValueBytes, r.Shape, r.Seed, r.MemoryBudget = machine.Here(), w.value, w.shape.String(), w.seed, w.memory<<20
	if err := measure(c.Context()); err != nil {
		return err
	}
	return w.give(c.Context(), w.streams, r)
}

func sweepFPR(s streams, command string) *cobra.Command {
	var from, to float64
	c := &cobra.Command{
		Use:   "fpr",
		Short: "Read amplification against bits per key",
		Long: `fpr makes a store for each promised rate of wasted reads and one without filters, loads it in random order, and looks up
absent and present keys, in the tree ` + states + `. Little memory leaves blocks to be read from files.`,
		Args: usage(cobra.NoArgs),
	}
	w := newSweep(s, c, "fpr", command, 8)
	c.Flags().Float64Var(&from, "from", 0.5, "the largest rate")
	c.Flags().Float64Var(&to, "to", 0.0001, "the smallest rate; between them the steps are "+series)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !(from < 1 && to > 0 && to <= from) {
			return hint(c, fmt.Errorf("--from %v --to %v: want rates below 1 and above 0, the larger first", from, to))
		}
		return w.run(c, func(ctx context.Context) error {
			set, err := w.set()
			if err != nil {
				return err
			}
			rates := []float64{1}
			for _, n := range steps(1/from, 1/to) {
				rates = append(rates, 1/n)
			}
			for _, rate := range rates {
				if err := w.loaded(ctx, set, rate, fmt.Sprintf("fpr %g", rate), "loaded", "compacted"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return c
}

func sweepKeyCounts(s streams, command string) *cobra.Command {
	var from, to int
	c := &cobra.Command{
		Use:   "keys",
		Short: "Costs against the number of keys",
		Long: `keys makes stores of more and more keys, with filters and without, and looks up absent and present keys, in the tree
` + states + `. The default memory holds all of a million pairs of the default size.`,
		Args: usage(cobra.NoArgs),
	}
	w := newSweep(s, c, "keys", command, 1024)
	c.Flags().IntVar(&from, "from", 1000, "the fewest keys")
	c.Flags().IntVar(&to, "to", mostKeys, "the most; between them the steps are "+series)
	c.Flags().Float64Var(&w.fpr, "fpr", w.fpr, "promised wasted reads for a lookup of an absent key, with the filters on")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if from < 2 || to < from {
			return hint(c, fmt.Errorf("--from %d --to %d: want 2 keys at least, the smaller number first", from, to))
		}
		if err := w.checkFPR(); err != nil {
			return hint(c, err)
		}
		return w.run(c, func(ctx context.Context) error {
			for _, n := range steps(float64(from), float64(to)) {
				w.keys = int(math.Round(n))
				set, err := w.set()
				if err != nil {
					return err
				}
				for _, rate := range []float64{w.fpr, 1} {
					if err := w.loaded(ctx, set, rate, strconv.Itoa(w.keys)+" keys, filters "+onOff(rate), "loaded", "compacted"); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	return c
}

func sweepRuns(s streams, command string) *cobra.Command {
	var from, to int
	c := &cobra.Command{
		Use:   "runs",
		Short: "Read amplification against the number of runs",
		Long: `runs makes stores whose keys are in one run, in two, and so on, each of which any key may be in, and looks up absent and
present keys, with filters and without. The runs are equally large; the oldest is the last level, the others are in level 0.
A store lets no more than 12 gather there: then writers wait for compaction. Little memory leaves blocks to be read from files.`,
		Args: usage(cobra.NoArgs),
	}
	w := newSweep(s, c, "runs", command, 8)
	c.Flags().IntVar(&from, "from", 1, "the fewest runs")
	c.Flags().IntVar(&to, "to", mostRuns, "the most")
	c.Flags().Float64Var(&w.fpr, "fpr", w.fpr, "promised wasted reads for a lookup of an absent key, with the filters on")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if from < 1 || to < from || to > mostRuns {
			return hint(c, fmt.Errorf("--from %d --to %d: want 1 to %d runs, the smaller number first", from, to, mostRuns))
		}
		if err := w.checkFPR(); err != nil {
			return hint(c, err)
		}
		return w.run(c, func(ctx context.Context) error {
			set, err := w.set()
			if err != nil {
				return err
			}
			for n := from; n <= to; n++ {
				for _, rate := range []float64{w.fpr, 1} {
					if err := w.runs(ctx, set, rate, n); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	return c
}

func (w *sweep) checkFPR() error {
	if !(w.fpr > 0 && w.fpr < 1) {
		return fmt.Errorf("--fpr %v: want more than 0 and less than 1", w.fpr)
	}
	return nil
}

func onOff(rate float64) string {
	if rate < 1 {
		return "on"
	}
	return "off"
}

// steps are the numbers 1, 2, 5, 10 and so on from one to another, which begin and end them.
func steps(from, to float64) []float64 {
	const near = 1 + 1e-9 // what was divided and multiplied again
	numbers := []float64{from}
	for ten := math.Pow(10, math.Floor(math.Log10(from))); ten < to; ten *= 10 {
		for _, n := range []float64{ten, 2 * ten, 5 * ten} {
			if n > from*near && n*near < to {
				numbers = append(numbers, n)
			}
		}
	}
	if to > from*near {
		numbers = append(numbers, to)
	}
	return numbers
}

// store opens the store of the sweep, runs body on it and closes it.
func (w *sweep) store(options *bloomkv.Options, body func(store *own.Store) error) error {
	debug.FreeOSMemory() // of the store before
	store, err := own.Open(filepath.Join(w.dir, "store"), options)
	if err != nil {
		return err
	}
	return errors.Join(body(store), store.Close())
}

// remove makes room for the next store.
func (w *sweep) remove() error { return os.RemoveAll(filepath.Join(w.dir, "store")) }

// loaded measures a store that was loaded in random order: as it is then, and compacted.
func (w *sweep) loaded(ctx context.Context, set workload.Set, rate float64, what string, trees ...string) error {
	bar := w.progress(what)
	defer bar.end()
	err := w.store(w.options(rate), func(store *own.Store) error {
		for _, tree := range trees {
			prepare := []workload.Phase{{Kind: workload.Compact}, {Kind: workload.Settle}}
			if tree == "loaded" {
				prepare = []workload.Phase{{Kind: workload.Load, Batch: batchPairs, Seed: w.seed}, {Kind: workload.Flush}, {Kind: workload.Settle}}
			}
			for _, p := range prepare {
				if _, err := workload.Run(ctx, store, set, p, bar.set); err != nil {
					return err
				}
			}
			if err := w.point(ctx, store, set, point{State: tree, FilterFPR: rate}, bar); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, w.remove())
}

// runs measures a store whose keys are in n runs. It is made with memory for as large memtables as that takes: the first run
// is compacted, which leaves it in the last level, and the others are put above it with a compaction that does not get on.
// Then the store is opened for reading only, which compacts nothing.
func (w *sweep) runs(ctx context.Context, set workload.Set, rate float64, n int) error {
	bar := w.progress(fmt.Sprintf("%d runs, filters %s", n, onOff(rate)))
	defer bar.end()
	build := w.data
	build.memory = max(build.memory, buildMemory)
	options := build.options(rate)
	options.MemtableSize = options.MemoryBudget / 4
	err := w.store(options, func(store *own.Store) error {
		return errors.Join(fillRuns(ctx, store, set, 0, 1, n, w.seed, bar), store.Compact(ctx))
	})
	if err == nil {
		options.CompactionRate = hardlyEver
		err = w.store(options, func(store *own.Store) error {
			if err := fillRuns(ctx, store, set, 1, n, n, w.seed, bar); err != nil {
				return err
			}
			if got := runsOf(store.Metrics()); got != n {
				return fmt.Errorf("%d runs, want %d: --keys %d --value %d is not what %d memtables of %d MiB hold", got, n, w.keys, w.value, n, options.MemtableSize>>20)
			}
			return nil
		})
	}
	if err == nil {
		read := w.options(rate)
		read.ReadOnly = true
		err = w.store(read, func(store *own.Store) error {
			return w.point(ctx, store, set, point{State: "loaded", FilterFPR: rate}, bar)
		})
	}
	return errors.Join(err, w.remove())
}

// runsOf is how many runs a tree has.
func runsOf(m bloomkv.Metrics) (n int) {
	for _, l := range m.Levels {
		n += l.Runs
	}
	return n
}

// fillRuns puts the parts from one to another, of n parts of a set in random order, into a store. Each becomes a run.
func fillRuns(ctx context.Context, store *own.Store, set workload.Set, from, to, n int, seed uint64, bar progress) error {
	order := workload.NewPermutation(set.Len(), seed)
	var batch bloomkv.Batch
	var key, value []byte
	for run := from; run < to; run++ {
		end := set.Len() * (run + 1) / n
		for done := set.Len() * run / n; done < end; done++ {
			i := order.At(done)
			key, value = set.AppendKey(key[:0], i), set.AppendValue(value[:0], i)
			batch.Put(key, value)
			if batch.Len() < batchPairs && batch.Size() < 1<<20 && done+1 < end {
				continue
			}
			if err := errors.Join(ctx.Err(), store.DB.Apply(&batch, bloomkv.NoSync)); err != nil {
				return err
			}
			batch.Reset()
			bar.set(done+1, set.Len())
		}
		if err := store.Flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// point looks up the keys of a store and adds what that cost. A pass over all keys before it loads what memory has room for.
func (w *sweep) point(ctx context.Context, store *own.Store, set workload.Set, p point, bar progress) error {
	if _, err := workload.Run(ctx, store, set, workload.Phase{Kind: workload.Present, Seed: w.seed + 1}, bar.set); err != nil {
		return err
	}
	for _, look := range []struct {
		kind workload.Kind
		keys int
		row  *phase
	}{{workload.Absent, set.Absents(), &p.Absent}, {workload.Present, set.Len(), &p.Present}} {
		row, err := measure(ctx, store, set, workload.Phase{Kind: look.kind, Ops: max(look.keys, fewestOps), Seed: w.seed + 2}, &writeSums{}, bar)
		if err != nil {
			return err
		}
		row.Latencies = nil // of so many points they would be most of the report
		*look.row = row
	}
	m := store.Metrics()
	p.Filters, p.Predicted, p.Keys = onOff(p.FilterFPR), m.FPRPredicted, set.Len()
	for _, l := range m.Levels {
		p.Runs += l.Runs
		p.Tables += l.Tables
		p.TableBytes += l.Bytes
		p.FiltersShed += l.FilterShed
	}
	p.FilterBitsPerKey = 8 * float64(m.Memory.Filters) / float64(p.Keys)
	p.IndexBitsPerKey = 8 * float64(m.Memory.Indexes) / float64(p.Keys)
	w.report.Points = append(w.report.Points, p)
	return nil
}

func (r *sweepReport) wrong() (n int, first string) {
	for _, p := range r.Points {
		for _, row := range []*phase{&p.Absent, &p.Present} {
			if n == 0 {
				first = row.FirstWrong
			}
			n += row.Wrong
		}
	}
	return n, first
}

func (r *sweepReport) print(w io.Writer) error {
	r.Machine.Header(w, r.Command, "bench")
	fmt.Fprintf(w, "\n%s\n\n", r.intro())
	g := r.grid()
	return g.print(w)
}

func (r *sweepReport) intro() string {
	return fmt.Sprintf("%s keys, values of %d bytes, %d MiB of memory while they are read, no compression", r.Shape, r.ValueBytes, r.MemoryBudget>>20)
}

// grid has a line for each point.
func (r *sweepReport) grid() grid {
	g := grid{head: []string{
		"tree", "filters", "promised", "predicted", "keys", "runs", "filter bits/key", "index bits/key",
		"wasted/absent", "blocks/absent", "file reads", "system reads", "ns/absent",
		"blocks/present", "file reads", "system reads", "ns/present", "wrong",
	}}
	for _, p := range r.Points {
		cells := []string{
			p.State, p.Filters, fmt.Sprintf("%g", p.FilterFPR), fmt.Sprintf("%.3g", p.Predicted), strconv.Itoa(p.Keys), strconv.Itoa(p.Runs),
			fmt.Sprintf("%.2f", p.FilterBitsPerKey), fmt.Sprintf("%.2f", p.IndexBitsPerKey), rate(p.Absent.cost().WastedReads),
		}
		for _, row := range []*phase{&p.Absent, &p.Present} {
			reads := ""
			if row.System != nil {
				reads = rate(row.System.Reads)
			}
			cells = append(cells, rate(row.cost().Blocks), rate(row.cost().fileReads()), reads, row.took())
		}
		g.add(append(cells, strconv.Itoa(p.Absent.Wrong+p.Present.Wrong))...)
	}
	return g
}

// cost is never nil, for phases that are known to look up.
func (p *phase) cost() *costs {
	if p.Cost == nil {
		return &costs{}
	}
	return p.Cost
}
