package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/outfile"
	"github.com/bloomkv/bloomkv/tools/workload"
)

const (
	fewestOps   = 20_000 // lookups of a measurement; in a small store keys are looked up several times
	sweepKeys   = 200_000
	mostRuns    = 1 + 12 // with more than 12 in level 0 a store slows writers
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
level, the others are in level 0, where more than 12 slow writers. The default memory is small, so that
blocks are read from files.`,
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
	report *sweepReport
}

// A span is the range of a sweep.
type span[T any] struct{ from, to T }

func sweepCommand(s *cli.Streams, command string) *cobra.Command {
	parent := &cobra.Command{
		Use:   "sweep",
		Short: "Show how the costs of lookups change with one setting",
		Long: `sweep creates several stores that differ in one thing and looks up absent and present keys in each.
Every answer is checked. Each row is printed once its store was measured. After an interrupt or an error, the page and
the charts show the stores that were measured until then.`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, kind := range sweepKinds {
		w := &sweep{
			Streams: s, kind: kind.name, fpr: 0.01, rate: span[float64]{0.5, 0.0001}, count: span[int]{1, mostRuns},
			data: data{keys: sweepKeys, value: 100, shape: workload.Random, memory: kind.memory, seed: 1},
		}
		c := &cobra.Command{
			Use: kind.name, Short: kind.short, Long: kind.long,
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
