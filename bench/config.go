package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/workload"
)

// config is what the flags of the main run say.
type config struct {
	data

	choice  choice
	workers int
	fpr     float64
	filters string // on, off or both
	loads   []string
	phases  []string
	dir     string
	shown
}

// data is what is stored, and in how much memory.
type data struct {
	keys, value int
	shape       workload.Shape
	memory      int64 // MiB
	seed        uint64
}

// shown is how the figures are given.
type shown struct {
	json bool
	html string // file
	plot string // directory
}

const (
	mostKeys   = 1_000_000
	mostBytes  = 256 << 20 // of pairs, unless --keys says more
	maxWorkers = 16
	maxMemory  = math.MaxInt64 >> 20
	batchPairs = 100 // of loads in batches
	manyKeys   = 64  // of a GetMany
)

// flags are those of all that make stores. Without a text for it there is no flag for the number of keys.
func (d *data) flags(cmd *cobra.Command, keys, memory string) {
	f := cmd.Flags()
	if keys != "" {
		f.IntVar(&d.keys, "keys", d.keys, keys)
	}
	f.IntVar(&d.value, "value", d.value, "length of a value, in `BYTES`")
	f.TextVar(&d.shape, "shape", d.shape, "what keys look like, a `NAME`: random (16 bytes), prefixed (36, the first 20 the same), decimal or bigendian")
	f.Int64Var(&d.memory, "memory", d.memory, memory)
	f.Uint64Var(&d.seed, "seed", d.seed, "of keys, values and choices")
}

func (s *shown) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&s.json, "json", false, "print a JSON object")
	f.StringVar(&s.html, "html", "", "write a page with the tables and pictures, which needs nothing else, to `FILE`")
	f.StringVar(&s.plot, "plot", "", "write the pictures as SVG and PNG into `DIR`")
}

func (c *config) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	c.data = data{value: 100, shape: workload.Random, memory: 1024, seed: 1}
	c.data.flags(cmd, "pairs in the store; 0: a million, or as many as make 256 MiB where values are large",
		"memory budget of a store in `MIB`; the default holds all of a million pairs")
	f.TextVar(&c.choice, "choice", choice(workload.Shuffled), "which keys are looked up: shuffled (each once), uniform or zipf, a `NAME`")
	f.IntVar(&c.workers, "workers", 1, "goroutines that a phase runs on, 1 to 16, where it can have several")
	f.Float64Var(&c.fpr, "fpr", 0.01, "promised wasted reads for a lookup of an absent key, with the filters on")
	f.StringVar(&c.filters, "filters", "both", "`WHICH`: on, off or both, which is two stores, the same work, side by side")
	f.StringSliceVar(&c.loads, "load", nil, "ways to load, a `LIST` of "+strings.Join(loadNames(), ", ")+"; the store of the first is the one that is read (default: all, or random with --phases)")
	f.StringSliceVar(&c.phases, "phases", []string{"all"}, "what to measure, a `LIST` of "+strings.Join(phaseNames(), ", "))
	f.StringVar(&c.dir, "dir", "", "make the stores in `DIR`, which is new or empty, and keep them (default: a temporary directory)")
	c.shown.flags(cmd)
}

// check says what is wrong with the flags, and puts the defaults that depend on others.
func (c *config) check() error {
	if err := errors.Join(c.data.check(), c.checkFiles()); err != nil {
		return err
	}
	if c.keys == 0 {
		c.keys = max(1, min(mostKeys, mostBytes/(c.shape.KeyBytes()+c.value)))
	}
	if c.workers < 1 || c.workers > maxWorkers {
		return fmt.Errorf("--workers %d: want 1 to %d", c.workers, maxWorkers)
	}
	if !(c.fpr > 0 && c.fpr < 1) {
		return fmt.Errorf("--fpr %v: want more than 0 and less than 1; --filters off is without any", c.fpr)
	}
	if !slices.Contains([]string{"on", "off", "both"}, c.filters) {
		return fmt.Errorf("--filters %q: want on, off or both", c.filters)
	}
	all := slices.Equal(c.phases, []string{"all"})
	if all {
		c.phases = phaseNames()
	}
	if err := known("--phases", c.phases, phaseNames()); err != nil {
		return err
	}
	switch {
	case len(c.loads) > 0:
		return known("--load", c.loads, loadNames())
	case all:
		c.loads = loadNames()
	case c.readsMain():
		c.loads = loadNames()[:1]
	}
	return nil
}

