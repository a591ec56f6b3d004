// Command compare measures bloomkv beside Pebble and goleveldb, on the workload that bench runs.
//
// Each engine runs in a process of its own, and the engines take turns for some rounds, so that what the machine does
// meanwhile meets all of them: what counts is their ratios. It is a module of its own, so that other stores stay out of
// the library's.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
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

	"github.com/bloomkv/bloomkv/internal/workload"
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

// config is what the flags say.
type config struct {
	keys, value int
	shape       workload.Shape
	rounds      int
	engines     []string
	dir         string
	out         string
	json        bool
	profiles    string
	worker      string // "engine/round": measure this one alone, in dir
}

func parse(args []string, stderr io.Writer) (config, error) {
	var c config
	var names string
	f := flag.NewFlagSet("compare", flag.ContinueOnError)
	f.SetOutput(io.Discard) // an error is printed once, by main
	f.IntVar(&c.keys, "keys", 1_000_000, "pairs in a store")
	f.IntVar(&c.value, "value", 100, "bytes of a value")
	f.TextVar(&c.shape, "shape", workload.Random, "what keys look like, a `NAME`: random (16 bytes), prefixed (36, the first 20 the same), decimal or bigendian")
	f.IntVar(&c.rounds, "rounds", 3, "turns of each engine")
	f.StringVar(&names, "engines", strings.Join(engineNames(), ","), "which, separated by commas")
	f.StringVar(&c.dir, "dir", "", "make the stores below `DIR` (default: the system's temporary directory); they are removed")
	f.StringVar(&c.out, "out", "", "write the table to `FILE` too")
	f.BoolVar(&c.json, "json", false, "print a JSON object instead of the table")
	f.StringVar(&c.profiles, "cpuprofile", "", "write processor profiles of the phases to `DIR`, those of the last round")
	f.StringVar(&c.worker, "worker", "", "for the program itself: one engine and round, in --dir")
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
		return c, fmt.Errorf("%q: want flags only", f.Arg(0))
	}
	if c.rounds < 1 {
		return c, fmt.Errorf("--rounds %d: want at least 1", c.rounds)
	}
	c.engines = strings.Split(names, ",")
	for _, name := range c.engines {
		if !slices.Contains(engineNames(), name) {
			return c, fmt.Errorf("--engines: no engine %q, want some of %s", name, strings.Join(engineNames(), ","))
		}
	}
	return c, nil
}

// set is the same in all rounds and engines; the order in which it is used is a round's own.
func (c config) set() (workload.Set, error) {
	return workload.NewGenerated(c.shape, c.keys, 1, workload.Values{Bytes: c.value})
}

// run is the whole program. Figures go to stdout, progress to stderr where that is a terminal.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if c.worker != "" {
		name, number, _ := strings.Cut(c.worker, "/")
		round, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("--worker: %w", err)
		}
		rows, err := measure(ctx, c, name, c.dir, round, c.profiles)
		if err != nil {
			return err
		}
		return json.NewEncoder(stdout).Encode(rows)
	}
	if _, err := c.set(); err != nil { // before any process is started
		return err
	}
	rows, err := c.takeTurns(ctx, newBar(stderr, c.rounds*len(c.engines)))
	if err != nil {
		return err
	}
	r := newReport(c, args, rows)
	var page bytes.Buffer
	r.print(&page)
	if c.out != "" {
		if err := os.WriteFile(c.out, page.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if c.json {
		page.Reset()
		out := json.NewEncoder(&page)
		out.SetIndent("", "  ")
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	if _, err := stdout.Write(page.Bytes()); err != nil {
		return err
	}
	for _, row := range rows {
		if row.Figures.Wrong > 0 {
			return fmt.Errorf("%s, %s: %d %w; the first: %s", row.Column, row.Figures.Phase, row.Figures.Wrong, errWrong, row.Figures.FirstWrong)
		}
	}
	return nil
}

// takeTurns runs each engine once in each round; another one begins each time.
func (c config) takeTurns(ctx context.Context, bar *progressbar.ProgressBar) ([]row, error) {
	var rows []row
	for round := range c.rounds {
		for turn := range c.engines {
			name := c.engines[(round+turn)%len(c.engines)]
			if bar != nil {
				bar.Describe(fmt.Sprintf("round %d, %s", round+1, name))
			}
			more, err := c.process(ctx, name, round)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			rows = append(rows, more...)
			if bar != nil {
				_ = bar.Add(1) // a bar that can't be drawn is no error of the work
			}
		}
	}
	return rows, nil
}

// process measures one engine for one round in a process and a directory of its own.
func (c config) process(ctx context.Context, name string, round int) (rows []row, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(c.dir, "compare-"+name+"-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	args := []string{
		"--worker", name + "/" + strconv.Itoa(round), "--dir", filepath.Join(dir, "store"), "--shape", c.shape.String(),
		"--keys", strconv.Itoa(c.keys), "--value", strconv.Itoa(c.value),
	}
	if round == c.rounds-1 && c.profiles != "" {
		args = append(args, "--cpuprofile", c.profiles)
	}
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = &errs
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // the directory is removed when it has ended
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), workerVariable+"=1")
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.Join(context.Cause(ctx), err, errors.New(strings.TrimSpace(errs.String())))
	}
	err = json.Unmarshal(out, &rows)
	return rows, err
}

// workerVariable is set in the environment of workers: by it the test binary knows that it shall be the program.
const workerVariable = "BLOOMKV_COMPARE_WORKER"

// newBar is a bar on a terminal, and nil elsewhere.
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
