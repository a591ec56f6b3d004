// Command bench measures one bloomkv store: a load in random order, lookups of absent and present keys, and a scan, on
// generated keys. Every answer is checked.
//
// It runs the phases of internal/workload, as bench/compare does with other stores beside this one.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bench/machine"
	"github.com/bloomkv/bloomkv/internal/workload"
	"github.com/bloomkv/bloomkv/internal/workload/own"
)

// errWrong means that the store gave a wrong answer.
var errWrong = errors.New("wrong answers")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr, isTerminal(os.Stderr))
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
}

func isTerminal(f *os.File) bool {
	return term.IsTerminal(int(f.Fd()))
}

// config is what the flags say.
type config struct {
	keys, value int
	shape       workload.Shape
	fpr         float64
	memory      int64 // bytes
	seed        uint64
	dir         string
	json        bool
}

func parse(args []string, stderr io.Writer) (config, error) {
	var c config
	var memory int64
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(io.Discard) // an error is printed once, by main
	f.IntVar(&c.keys, "keys", 1_000_000, "pairs in the store")
	f.IntVar(&c.value, "value", 100, "bytes of a value")
	f.TextVar(&c.shape, "shape", workload.Random, "what keys look like, a `NAME`: random (16 bytes), prefixed (36, the first 20 the same), decimal or bigendian")
	f.Float64Var(&c.fpr, "fpr", 0.01, "promised wasted reads for a lookup of an absent key; 1: no filters")
	f.Int64Var(&memory, "memory", 1024, "memory budget in MiB; the default holds all of a million pairs")
	f.Uint64Var(&c.seed, "seed", 1, "of keys, values and choices")
	f.StringVar(&c.dir, "dir", "", "make the store in `DIR`, which is new or empty, and keep it (default: a temporary directory)")
	f.BoolVar(&c.json, "json", false, "print a JSON object")
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		f.SetOutput(stderr)
		fmt.Fprintln(stderr, "Usage of bench:")
		f.PrintDefaults()
	}
	if err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("%q: want flags only", f.Arg(0))
	}
	if memory < 8 || memory > math.MaxInt64>>20 {
		return c, fmt.Errorf("--memory %d: want at least 8 MiB", memory)
	}
	c.memory = memory << 20
	return c, nil
}

// run is the whole program. Figures go to stdout, progress to stderr where that is a terminal.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, terminal bool) (err error) {
	c, err := parse(args, stderr)
	if err != nil {
		return err
	}
	set, err := workload.NewGenerated(c.shape, c.keys, c.seed, workload.Values{Bytes: c.value})
	if err != nil {
		return err
	}
	dir, remove, err := storeDir(c.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	db, err := bloomkv.Open(dir, c.options())
	if err != nil {
		return err
	}
	store := &own.Store{DB: db}
	r := report{
		Machine: machine.Here(), Command: strings.Join(append([]string{"go run ./bench"}, args...), " "),
		Keys: c.keys, ValueBytes: c.value, Shape: c.shape.String(), FilterFPR: c.fpr, MemoryBudget: c.memory, MemtableSize: c.memtable(),
	}
	for _, p := range phases(c.seed) {
		row, err := measure(ctx, store, set, p, newProgress(stderr, terminal, p.Name))
		if err != nil {
			return errors.Join(err, db.Close())
		}
		r.Phases = append(r.Phases, row)
	}
	r.fill(db.Metrics())
	if err := db.Close(); err != nil {
		return err
	}
	if c.json {
		out := json.NewEncoder(stdout)
		out.SetIndent("", "  ")
		err = out.Encode(r)
	} else {
		err = r.print(stdout)
	}
	if wrong, first := r.wrong(); err == nil && wrong > 0 {
		err = fmt.Errorf("%d %w; the first: %s", wrong, errWrong, first)
	}
	return err
}

// memtable is 64 MiB, as in bench/compare, or what the budget allows.
func (c config) memtable() int64 { return min(64<<20, c.memory/4) }

// options are those of bench/compare.
func (c config) options() *bloomkv.Options {
	return &bloomkv.Options{
		Durability: bloomkv.NoSync, Compression: bloomkv.NoCompression,
		FilterFPR: c.fpr, MemoryBudget: c.memory, MemtableSize: c.memtable(),
	}
}

// storeDir is where the store is made, and what removes it.
func storeDir(name string) (dir string, remove func() error, err error) {
	if name == "" {
		dir, err = os.MkdirTemp("", "bloomkv-bench-")
		return dir, func() error { return os.RemoveAll(dir) }, err
	}
	entries, err := os.ReadDir(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", nil, err
	}
	if len(entries) > 0 {
		return "", nil, fmt.Errorf("--dir: %s is not empty", name)
	}
	return name, func() error { return nil }, nil
}

// phases are what a run measures, in order. The lookups before the compaction see the tree as a load leaves it; the pass
// called warm brings every block into the cache.
func phases(seed uint64) []workload.Phase {
	return []workload.Phase{
		{Name: "load", Kind: workload.Load, Seed: seed},
		{Name: "flush", Kind: workload.Flush},
		{Name: "settle", Kind: workload.Settle},
		{Name: "absent uncompacted", Kind: workload.Absent, Seed: seed + 1},
		{Name: "compact", Kind: workload.Compact},
		{Name: "settle again", Kind: workload.Settle},
		{Name: "warm", Kind: workload.Present, Seed: seed + 2},
		{Name: "absent", Kind: workload.Absent, Seed: seed + 3},
		{Name: "present", Kind: workload.Present, Seed: seed + 4},
		{Name: "scan", Kind: workload.Scan},
	}
}

// measure runs one phase, and counts what its lookups cost.
func measure(ctx context.Context, s *own.Store, set workload.Set, p workload.Phase, bar progress) (phase, error) {
	defer bar.end()
	before := s.DB.Metrics().Lookups
	f, err := workload.Run(ctx, s, set, p, bar.set)
	if err != nil {
		return phase{}, err
	}
	row := phase{Figures: f, Kind: p.Kind.String()}
	row.charge(before, s.DB.Metrics().Lookups)
	return row, nil
}
