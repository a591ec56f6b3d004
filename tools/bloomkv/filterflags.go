package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/forecast"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/vfs"
)

// writeFlags are the options for filters, of commands that write many tables. The default, and that of all other
// commands, is what the store was last written with.
type writeFlags struct {
	of     *cobra.Command
	rate   float64
	memory float64 // MiB
	kind   string
	prefix bloomkv.PrefixRule
	seed   uint64
}

func (w *writeFlags) add(c *cobra.Command) {
	w.of = c
	f := c.Flags()
	f.Float64Var(&w.rate, "fpr", 0.01,
		"build new tables with filters for this `RATE` of wasted table reads per lookup of an absent key, over the "+
			"whole tree; 1 means no filters; without flags for filters, new tables have those that the store was last "+
			"written with, and in a new store those for 0.01")
	f.Float64Var(&w.memory, "filter-memory", 0,
		"instead of --fpr: memory for all filters in `MIB`; they get the best rate that fits, which rises as the "+
			"store grows (bloomkv plan --memory shows it)")
	f.StringVar(&w.kind, "filter-kind", filterplan.Auto.String(),
		"`KIND` of these filters: bloom; ribbon, three tenths smaller, but slower to build and to query; or auto, "+
			"which is ribbon where memory is short")
	f.TextVar(&w.prefix, "filter-prefix", bloomkv.PrefixRule{},
		"add to new tables a second filter for prefixes of keys by `RULE`: len:N, the first N bytes, or sep:C:N, "+
			"everything up to the Nth separator C")
	f.Uint64Var(&w.seed, "filter-seed", 0,
		"`SEED` of the filters of a new store, for reproducible filters; 0 chooses a random one, which protects "+
			"against chosen keys")
	f.Lookup("fpr").DefValue, f.Lookup("filter-kind").DefValue = "0", "" // not printed: the texts say when they apply
}

// openToWrite opens an existing store with the options for filters that it was last written with.
func openToWrite(ctx context.Context, dir string) (*bloomkv.DB, error) {
	return new(writeFlags).open(ctx, dir, bloomkv.Options{ErrorIfMissing: true})
}

func (w *writeFlags) open(ctx context.Context, dir string, o bloomkv.Options) (*bloomkv.DB, error) {
	o, err := w.options(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	return bloomkv.OpenContext(ctx, dir, &o)
}

// options returns o with the options for filters from the flags and from the manifest of the store in dir.
func (w *writeFlags) options(ctx context.Context, dir string, o bloomkv.Options) (bloomkv.Options, error) {
	if w.of == nil {
		return w.kept(ctx, dir, o), storeDir(dir)
	}
	switch {
	case !(w.rate > 0): // 0 in Options would mean the default
		return o, fmt.Errorf("--fpr %v, want more than 0, at most 1", w.rate)
	case w.changed("filter-memory") && w.changed("fpr"):
		return o, errors.New("--fpr and --filter-memory are given, want only one of them")
	case w.changed("filter-memory") && !(w.memory >= leastMemory && w.memory <= mostMemory): // also NaN
		return o, fmt.Errorf("--filter-memory %v, want %v to %d", w.memory, leastMemory, mostMemory)
	}
	kind, ok := filterplan.ParseKind(w.kind)
	if !ok {
		return o, fmt.Errorf("--filter-kind %q, want auto, bloom or ribbon", w.kind)
	}
	if err := storeDir(dir); err != nil {
		return o, err
	}
	o.FilterKind, o.FilterFPR = bloomkv.FilterKind(kind), w.rate
	o.FilterPrefix, o.FilterSeed = w.prefix, w.seed
	if w.changed("filter-memory") {
		o.FilterFPR, o.FilterMemory = 0, int64(w.memory*(1<<20))
	}
	return w.kept(ctx, dir, o), nil
}

// kept returns o with the options for filters that a store was last written with, unless a flag overrides them, and
// without a MemoryBudget with one that is enough for their FilterMemory.
func (w *writeFlags) kept(ctx context.Context, dir string, o bloomkv.Options) bloomkv.Options {
	// else Open returns the error, or creates a store
	if s, err := manifest.Load(recovery.Until(ctx, vfs.OS), dir); err == nil && s.Filters != nil {
		if kept := w.keep(s.Filters, o); canPlan(&kept) {
			o = kept
		}
	}
	if o.MemoryBudget == 0 && o.FilterMemory > filterplan.DefaultBudget/2 {
		o.MemoryBudget = 2 * o.FilterMemory
	}
	return o
}

// changed reports whether a flag was given. Without a command none was.
func (w *writeFlags) changed(name string) bool { return w.of != nil && w.of.Flags().Changed(name) }

// keep returns o with the options in f, unless a flag overrides them.
func (w *writeFlags) keep(f *manifest.Filters, o bloomkv.Options) bloomkv.Options {
	o.LevelRatio = int(f.Ratio)
	if !w.changed("fpr") && !w.changed("filter-memory") {
		o.FilterFPR, o.FilterMemory = f.FPR, int64(min(f.Memory, math.MaxInt64/2))
	}
	if !w.changed("filter-kind") {
		o.FilterKind = bloomkv.FilterKind(f.Kind)
	}
	if !w.changed("filter-prefix") {
		_ = o.FilterPrefix.UnmarshalText([]byte(f.Prefix)) // a rule of a later version is ignored
	}
	return o
}

// leastBudget is the smallest Options.MemoryBudget in MiB.
const leastBudget = filterplan.MinBudget >> 20

// budgetUsage describes --budget of commands that show what a store promises.
const budgetUsage = "the MemoryBudget in `MIB` that the store is opened with, for what it promises; 0 means 64, or " +
	"enough for the --filter-memory that the store was last written with"

// checkBudget checks the --budget of such a command.
func checkBudget(mib float64) error {
	if mib != 0 && !(mib >= leastBudget && mib <= mostMemory) { // also NaN
		return fmt.Errorf("--budget %v, want %d to %d", mib, leastBudget, mostMemory)
	}
	return nil
}

// leastMemory and mostMemory are the limits of --filter-memory in MiB; the least is that of Options.FilterMemory.
const (
	leastMemory = 1.0 / 16
	mostMemory  = 1 << 20
)

// canPlan reports whether filters can be planned with o. The options of a store may be from a later version, or from
// a larger machine.
func canPlan(o *bloomkv.Options) bool {
	f := filterplan.Options{
		FPR: o.FilterFPR, Memory: o.FilterMemory, Kind: filterplan.Kind(o.FilterKind), Ratio: o.LevelRatio,
	}
	_, _, err := forecast.AtRest(f, 1, 1)
	return err == nil
}
