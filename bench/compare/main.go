// Command compare compares bloomkv with Pebble, goleveldb, Badger, bbolt and, if it was built with it, RocksDB, by the
// workload of bench.
//
// Each engine runs in a process of its own for each state of a store. In each state the engines take turns, for several
// rounds, so that disturbances on the machine affect all of them: the results are ratios. It is a separate module, so
// that the library does not depend on other stores.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/bloomkv/bloomkv/tools/outfile"
	"github.com/bloomkv/bloomkv/tools/workload"
)

// errWrong means that an engine gave a wrong answer.
var errWrong = errors.New("wrong answers")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(2)
	}
}

func parse(args []string, stderr io.Writer) (config, error) {
	var c config
	var names, rows string
	var ycsb bool
	f := flag.NewFlagSet("compare", flag.ContinueOnError)
	f.SetOutput(io.Discard) // main prints errors, once
	f.IntVar(&c.keys, "keys", 1_000_000, "pairs in a store")
	f.IntVar(&c.value, "value", 100, "length of each value, in `BYTES`")
	f.TextVar(&c.shape, "shape",
		workload.Decimal, "form of the keys, a `NAME`: decimal (16 digits), random (16 bytes), "+
			"prefixed (36 bytes, the first 20 the same) or bigendian (8 bytes)")
	f.IntVar(&c.rounds, "rounds", 3, "number of rounds in which the engines take turns")
	f.StringVar(&names, "engines", strings.Join(engineNames(), ","), "engines to compare, a `LIST`")
	f.StringVar(&rows, "rows", "", "rows to measure, a `LIST` of "+strings.Join(rowNames(true), ",")+
		", or of their beginnings and * (default: all except those of YCSB)")
	f.BoolVar(&ycsb, "ycsb", false, "also measure the rows of YCSB A to F")
	f.IntVar(&c.puts, "puts", 5_000_000, "puts in the rows puts-*; a tenth of them in bbolt")
	f.DurationVar(&c.busy, "busy", 10*time.Second, "time of the rows busy-*, in which readers and a writer run")
	f.BoolVar(&c.small, "small-cache", false, "use the small cache in all states that read")
	f.IntVar(&c.cache, "cache", 0, "size of the small cache in `MIB` (default 7 % of keys and values, at least 4)")
	f.BoolVar(&c.ordered, "ordered", false, "load the store of most states in key order, which takes a fraction of "+
		"the time")
	f.StringVar(&c.dir, "dir", "", "create the stores below `DIR`, and remove them afterwards "+
		"(default: the directory for temporary files)")
	f.StringVar(&c.out, "out", "",
		"also write the table to `FILE`, and the JSON object to a file next to it that ends in .json")
	f.BoolVar(&c.json, "json", false, "print a JSON object instead of the table")
	f.StringVar(&c.profiles, "cpuprofile", "", "write processor profiles of the timed rows of the last round to `DIR`")
	f.BoolVar(&c.filters, "filters", false, "compare only the engines' filters, with --keys keys, without stores")
	f.StringVar(&c.worker, "worker", "", "internal: measure one engine, state and round, in --dir")
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		f.SetOutput(stderr)
		fmt.Fprintln(stderr, "Usage of compare:")
		f.PrintDefaults()
	}
	if err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("%q: want flags and no arguments", f.Arg(0))
	}
	if c.puts < 10 || c.busy < time.Millisecond {
		return c, fmt.Errorf("--puts %d, --busy %v: want at least 10 and 1ms", c.puts, c.busy)
	}
	if c.cache != 0 && c.cache < 4 {
		return c, fmt.Errorf("--cache %d: want at least 4", c.cache)
	}
	if set, err := c.setOf(c.shape, 1); c.ordered && (err != nil || !set.Sorted()) {
		return c, errors.Join(err, fmt.Errorf("--ordered: keys of --shape %s are in no order", c.shape))
	}
	if c.rounds < 1 {
		return c, fmt.Errorf("--rounds %d: want at least 1", c.rounds)
	}
	c.engines = strings.Split(names, ",")
	for _, name := range c.engines {
		if !slices.Contains(engineNames(), name) {
			return c, fmt.Errorf("--engines: unknown engine %q, want some of %s",
				name, strings.Join(engineNames(), ","))
		}
	}
	wanted := rowNames(ycsb)
	if rows != "" {
		wanted = strings.Split(rows, ",")
		if ycsb {
			wanted = append(wanted, rowNames(true)[len(rowNames(false)):]...)
		}
	}
	c.rows = make(map[string]bool)
	for _, name := range wanted {
		some := false
		for _, row := range rowNames(true) {
			start, ok := strings.CutSuffix(name, "*")
			if row == name || ok && strings.HasPrefix(row, start) {
				c.rows[row], some = true, true
			}
		}
		if !some {
			return c, fmt.Errorf("--rows: unknown row %q, want some of %s", name, strings.Join(rowNames(true), ","))
		}
	}
	return c, nil
}

// jsonFile returns the name of the file for the JSON object.
func (c config) jsonFile() string { return strings.TrimSuffix(c.out, filepath.Ext(c.out)) + ".json" }

