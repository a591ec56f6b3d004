package bloomkv

import (
	"fmt"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

// bottom is the number of the last level.
const bottom = manifest.NumLevels - 1

// filters returns the options that filters depend on, as the manifest keeps them.
func (o *Options) filters() manifest.Filters {
	return manifest.Filters{
		FPR: o.FilterFPR, Memory: uint64(o.FilterMemory), Kind: uint8(o.FilterKind), //nolint:gosec // not negative
		Ratio: uint32(o.LevelRatio), Prefix: o.FilterPrefix.String(), //nolint:gosec // at most 100
	}
}

// planner returns the planner of the filters of a store with these options.
func (o *Options) planner() filterplan.Planner {
	f := filterplan.Planner{
		Ratio: o.LevelRatio, Ribbon: o.FilterKind == FilterRibbon, Memory: o.FilterMemory,
	}
	policy := o.policy()
	for l := range f.Runs {
		f.Runs[l] = policy.MaxRuns(l)
	}
	return f
}

// A PlannedLevel is the promise of the filters of a level, and their size.
type PlannedLevel struct {
	Level      int               `json:"level"`
	Keys       uint64            `json:"keys"`
	FPR        float64           `json:"promised"`     // upper bound for each run of the level
	Predicted  float64           `json:"predicted"`    // rate of filters built for that bound
	BitsPerKey float64           `json:"bits_per_key"` // of filters with many keys
	Bytes      uint64            `json:"bytes"`        // of the filters in memory
	Units      []bloomblock.Unit `json:"units"`
	Ribbon     bool              `json:"ribbon"` // the first unit is a Ribbon unit
}

// PlanFilters returns the size of the filters of a tree at rest with the given number of keys. Such a tree has one
// run on each of the given number of levels, 1 to 6. Each level is full and Options.LevelRatio times as large as the
// one above. Level 0, which holds the newest flushed data, is not among them. PlanFilters uses the options FilterFPR,
// FilterMemory, FilterKind and LevelRatio; nil options are the defaults. fpr is the rate of the whole tree: with
// FilterMemory, the best one that fits. Errors are those of Open for these options, and an error if the number of
// levels is not 1 to 6. PlanFilters opens no store.
func PlanFilters(keys uint64, levels int, o *Options) (fpr float64, plan []PlannedLevel, err error) {
	opts, err := planOptions(o)
	if err != nil {
		return 0, nil, err
	}
	return plannedLevels(opts.planner().AtRest(opts.FilterFPR, keys, levels))
}

// PlanTree returns the size of the filters of a tree with the given numbers of keys on its levels, starting with
// level 0, as if all its tables had been written with these options and stayed on their levels. The plan has every
// level of a store. With FilterMemory, filters are built and loaded as a store does it: the memory is divided as if
// the keys of level 0 were in the last level, and units that then do not fit are left out one by one, from the last
// level upwards. In that case the figures of a level are means, and its Units are those that all its filters have.
// The rate is at least the sum of the rates of all levels with keys. PlanTree uses the options of PlanFilters and
// returns the same errors, and an error if there are more levels than a store has.
func PlanTree(keys []uint64, o *Options) (fpr float64, plan []PlannedLevel, err error) {
	opts, err := planOptions(o)
	if err != nil {
		return 0, nil, err
	}
	return plannedLevels(opts.planner().Tree(opts.FilterFPR, keys))
}

func plannedLevels(fpr float64, levels []filterplan.Figures, err error) (float64, []PlannedLevel, error) {
	if err != nil {
		return 0, nil, fmt.Errorf("bloomkv: %w", err)
	}
	plan := make([]PlannedLevel, len(levels))
	for i, l := range levels {
		plan[i] = PlannedLevel(l)
	}
	return fpr, plan, nil
}

// planOptions returns the options of o that a plan depends on, checked, and with defaults.
func planOptions(o *Options) (Options, error) {
	var opts Options
	if o != nil {
		opts = Options{
			FilterFPR: o.FilterFPR, FilterMemory: o.FilterMemory, FilterKind: o.FilterKind, LevelRatio: o.LevelRatio,
		}
	}
	opts.MemoryBudget, opts.MemtableSize = maxMemory, minMemtable
	opts = opts.withDefaults()
	if err := opts.check(); err != nil {
		return opts, fmt.Errorf("bloomkv: %w", err)
	}
	return opts, nil
}
