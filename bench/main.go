// Command bench measures bloomkv: how long lookups, writes and scans take and what they read, with filters and without,
// side by side. Every answer is checked.
//
// Without arguments it runs the main benchmark. "bench sweep" shows how read amplification changes with the filters'
// error rate, the number of runs and the number of keys, and "bench growth" what lookups cost as a store outgrows its
// memory. The phases are those of tools/workload, which bench/compare runs on other stores too. README.md explains the
// output.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/machine"
	"github.com/bloomkv/bloomkv/tools/workload"
	"github.com/bloomkv/bloomkv/tools/workload/own"
)

func main() {
	s := cli.Standard()
	os.Exit(run(cli.Context(), os.Args[1:], &s))
}

// run runs the program and returns its exit code.
func run(ctx context.Context, args []string, s *cli.Streams) int {
	return s.Main(ctx, "bench", rootCommand(s, args), args)
}

// rootCommand returns the tree of commands. The reports quote the arguments.
func rootCommand(s *cli.Streams, args []string) *cobra.Command {
	command := strings.Join(append([]string{"go run ./bench"}, args...), " ")
	root := mainCommand(s, command)
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(sweepCommand(s, command), growthCommand(s, command), measureCommand(s))
	return root
}

// config holds the flags of the main run, where it prints, and its report.
type config struct {
	data
	*cli.Streams

	choice  string
	workers int
	fpr     float64
	filters string // on, off or both
	loads   []string
	phases  []string
	dir     string
	all     bool
	json    bool

	shown  []string // the phases in the first table
	report *report
}

const (
	mostKeys   = 1_000_000
	mostBytes  = 256 << 20 // bytes of keys and values, unless --keys asks for more
	maxWorkers = 16
)

func mainCommand(s *cli.Streams, command string) *cobra.Command {
	c := config{Streams: s}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure bloomkv: times and read amplification, with filters and without",
		Long: `bench creates a store with filters and a store without, does the same work in both, and prints what
lookups cost in each. --all measures more and prints all figures side by side: times, and what each lookup
read by the counters of the store and of the operating system. Every answer is checked. The default memory
caches about 7 % of the data, so that reads from files show. After an interrupt or an error, the figures are
those of the phases that ended until then.

The work with --all: load generated pairs; look up present and absent keys right after the load, after overwriting
every pair, and after a compaction; seek and scan; mix reads and writes; and run the inner loops of two
common programs, check-and-insert and a queue.

The commands measure one thing each:
  sweep   how read amplification changes with the filters' error rate, the number of runs and the number of keys
  growth  what lookups cost as a store outgrows its memory

Exit status:
  0    success
  2    a wrong answer, wrong usage, or any other error
  130  interrupted; the stores were closed and the temporary ones removed`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(); err != nil {
				return cli.Hint(cmd, err)
			}
			return c.run(cmd.Context(), command)
		},
	}
	c.flags(cmd)
	return cmd
}

func (c *config) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	c.data = data{value: 100, shape: workload.Random, seed: 1}
	c.data.flags(cmd, "pairs in the store; 0 means a million, or fewer large ones: 256 MiB of keys and values",
		"memory budget of a store, in `MIB`; 0 means a cache of about 7 % of the data; 1024 holds a million pairs")
	f.StringVar(&c.choice, "choice", "shuffled",
		"order of the looked-up keys, a `NAME`: shuffled (each once), uniform or zipf")
	f.IntVar(&c.workers, "workers", 1, "goroutines in each phase that can use several, 1 to 16")
	f.Float64Var(&c.fpr, "fpr", 0.01, fprHelp)
	f.StringVar(&c.filters, "filters", "both", "`WHICH` stores to create: with filters (on), without (off) or both")
	f.StringSliceVar(&c.loads, "load", nil, "ways to load, a `LIST` of "+strings.Join(loadNames(), ", ")+
		"; lookups use the store of the first (default: random, or all if all phases are measured)")
	f.StringSliceVar(&c.phases, "phases", nil, "phases to measure, a `LIST` of "+strings.Join(phaseNames(), ", ")+
		" (default: the lookups, or all with --all or --json)")
	f.StringVar(&c.dir, "dir", "", "create the stores in `DIR`, which must be new or empty, and keep them "+
		"(default: a temporary directory)")
	f.BoolVar(&c.all, "all", false, "measure all phases, and print all figures and lines for benchstat")
	f.BoolVar(&c.json, "json", false, jsonHelp)
}