// run runs the program. Results are printed to stdout, progress to stderr if that is a terminal.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if c.worker != "" {
		o, err := c.work(ctx)
		if err != nil {
			return err
		}
		return json.NewEncoder(stdout).Encode(o)
	}
	if c.filters {
		return compareFilters(stdout, c.keys)
	}
	if _, err := c.setOf(c.shape, c.keys); err != nil { // before any process is started
		return err
	}
	if c.out != "" {
		if err := errors.Join(outfile.Check(c.out), outfile.Check(c.jsonFile())); err != nil {
			return fmt.Errorf("--out %w", err)
		}
	}
	begin := time.Now()
	all, err := c.takeTurns(ctx, newBar(stderr, c.rounds*len(c.engines)*len(wantedStates(c))))
	if err != nil {
		return err
	}
	r := newReport(c, args, all, time.Since(begin))
	var page, object bytes.Buffer
	r.print(&page)
	out := json.NewEncoder(&object)
	out.SetIndent("", "  ")
	if err := out.Encode(r); err != nil {
		return err
	}
	if c.out != "" {
		if err := errors.Join(outfile.Write(ctx, c.out, page.Bytes()),
			outfile.Write(ctx, c.jsonFile(), object.Bytes())); err != nil {
			return err
		}
	}
	if c.json {
		page = object
	}
	if _, err := stdout.Write(page.Bytes()); err != nil {
		return err
	}
	if all.Wrong > 0 {
		return fmt.Errorf("%d %w; the first: %s", all.Wrong, errWrong, all.FirstWrong)
	}
	return nil
}

// work runs a worker: one engine in one state.
func (c config) work(ctx context.Context) (outcome, error) {
	parts := strings.Split(c.worker, "/")
	if len(parts) != 3 {
		return outcome{}, fmt.Errorf("--worker %q: want engine/state/round", c.worker)
	}
	round, err := strconv.Atoi(parts[2])
	if err != nil {
		return outcome{}, fmt.Errorf("--worker: %w", err)
	}
	i := slices.IndexFunc(states, func(s state) bool { return s.name == parts[1] })
	if i < 0 {
		return outcome{}, fmt.Errorf("--worker: unknown state %q", parts[1])
	}
	return measureState(ctx, c, parts[0], states[i], round)
}

// takeTurns runs each engine once in each state and round. The engine that starts changes with each turn.
func (c config) takeTurns(ctx context.Context, bar *progressbar.ProgressBar) (all outcome, err error) {
	turn := 0
	for round := range c.rounds {
		dir, err := os.MkdirTemp(c.dir, "compare-")
		if err != nil {
			return all, err
		}
		err = c.runRound(ctx, round, dir, &turn, func(engine, state string, o outcome) {
			all.Results = append(all.Results, o.Results...)
			all.Wrong += o.Wrong
			all.FirstWrong = cmp.Or(all.FirstWrong, o.FirstWrong)
			if bar != nil {
				bar.Describe(fmt.Sprintf("round %d, %s, %s", round+1, state, engine))
				_ = bar.Add(1) // the work does not fail if a bar cannot be drawn
			}
		})
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			return all, err
		}
	}
	return all, nil
}

// runRound runs all engines in all states, in stores below dir, and calls done after each. turn counts the states.
func (c config) runRound(ctx context.Context, round int, dir string, turn *int,
	done func(engine, state string, o outcome),
) error {
	for _, s := range wantedStates(c) {
		for i := range c.engines {
			name := c.engines[(*turn+i)%len(c.engines)]
			store := filepath.Join(dir, name)
			if s.alone {
				store += "-alone"
			}
			o, err := c.process(ctx, name, s, round, store)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", name, s.name, err)
			}
			if s.alone {
				err = os.RemoveAll(store)
			} else {
				err = syncFiles(store)
			}
			if err != nil {
				return err
			}
			done(name, s.name, o)
		}
		*turn++
	}
	return nil
}

// process measures one engine in one state in a process of its own.
func (c config) process(ctx context.Context, name string, s state, round int, dir string) (o outcome, err error) {
	program, err := os.Executable()
	if err != nil {
		return o, err
	}
	args := []string{
		"--worker", fmt.Sprintf("%s/%s/%d", name, s.name, round), "--dir", dir, "--shape", c.shape.String(),
		"--keys", strconv.Itoa(c.keys), "--value", strconv.Itoa(c.value), "--rows",
		strings.Join(slices.Sorted(maps.Keys(c.rows)), ","), "--puts", strconv.Itoa(c.puts), "--busy", c.busy.String(),
		"--small-cache=" + strconv.FormatBool(c.small), "--ordered=" + strconv.FormatBool(c.ordered),
		"--cache", strconv.Itoa(c.cache),
	}
	if round == c.rounds-1 && c.profiles != "" {
		args = append(args, "--cpuprofile", c.profiles)
	}
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = &errs
	// the worker ends cleanly, so that its directory can be removed
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), workerVariable+"=1")
	out, err := cmd.Output()
	if err != nil {
		return o, errors.Join(context.Cause(ctx), err, errors.New(strings.TrimSpace(errs.String())))
	}
	err = json.Unmarshal(out, &o)
	return o, err
}

// workerVariable is set in the environment of workers, so that the test binary runs the program instead of the tests.
const workerVariable = "BLOOMKV_COMPARE_WORKER"

// newBar returns a progress bar on a terminal, and nil elsewhere.
func newBar(w io.Writer, steps int) *progressbar.ProgressBar {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(w),
		progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(30),
		progressbar.OptionClearOnFinish(),
	)
}
