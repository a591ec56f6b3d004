package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/picture/save"
	"github.com/bloomkv/bloomkv/tools/workload"
	"github.com/bloomkv/bloomkv/tools/workload/own"
)

// growth holds the flags of the command.
type growth struct {
	*cli.Streams

	keys, budgets counts // pairs; MiB
	kinds, states []string
	value         int
	seed          uint64
	lookups, puts int // lookups of each kind in a measurement; puts per second of the writer
	dir, plot     string
	json          bool

	report *growthReport
}

const (
	promisedFPR = 0.01 // of a store with default options
	fewestKeys  = 1000 // and fewest lookups
)

// kinds of filters, by their names in --kind.
var kinds = map[string]bloomkv.FilterKind{
	"auto": bloomkv.FilterAuto, "bloom": bloomkv.FilterBloom, "ribbon": bloomkv.FilterRibbon,
}

func growthCommand(s *cli.Streams, command string) *cobra.Command {
	w := &growth{
		Streams: s, budgets: counts{64}, kinds: []string{"auto"}, value: 100, seed: 1, lookups: 500_000, puts: 20_000,
		states: []string{idleState, writingState},
		keys:   counts{1_000_000, 2_000_000, 4_000_000, 8_000_000, 12_000_000, 16_000_000, 24_000_000},
	}
	c := &cobra.Command{
		Use:   "growth",
		Short: "Show what lookups cost as a store outgrows its memory",
		Long: `growth fills a store with random keys in random order, one for each memory budget and kind of filter,
with default options otherwise. Whenever it has one of the given numbers of keys, a checkpoint of it is
compacted, and measured in a process of its own, which looks up absent and then present keys at random
and counts from the first lookup on, right after Open. Every answer is checked. States (--state):

  loaded    as idle, but the checkpoint is not compacted: its tables are as the writes have left them
  idle      nothing else uses the store, and the system has its files in memory
  unmapped  as idle, with files that are read and not mapped
  quarter   as idle, in a control group that holds a quarter of the files besides the process (Linux, as root)
  writing   beside a goroutine that puts existing pairs at a steady rate, after one and a half memtables

A line is printed for each measurement as soon as it ends. By default this takes some minutes, and 6 GB of
disk space. The whole range of 64 MiB takes an hour and 26 GB:
  go run ./bench growth --keys 1M,2M,4M,8M,12M,16M,24M,32M,40M,64M,100M --kind auto,bloom --plot DIR`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := w.check(); err != nil {
				return cli.Hint(c, err)
			}
			return w.run(c.Context(), command)
		},
	}
	f := c.Flags()
	f.Var(&w.keys, "keys", "rising numbers of pairs at which the store is measured")
	f.Var(&w.budgets, "budget", "memory budgets in MiB, a store for each")
	f.StringSliceVar(&w.kinds, "kind", w.kinds, "kinds of filters, a store for each: a `LIST` of auto, bloom, ribbon")
	f.IntVar(&w.lookups, "lookups", w.lookups, "lookups of absent keys in a measurement, and of present keys")
	f.StringSliceVar(&w.states, "state", w.states, "a `LIST` of the states to measure")
	f.IntVar(&w.puts, "puts", w.puts, "puts per second in the state writing")
	f.IntVar(&w.value, "value", w.value, "length of each value, in `BYTES`")
	f.Uint64Var(&w.seed, "seed", w.seed, "seed of keys, values and choices")
	f.StringVar(&w.plot, "plot", "", "also write a chart for each store as SVG and PNG into `DIR`")
	f.StringVar(&w.dir, "dir", "", "create the stores in a new directory in `DIR`, and remove it afterwards "+
		"(default: the directory for temporary files)")
	f.BoolVar(&w.json, "json", false, jsonHelp)
	return c
}