// check reports wrong flags, and sets the defaults that depend on other flags.
func (c *config) check() error {
	small := c.memory == 0
	if small {
		c.memory = leastMemory
	}
	if err := c.data.check(); err != nil {
		return err
	}
	if c.keys == 0 {
		c.keys = max(1, min(mostKeys, mostBytes/(c.shape.KeyBytes()+c.value)))
	}
	if small {
		c.memory = c.smallMemory()
	}
	if _, ok := choices[c.choice]; !ok {
		return fmt.Errorf("--choice %q: want shuffled, uniform or zipf", c.choice)
	}
	if c.workers < 1 || c.workers > maxWorkers {
		return fmt.Errorf("--workers %d: want 1 to %d", c.workers, maxWorkers)
	}
	if err := checkFPR(c.fpr); err != nil {
		return fmt.Errorf("%w; for no filters use --filters off", err)
	}
	if !slices.Contains([]string{"on", "off", "both"}, c.filters) {
		return fmt.Errorf("--filters %q: want on, off or both", c.filters)
	}
	everything := len(c.phases) == 0 && (c.all || c.json)
	c.shown = c.phases
	switch {
	case everything:
		c.phases, c.shown = phaseNames(), answerPhases
	case len(c.phases) == 0:
		c.phases, c.shown = answerPhases, answerPhases
	}
	if err := checkNames("--phases", c.phases, phaseNames()); err != nil {
		return err
	}
	for _, name := range c.loads {
		c.shown = append(slices.Clone(c.shown), "load "+name)
	}
	switch {
	case len(c.loads) > 0:
		return checkNames("--load", c.loads, loadNames())
	case everything:
		c.loads = loadNames()
	case c.readsMain():
		c.loads = loadNames()[:1]
	}
	return nil
}

// checkNames reports a name in a flag that is unknown or given twice.
func checkNames(flag string, given, names []string) error {
	for i, name := range given {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%s: unknown name %q; want some of %s", flag, name, strings.Join(names, ", "))
		}
		if slices.Contains(given[:i], name) {
			return fmt.Errorf("%s: %q is given twice", flag, name)
		}
	}
	if len(given) == 0 {
		return fmt.Errorf("%s: empty; want some of %s", flag, strings.Join(names, ", "))
	}
	return nil
}

// run runs each part in both kinds of store, one after the other and never at once, so that the memory of the process
// is the memory of one store, and prints the report. If it fails, the report is of the phases that ended until then.
func (c *config) run(ctx context.Context, command string) (err error) {
	parts, err := c.parts()
	if err != nil {
		return err
	}
	dir, remove, err := cli.Directory("--dir", c.dir, tempPattern)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	r := &report{
		Machine: machine.Here(), Command: command,
		Keys: c.keys, ValueBytes: c.value, Shape: c.shape.String(), Choice: c.choice,
		Workers: c.workers, Seed: c.seed,
		MemoryBudget: c.memory << 20, MemtableSize: c.memtable(), shown: c.shown, all: c.all,
	}
	if c.filters != "off" {
		r.Sides = append(r.Sides, side{Filters: "on", FilterFPR: c.fpr})
	}
	if c.filters != "on" {
		r.Sides = append(r.Sides, side{Filters: "off", FilterFPR: 1})
	}
	c.report = r
	if err = c.measure(ctx, parts, dir); err != nil {
		done, all := len(r.phases()), 0
		for _, p := range parts {
			all += len(r.Sides) * len(p.steps)
		}
		if done == 0 {
			return err
		}
		r.Stopped = stopped(err, done, all)
	}
	return errors.Join(err, show(c.Streams, c.json, r))
}

// measure measures all parts in both kinds of store.
func (c *config) measure(ctx context.Context, parts []part, dir string) error {
	for _, p := range parts {
		for i := range c.report.Sides {
			kind := &c.report.Sides[i]
			if err := c.part(ctx, kind, p, filepath.Join(dir, "filters-"+kind.Filters, p.name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// part creates a store, runs the phases of a part in it, and adds their figures to the side. A temporary store is
// removed at once, so that the next one has the disk to itself.
func (c *config) part(ctx context.Context, kind *side, p part, dir string) (err error) {
	debug.FreeOSMemory() // memory left over from the previous store must not be counted here
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if c.dir == "" {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	store, err := own.Open(dir, c.options(kind.FilterFPR))
	if err != nil {
		return err
	}
	pairs, err := c.use(ctx, kind, p, store)
	if err = errors.Join(err, store.Close()); err != nil || p.name != "main" {
		return err
	}
	kind.DiskBytes, err = diskBytes(dir) // after Close, which removes files that are no longer needed
	kind.SpaceAmplification = float64(kind.DiskBytes) / (float64(pairs) * float64(c.shape.KeyBytes()+c.value))
	return err
}

// use runs the phases of a part and returns the number of pairs in the store afterwards.
func (c *config) use(ctx context.Context, kind *side, p part, store *own.Store) (pairs int, err error) {
	var writes bloomkv.WriteMetrics
	pairs = p.set.Len()
	for _, phase := range p.steps {
		bar := c.Progress("filters "+kind.Filters+": "+phase.Name, -1, false)
		row, err := measure(ctx, store, p.set, phase, &writes, bar)
		bar.End()
		if err != nil {
			return 0, err
		}
		row.Part = p.name
		if phase.Kind == workload.Insert {
			pairs += row.Ops
		}
		kind.Phases = append(kind.Phases, row)
	}
	if p.name == "main" { // only the main part reports metrics
		err = errors.Join(store.Flush(ctx), store.Settle(ctx))
		kind.fill(store.Metrics(), writes, c.shape.KeyBytes()+c.value)
	}
	return pairs, err
}
