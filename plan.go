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

// planner makes the filter plans of a store.
func (o *Options) planner() filterplan.Planner {
	f := filterplan.Planner{
		Ratio: o.LevelRatio, Ribbon: o.FilterKind == RibbonFilter, Memory: o.FilterMemory,
	}
	policy := o.policy()
	for l := range f.Runs {
		f.Runs[l] = policy.MaxRuns(l)
	}
	return f
}

// A PlannedLevel is what the filters of a level promise, and what they take.
type PlannedLevel struct {
	Level      int               `json:"level"`
	Keys       uint64            `json:"keys"`
	FPR        float64           `json:"promised"`     // the most that the plan gives each run of the level
	Predicted  float64           `json:"predicted"`    // rate of the filters that are built for it
	BitsPerKey float64           `json:"bits_per_key"` // of filters of many keys
	Bytes      uint64            `json:"bytes"`        // of the filters in memory
	Units      []bloomblock.Unit `json:"units"`
	Ribbon     bool              `json:"ribbon"` // the first unit is a Ribbon unit of its rate
}

// PlanFilters returns what filters take in a tree at rest with the given number of keys: one run on each of the given number
// of levels, 1 to 6, each full and Options.LevelRatio times as large as the one above. Level 0, which holds what was flushed
// last, comes on top. It uses the options FilterFPR, FilterMemory, FilterKind and LevelRatio; nil options are the defaults. fpr
// is the rate of the whole tree; with FilterMemory it is the best that fits. The errors are those of Open for these options,
// and one for a number of levels that is not 1 to 6. PlanFilters opens no store.
func PlanFilters(keys uint64, levels int, o *Options) (fpr float64, plan []PlannedLevel, err error) {
	opts, err := planOptions(o)
	if err != nil {
		return 0, nil, err
	}
	return plannedLevels(opts.planner().AtRest(opts.FilterFPR, keys, levels))
}

// PlanTree returns what filters take in a tree with the given numbers of keys on its levels, from level 0 on, as if all its
// tables had been written with these options and had stayed where they are. The plan has every level of a store. With
// FilterMemory filters are built and loaded as a store does: level 0 counts as the last level when they are built, and what
// then does not fit is left out unit by unit, from the last level upwards; the figures of a level are means, and its Units those
// that none of its filters goes without. The rate is at least what all levels with keys waste together. The options that count
// are those of PlanFilters, and so are the errors; more levels than a store has are an error too.
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

// planOptions returns the options of o that a plan depends on, checked, with defaults.
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
