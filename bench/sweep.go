package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bench/machine"
	"github.com/bloomkv/bloomkv/internal/cli"
	"github.com/bloomkv/bloomkv/internal/outfile"
	"github.com/bloomkv/bloomkv/internal/picture"
	"github.com/bloomkv/bloomkv/internal/workload"
	"github.com/bloomkv/bloomkv/internal/workload/own"
)

const (
	fewestOps   = 20_000 // lookups of a measurement; in a small store keys are looked up several times
	sweepKeys   = 200_000
	mostRuns    = 1 + 12 // with more than 12 in level 0 a store blocks writes
	buildMemory = 1024   // MiB, so that one memtable can hold a whole run
	hardlyEver  = 1      // byte per second: a compaction that starts does not finish
)

// The kinds of sweeps, by what differs between the stores.
const (
	sweepFPR  = "fpr"
	sweepRuns = "runs"
	sweepSize = "keys"
)

// A sweepKind is a command of sweep, named after the one thing in which its stores differ.
type sweepKind struct {
	name, short, long string
	memory            int64 // the default of --memory
	from, to          string
}

var sweepKinds = []sweepKind{
	{
		sweepFPR, "Show read amplification as a function of bits per key",
		`fpr creates a store for each error rate and one without filters, loads it in random order, and looks up
absent and present keys, right after the load and after a compaction. The default memory is small, so
that blocks are read from files.`,
		8, "largest rate", "smallest rate; the steps are 1-2-5",
	},
	{
		sweepRuns, "Show read amplification as a function of the number of runs",
		`runs creates stores with 1, 2, 3 … sorted runs, with filters and without, and looks up absent and
present keys. All runs have the same size and any of them may hold any key. The oldest is the last
level, the others are in level 0, where a store holds at most 12 before it blocks writes. The default
memory is small, so that blocks are read from files.`,
		8, "fewest runs", "most runs",
	},
	{
		sweepSize, "Show costs as a function of the number of keys",
		`keys creates stores of different sizes, with filters and without, and looks up absent and present keys,
right after the load and after a compaction. The default memory holds a million pairs of the default
size.`,
		1024, "fewest keys", "most keys; the steps are 1-2-5",
	},
}

// sweep makes the same lookups in several stores that differ in one thing.
type sweep struct {
	data
	*cli.Streams

	kind   string
	fpr    float64 // of the stores with filters, except in a sweep of rates
	rate   span[float64]
	count  span[int] // of runs or keys
	dir    string    // of the stores, one after the other
	json   bool
	html   string // file for the page
	plot   string // directory for the charts
	report sweepReport
}

// A span is the range of a sweep.
type span[T any] struct{ from, to T }