func (w *growth) check() error {
	all := []error{
		w.keys.atLeast("--keys", fewestKeys), w.budgets.atLeast("--budget", leastMemory),
		checkNames("--kind", w.kinds, []string{"auto", "bloom", "ribbon"}), checkNames("--state", w.states, allStates),
	}
	if !slices.IsSorted(w.keys) {
		all = append(all, fmt.Errorf("--keys %s: want rising numbers", w.keys.String()))
	}
	for flag, n := range map[string]int{"--lookups": w.lookups - fewestKeys, "--puts": w.puts - 1, "--value": w.value} {
		if n < 0 {
			all = append(all, fmt.Errorf("%s: too small", flag))
		}
	}
	return errors.Join(all...)
}

func (w *growth) run(ctx context.Context, command string) (err error) {
	dir, err := os.MkdirTemp(w.dir, tempPattern)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := newGrowthReport(w, command)
	w.report = r
	for _, kind := range w.kinds {
		for _, budget := range w.budgets {
			if err == nil {
				err = w.grow(ctx, filepath.Join(dir, "store"), kind, int64(budget)<<20)
				err = errors.Join(err, os.RemoveAll(filepath.Join(dir, "store")))
			}
		}
	}
	if len(r.Rows) == 0 {
		return err
	}
	if err != nil {
		r.Stopped = stopped(err, len(r.Rows), len(w.kinds)*len(w.budgets)*len(w.keys)*len(w.states))
	}
	ctx = context.WithoutCancel(ctx) // an interrupt stops the measurements only
	if w.plot != "" {
		err = errors.Join(err, save.Charts(ctx, w.plot, r.charts()))
	}
	return errors.Join(err, show(w.Streams, w.json, r))
}

