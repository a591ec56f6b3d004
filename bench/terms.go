package main

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/workload"
	"github.com/bloomkv/bloomkv/tools/workload/own"
)

const (
	promisedFPR = 0.01 // of the stores of floors, growth and scale: the default of the options
	fewestKeys  = 1000 // in a store; with fewer, rounds are too short for the clock
)

// terms are the flags that floors and scale share.
type terms struct {
	data
	*cli.Streams

	rounds int
	dir    string // "" is the system's directory for temporary files
	json   bool
}

const dirHelp = "create the stores in a new directory in `DIR`, and remove it afterwards " +
	"(default: the directory for temporary files)"

// newTerms returns the terms with their defaults.
func newTerms(s *cli.Streams) terms {
	return terms{Streams: s, data: data{value: 100, shape: workload.Random, memory: 1024, seed: 1}}
}

// flags adds the flags beyond those of the data.
func (t *terms) flags(c *cobra.Command, rounds int) {
	f := c.Flags()
	f.IntVar(&t.rounds, "rounds", rounds, "number of rounds in which the two sides take turns")
	f.StringVar(&t.dir, "dir", "", dirHelp)
	f.BoolVar(&t.json, "json", false, jsonHelp)
}

func (t *terms) check() error {
	if t.rounds < 1 {
		return fmt.Errorf("--rounds %d: want at least 1", t.rounds)
	}
	return t.data.check()
}

// bar returns a progress bar for an action on a store.
func (t *terms) bar(set workload.Set, what string) cli.Progress {
	return t.Progress(countName(set.Len())+" keys: "+what, -1, false)
}

// phase runs one phase with a progress bar.
func (t *terms) phase(ctx context.Context, store *own.Store, set workload.Set, p workload.Phase) (
	workload.Figures, error,
) {
	bar := t.bar(set, cmp.Or(p.Name, p.Kind.String()))
	defer bar.End()
	return workload.Run(ctx, store, set, p, bar.Set)
}

// newDir creates a directory and returns it with a function that removes it.
func (t *terms) newDir() (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp(t.dir, tempPattern)
	return dir, func() error { return os.RemoveAll(dir) }, err
}