func (d *data) check() error {
	if d.keys < 0 {
		return fmt.Errorf("--keys %d: want none below 0", d.keys)
	}
	if d.value < 0 || d.value > bloomkv.MaxValueSize {
		return fmt.Errorf("--value %d: want 0 to %d bytes", d.value, bloomkv.MaxValueSize)
	}
	if d.memory < 8 || d.memory > maxMemory {
		return fmt.Errorf("--memory %d: want at least 8 MiB", d.memory)
	}
	return nil
}

// known says which of the names given in a flag there is not, or which is there twice.
func known(flag string, given, names []string) error {
	for i, name := range given {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%s: no %q; there are %s", flag, name, strings.Join(names, ", "))
		}
		if slices.Contains(given[:i], name) {
			return fmt.Errorf("%s: %q is there twice", flag, name)
		}
	}
	if len(given) == 0 {
		return fmt.Errorf("%s: empty; there are %s", flag, strings.Join(names, ", "))
	}
	return nil
}

func (d *data) set() (*workload.Generated, error) {
	return workload.NewGenerated(d.shape, d.keys, d.seed, workload.Values{Bytes: d.value})
}

// memtable is 64 MiB, as in bench/compare, or what the budget allows.
func (d *data) memtable() int64 { return min(64<<20, d.memory<<20/4) }

// options are those of bench/compare. A rate of 1 is without filters.
func (d *data) options(fpr float64) *bloomkv.Options {
	return &bloomkv.Options{
		Durability: bloomkv.NoSync, Compression: bloomkv.NoCompression,
		FilterFPR: fpr, MemoryBudget: d.memory << 20, MemtableSize: d.memtable(),
	}
}

// choice is a workload.Choice as a flag.
type choice workload.Choice

var choices = map[string]workload.Choice{"shuffled": workload.Shuffled, "uniform": workload.Uniform, "zipf": workload.Zipfian}

// MarshalText is the name.
func (c choice) MarshalText() ([]byte, error) {
	for name, value := range choices {
		if value == workload.Choice(c) {
			return []byte(name), nil
		}
	}
	return nil, fmt.Errorf("no %v", workload.Choice(c))
}

// UnmarshalText sets the choice of that name.
func (c *choice) UnmarshalText(name []byte) error {
	value, ok := choices[string(name)]
	if !ok {
		return fmt.Errorf("no choice %q; there are shuffled, uniform and zipf", name)
	}
	*c = choice(value)
	return nil
}

func mainCommand(s streams, command string) *cobra.Command {
	var c config
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure bloomkv: time, and what is touched, with filters and without",
		Long: `bench loads generated pairs, looks up keys that are there and keys that are not, in the tree as the load left it, after
overwriting everything and after a compaction; then seeks, a scan, reading and writing mixed, and two programs' inner
loops: check-and-insert and a queue. It does so in a store with filters and in one without, and prints both side by side:
times, and per lookup what the store touched by its own counters and by the operating system's. Every answer is checked.

The other commands measure one thing each: sweep how the costs change with the filters' error rate, the number of runs and the
number of keys; growth what an absent lookup costs beside its floor in large stores; scale several goroutines.

Exit status:
  0    all is well
  2    a wrong answer, wrong usage, or any other error
  130  interrupted; the stores were closed and the temporary ones removed`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(); err != nil {
				return hint(cmd, err)
			}
			return c.run(cmd.Context(), s, command)
		},
	}
	c.flags(cmd)
	return cmd
}