// grow fills one store and measures it at each size.
func (w *growth) grow(ctx context.Context, dir, kind string, budget int64) (err error) {
	job := growthJob{
		Dir: dir, Value: w.value, Seed: w.seed, Budget: budget, Kind: kind, Lookups: w.lookups,
	}
	store, err := own.Open(dir, job.options())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for _, n := range w.keys {
		what := fmt.Sprintf("%s, %d MiB, %s keys: ", kind, budget>>20, countName(n))
		if err := w.load(ctx, store, job.Keys, n, what+"load"); err != nil {
			return err
		}
		job.Keys = n
		for _, compact := range []bool{false, true} {
			if states := w.statesOf(compact); len(states) > 0 {
				if err := w.measureCopy(ctx, store, job, compact, states, what); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// statesOf returns the states to measure in a compacted copy of a store, or in another one, in an order in which each
// leaves the store as the next one wants it: the writer changes it.
func (w *growth) statesOf(compacted bool) (of []string) {
	for _, s := range allStates {
		if compacted == (s != loadedState) && slices.Contains(w.states, s) {
			of = append(of, s)
		}
	}
	return of
}

// measureCopy measures states of a copy of a store.
func (w *growth) measureCopy(
	ctx context.Context, store *own.Store, job growthJob, compact bool, states []string, what string,
) error {
	job.Dir += "-copy"
	bar := w.Progress(what+"copy", -1, false)
	bar.Set(0, -1)
	files, err := copyOf(ctx, store, job, compact)
	bar.End()
	if err != nil {
		return err
	}
	quarter := fmt.Sprintf("%s of %s, %d MiB, from ", quarterState, job.Kind, job.Budget>>20)
	for _, state := range states {
		if state == quarterState && strings.Contains(w.report.Skipped, quarter) {
			continue
		}
		bar := w.Progress(what+state, -1, false)
		bar.Set(0, -1)
		row, err := w.measure(ctx, job, files, state)
		bar.End()
		if err != nil && state == quarterState && ctx.Err() == nil {
			w.report.Skipped = paragraphs(w.report.Skipped,
				fmt.Sprintf("%s%s keys on is left out: %v", quarter, countName(job.Keys), err))
			continue
		}
		if err != nil {
			return err
		}
		w.report.add(row)
		if !w.json {
			if err := w.report.table.Print(w.Out); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(job.Dir)
}

// measure measures a state of a store in a process of its own.
func (w *growth) measure(ctx context.Context, job growthJob, files []string, state string) (row grown, err error) {
	row = grown{Kind: job.Kind, Budget: job.Budget, Keys: job.Keys, State: state}
	for _, name := range files {
		n, err := remember(name)
		if err != nil {
			return row, err
		}
		row.FileBytes += n
	}
	job.Unmapped = state == unmappedState
	if state == writingState {
		job.Puts = w.puts
	}
	if state != quarterState {
		return row, cli.Again(ctx, []string{measureName}, job, &row.measured)
	}
	job.Lookups = max(fewestKeys, job.Lookups/5) // most wait for the disk
	return row, job.inQuarter(ctx, files, row.FileBytes, &row.measured)
}

// load puts pairs from..to-1 of the set into a store. Random keys are in no order.
func (w *growth) load(ctx context.Context, store *own.Store, from, to int, what string) error {
	set, err := workload.NewGenerated(workload.Random, to, w.seed, w.value)
	if err != nil {
		return err
	}
	bar := w.Progress(what, int64(to), false)
	defer bar.End()
	return put(ctx, store, set, func(i int) int { return i }, from, to, bar)
}

// copyOf makes a copy of a store in the directory of a job, compacts it if it shall, and returns its tables.
func copyOf(ctx context.Context, store *own.Store, job growthJob, compact bool) ([]string, error) {
	err := errors.Join(store.Flush(ctx), store.Settle(ctx), store.Checkpoint(ctx, job.Dir))
	if err == nil && compact {
		var c *own.Store
		if c, err = own.Open(job.Dir, job.options()); err == nil {
			err = errors.Join(c.Compact(ctx), c.Settle(ctx), c.Close())
		}
	}
	if err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(job.Dir, "*.sst"))
}

// remember makes the system have a file in memory, and returns its size.
func remember(name string) (int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(io.Discard, f)
	return n, errors.Join(err, f.Close())
}

// The states in which a store is measured.
const (
	loadedState   = "loaded"
	idleState     = "idle"
	unmappedState = "unmapped"
	quarterState  = "quarter"
	writingState  = "writing"
)

var allStates = []string{loadedState, idleState, unmappedState, quarterState, writingState}

// counts is a flag for a list of numbers, separated by commas. A number may end in k, M or G for a factor of a
// thousand, a million or a thousand million.
type counts []int

var countUnits = []struct {
	suffix string
	size   int
}{{"G", 1_000_000_000}, {"M", 1_000_000}, {"k", 1000}}

// String returns the shortest form of the counts.
func (c *counts) String() string {
	names := make([]string, len(*c))
	for i, n := range *c {
		names[i] = countName(n)
	}
	return strings.Join(names, ",")
}

func countName(n int) string {
	for _, unit := range countUnits {
		if n >= unit.size && n%unit.size == 0 {
			return strconv.Itoa(n/unit.size) + unit.suffix
		}
	}
	return strconv.Itoa(n)
}

// Type returns the name of the value in the help text.
func (c *counts) Type() string { return "LIST" }

// Set replaces the counts.
func (c *counts) Set(list string) error {
	*c = nil
	for name := range strings.SplitSeq(list, ",") {
		digits, size := strings.TrimSpace(name), 1
		for _, unit := range countUnits {
			if cut, ok := strings.CutSuffix(digits, unit.suffix); ok {
				digits, size = cut, unit.size
				break
			}
		}
		n, err := strconv.ParseUint(digits, 10, 31)
		if err != nil || n == 0 || n*uint64(size) > mostPairs {
			return fmt.Errorf("%q: want numbers from 1 to %s, as in 10000 or 250k or 5M", name, countName(mostPairs))
		}
		*c = append(*c, int(n)*size)
	}
	return nil
}

// atLeast returns an error that names the flag if a count is below least.
func (c counts) atLeast(flag string, least int) error {
	if n := slices.Min(c); n < least {
		return fmt.Errorf("%s %s: want at least %d", flag, countName(n), least)
	}
	return nil
}

// mostPairs is the largest count. A floor has as many filter bits as a store, and is built in memory.
const mostPairs = 2_000_000_000