func sweepCommand(s *cli.Streams, command string) *cobra.Command {
	parent := &cobra.Command{
		Use:   "sweep",
		Short: "Show how the costs of lookups change with one setting",
		Long: `sweep creates several stores that differ in one thing and looks up absent and present keys in each.
Every answer is checked.`,
		Args: cli.Arguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, kind := range sweepKinds {
		w := &sweep{
			Streams: s, kind: kind.name, fpr: 0.01, rate: span[float64]{0.5, 0.0001}, count: span[int]{1, mostRuns},
			data: data{keys: sweepKeys, value: 100, shape: workload.Random, memory: kind.memory, seed: 1},
		}
		c := &cobra.Command{
			Use: kind.name, Short: kind.short, Long: kind.long, Args: cli.Arguments,
			RunE: func(c *cobra.Command, _ []string) error {
				if err := w.check(); err != nil {
					return cli.Hint(c, err)
				}
				return w.run(c.Context(), command)
			},
		}
		keys := "pairs in each store"
		if kind.name == sweepSize {
			keys, w.count = "", span[int]{1000, mostKeys}
		}
		w.data.flags(c, keys, "memory budget of a store during lookups, in `MIB`")
		c.Flags().BoolVar(&w.json, "json", false, jsonHelp)
		c.Flags().StringVar(&w.html, "html", "", "also write a page with charts to `FILE`, which loads nothing else")
		c.Flags().StringVar(&w.plot, "plot", "", "also write the charts as SVG and PNG into `DIR`")
		if kind.name == sweepFPR {
			c.Flags().Float64Var(&w.rate.from, "from", w.rate.from, kind.from)
			c.Flags().Float64Var(&w.rate.to, "to", w.rate.to, kind.to)
		} else {
			c.Flags().IntVar(&w.count.from, "from", w.count.from, kind.from)
			c.Flags().IntVar(&w.count.to, "to", w.count.to, kind.to)
			c.Flags().Float64Var(&w.fpr, "fpr", w.fpr, fprHelp)
		}
		parent.AddCommand(c)
	}
	return parent
}

func (w *sweep) check() error {
	from, to := w.count.from, w.count.to
	switch {
	case w.kind == sweepFPR && !(w.rate.from < 1 && w.rate.to > 0 && w.rate.to <= w.rate.from):
		return fmt.Errorf("--from %v --to %v: want rates below 1 and above 0, the larger first", w.rate.from, w.rate.to)
	case w.kind == sweepRuns && (from < 1 || to < from || to > mostRuns):
		return fmt.Errorf("--from %d --to %d: want 1 to %d runs, the smaller number first", from, to, mostRuns)
	case w.kind == sweepSize && (from < 2 || to < from):
		return fmt.Errorf("--from %d --to %d: want at least 2 keys, the smaller number first", from, to)
	case w.keys < 2:
		return fmt.Errorf("--keys %d: want at least 2, so that an absent key lies between", w.keys)
	}
	err := errors.Join(checkFPR(w.fpr), w.data.check())
	if err == nil && w.html != "" {
		if err = outfile.Check(w.html); err != nil {
			err = fmt.Errorf("--html %w", err)
		}
	}
	return err
}

// run measures all points and prints the report.
func (w *sweep) run(ctx context.Context, command string) (err error) {
	dir, remove, err := cli.Directory("", "", tempPattern)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	w.dir = dir
	r := &w.report
	*r = sweepReport{
		Machine: machine.Here(), Command: command, Sweep: w.kind,
		ValueBytes: w.value, Shape: w.shape.String(), Seed: w.seed, MemoryBudget: w.memory << 20,
	}
	for _, p := range w.points() {
		w.keys = p.Keys
		set, err := w.set()
		if err != nil {
			return err
		}
		if w.kind == sweepRuns {
			err = w.runs(ctx, set, p.FilterFPR, p.Runs)
		} else {
			err = w.loaded(ctx, set, p.FilterFPR)
		}
		if err = errors.Join(err, os.RemoveAll(filepath.Join(dir, "store"))); err != nil {
			return err
		}
	}
	return errors.Join(w.draw(ctx, r.page()), show(w.Streams, w.json, r))
}

// draw writes the page and the charts that the flags ask for.
func (w *sweep) draw(ctx context.Context, p *picture.Page) error {
	if w.html != "" {
		var b bytes.Buffer
		if err := p.WriteHTML(&b); err != nil {
			return err
		}
		if err := outfile.Write(ctx, w.html, b.Bytes()); err != nil {
			return err
		}
	}
	if w.plot == "" {
		return nil
	}
	return p.Save(ctx, w.plot)
}

// points returns the rate, the number of keys and the number of runs of each store.
func (w *sweep) points() (all []point) {
	switch w.kind {
	case sweepFPR:
		all = append(all, point{FilterFPR: 1, Keys: w.keys})
		for _, n := range steps(1/w.rate.from, 1/w.rate.to) {
			all = append(all, point{FilterFPR: 1 / n, Keys: w.keys})
		}
	case sweepRuns:
		for n := w.count.from; n <= w.count.to; n++ {
			all = append(all, point{FilterFPR: w.fpr, Keys: w.keys, Runs: n},
				point{FilterFPR: 1, Keys: w.keys, Runs: n})
		}
	case sweepSize:
		for _, n := range steps(float64(w.count.from), float64(w.count.to)) {
			keys := int(math.Round(n))
			all = append(all, point{FilterFPR: w.fpr, Keys: keys}, point{FilterFPR: 1, Keys: keys})
		}
	}
	return all
}

// steps returns the numbers 1, 2, 5, 10, 20 and so on between from and to, and both of these.
func steps(from, to float64) []float64 {
	const near = 1 + 1e-9 // of numbers that were divided and multiplied again
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

// store opens the store of the current point, calls body, and closes the store.
func (w *sweep) store(options *bloomkv.Options, body func(store *own.Store) error) error {
	debug.FreeOSMemory() // memory left over from the previous store must not be counted here
	store, err := own.Open(filepath.Join(w.dir, "store"), options)
	if err != nil {
		return err
	}
	return errors.Join(body(store), store.Close())
}

// loaded measures a store that is loaded in random order: right after the load, and after a compaction.
func (w *sweep) loaded(ctx context.Context, set workload.Set, rate float64) error {
	bar := w.Progress(fmt.Sprintf("%d keys, rate %g", set.Len(), rate), -1, false)
	defer bar.End()
	return w.store(w.options(rate), func(store *own.Store) error {
		for _, tree := range []struct {
			state   string
			prepare []workload.Phase
		}{
			{"loaded", []workload.Phase{
				{Kind: workload.Load, Batch: batchPairs, Seed: w.seed}, {Kind: workload.Flush}, {Kind: workload.Settle},
			}},
			{"compacted", []workload.Phase{{Kind: workload.Compact}, {Kind: workload.Settle}}},
		} {
			for _, p := range tree.prepare {
				if _, err := workload.Run(ctx, store, set, p, bar.Set); err != nil {
					return err
				}
			}
			if err := w.measure(ctx, store, set, point{State: tree.state, FilterFPR: rate}, bar); err != nil {
				return err
			}
		}
		return nil
	})
}

// runs measures a store whose keys are in n runs. The store gets enough memory to hold a run in one memtable. The first
// run is compacted into the last level; the others are flushed to level 0 while compaction is throttled to a
// standstill. Then the store is opened read-only, so that nothing is compacted during lookups.
func (w *sweep) runs(ctx context.Context, set workload.Set, rate float64, n int) error {
	bar := w.Progress(fmt.Sprintf("%d runs, filters %s", n, onOff(rate)), -1, false)
	defer bar.End()
	build := w.data
	build.memory = max(build.memory, buildMemory)
	options := build.options(rate)
	options.MemtableSize = options.MemoryBudget / 4
	err := w.store(options, func(store *own.Store) error {
		if err := fillRuns(ctx, store, set, 0, 1, n, w.seed, bar); err != nil {
			return err
		}
		return store.Compact(ctx)
	})
	if err != nil {
		return err
	}
	options.CompactionRate = hardlyEver
	err = w.store(options, func(store *own.Store) error {
		if err := fillRuns(ctx, store, set, 1, n, n, w.seed, bar); err != nil {
			return err
		}
		if got := runsOf(store.Metrics()); got != n {
			return fmt.Errorf("%d runs, want %d: --keys %d with --value %d do not fit in %d memtables of %d MiB",
				got, n, w.keys, w.value, n, options.MemtableSize>>20)
		}
		return nil
	})
	if err != nil {
		return err
	}
	read := w.options(rate)
	read.ReadOnly = true
	return w.store(read, func(store *own.Store) error {
		return w.measure(ctx, store, set, point{State: "loaded", FilterFPR: rate}, bar)
	})
}

// fillRuns divides a set, in random order, into n parts and puts the parts from..to-1 into a store, each as a run.
func fillRuns(ctx context.Context, store *own.Store, set workload.Set, from, to, n int, seed uint64,
	bar cli.Progress,
) error {
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
			if err := errors.Join(ctx.Err(), store.DB.With(bloomkv.NoSync).Apply(&batch)); err != nil {
				return fmt.Errorf("run %d of %d: %w", run+1, n, err)
			}
			batch.Reset()
			bar.Set(done+1, set.Len())
		}
		if err := store.Flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// measure looks up the keys of a store and adds the results to the report. All keys are looked up once before, to fill
// the cache.
func (w *sweep) measure(ctx context.Context, store *own.Store, set workload.Set, p point, bar cli.Progress) error {
	warm := workload.Phase{Kind: workload.Present, Seed: w.seed + 1}
	if _, err := workload.Run(ctx, store, set, warm, bar.Set); err != nil {
		return err
	}
	for _, look := range []struct {
		kind workload.Kind
		keys int
		row  *phase
	}{{workload.Absent, set.Absents(), &p.Absent}, {workload.Present, set.Len(), &p.Present}} {
		lookups := workload.Phase{Kind: look.kind, Ops: max(look.keys, fewestOps), Seed: w.seed + 2}
		row, err := measure(ctx, store, set, lookups, &writeSums{}, bar)
		if err != nil {
			return err
		}
		row.Latencies = nil // of all points together they would be most of the report
		*look.row = row
	}
	p.fill(store.Metrics(), set.Len())
	w.report.Points = append(w.report.Points, p)
	return nil
}
