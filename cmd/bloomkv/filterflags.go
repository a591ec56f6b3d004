package main

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs"
)

// writeFlags are the options for filters that a command which writes may set. What is not set is as the store was last written with.
type writeFlags struct {
	of     *cobra.Command
	rate   float64
	ribbon bool
	prefix bloomkv.PrefixRule
	seed   uint64
}

func (w *writeFlags) add(c *cobra.Command) {
	w.of = c
	c.Flags().Float64Var(&w.rate, "fpr", 0.01, "promised filter `RATE` of tables written now: wasted reads per absent lookup, over the whole tree; 1 is no filters;\nwithout it, and the next two, they are as the store was written last")
	c.Flags().BoolVar(&w.ribbon, "ribbon", false, "build filters of tables written now as Ribbon filters: three tenths smaller, slower to build and to ask")
	c.Flags().TextVar(&w.prefix, "filter-prefix", bloomkv.PrefixRule{},
		"give tables written now a second filter, of keys' prefixes by `RULE`: the first N bytes, len:N, or all up to the Nth separator C, sep:C:N")
	c.Flags().Uint64Var(&w.seed, "filter-seed", 0, "of a new store, the `SEED` of its filters, to get the same filters again; 0 is a random one,\nfor which nobody can choose keys that waste reads")
}

func (w *writeFlags) open(dir string, o bloomkv.Options) (*bloomkv.DB, error) {
	o, err := w.options(dir, o)
	if err != nil {
		return nil, err
	}
	return bloomkv.Open(dir, &o)
}

// options is o with the options for filters that flags and the manifest of the store in dir say.
func (w *writeFlags) options(dir string, o bloomkv.Options) (bloomkv.Options, error) {
	if !(w.rate > 0) { // 0 in Options would mean the default
		return o, fmt.Errorf("--fpr %v, want more than 0, at most 1", w.rate)
	}
	if err := storeDir(dir); err != nil {
		return o, err
	}
	o.FilterFPR, o.FilterPrefix, o.FilterSeed = w.rate, w.prefix, w.seed
	if w.ribbon {
		o.FilterKind = bloomkv.RibbonFilter
	}
	return w.kept(dir, o), nil
}

// kept is o with the options for filters that a store was last written with, as far as no flag says otherwise.
func (w *writeFlags) kept(dir string, o bloomkv.Options) bloomkv.Options {
	if s, err := manifest.Load(vfs.OS, dir); err == nil && s.Filters != nil { // else Open says what is wrong, or makes a store
		if kept := w.keep(s.Filters, o); canPlan(&kept) {
			return kept
		}
	}
	return o
}

// changed says whether a flag was given; without a command none was.
func (w *writeFlags) changed(name string) bool { return w.of != nil && w.of.Flags().Changed(name) }

// keep is o with what a store was written with, as far as no flag says otherwise.
func (w *writeFlags) keep(f *manifest.Filters, o bloomkv.Options) bloomkv.Options {
	o.LevelRatio = int(f.Ratio)
	if !w.changed("fpr") {
		o.FilterFPR, o.FilterMemory = f.FPR, int64(min(f.Memory, math.MaxInt64/2))
	}
	if o.FilterMemory > usualMemory/2 {
		o.MemoryBudget = 2 * o.FilterMemory
	}
	if !w.changed("ribbon") {
		o.FilterKind = bloomkv.FilterKind(f.Kind)
	}
	if !w.changed("filter-prefix") {
		_ = o.FilterPrefix.UnmarshalText([]byte(f.Prefix)) // a rule of a later version is not kept
	}
	return o
}

// usualMemory is Options.MemoryBudget by default, in bytes.
const usualMemory = 64 << 20

// canPlan says whether filters can be planned by o: what a store was written with may be of a later version, or of a larger machine.
func canPlan(o *bloomkv.Options) bool {
	_, _, err := bloomkv.PlanFilters(1, 1, o)
	return err == nil
}
