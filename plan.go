package bloomkv

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

const bottom = manifest.NumLevels - 1

// A filterPlan shares the promised rate of the whole tree out to its runs: each run of a level gets the level's rate, and
// the rates of all runs that there can be never add up to more than the promise, however full the levels are. The last
// level, which holds most keys, gets most of it; each level above gets a fraction, as the same bits buy more there (Dayan,
// Athanassoulis, Idreos, "Monkey: Optimal Navigable Key-Value Store", SIGMOD 2017). The rates depend on the level alone,
// so that a table's filter is right for as long as the table stays.
type filterPlan struct {
	fpr   float64 // of the whole tree
	level [manifest.NumLevels]levelPlan
}

type levelPlan struct {
	rate   float64           // that each run of the level may have at most
	params bloomblock.Params // of the filters built for it
}

// filterPlans are the plan by which filters are built and loaded, and those of which filters may be that stay as they are.
type filterPlans struct {
	now  *filterPlan
	good []*filterPlan // of these they stay
	fine []*filterPlan // of these too, but for a Compact
}

// A filterPlanner makes plans.
type filterPlanner struct {
	ratio  int // of a level's size to that of the one above
	kind   FilterKind
	memory int64 // for filters, in bytes; 0 where a rate is promised instead
}

// filters are the options that count for filters, as the manifest keeps them.
func (o *Options) filters() manifest.Filters {
	return manifest.Filters{
		FPR: o.FilterFPR, Memory: uint64(o.FilterMemory), Kind: uint8(o.FilterKind), //nolint:gosec // not negative
		Ratio: uint32(o.LevelRatio), Prefix: o.FilterPrefix.String(), //nolint:gosec // at most 100
	}
}

// planner makes the plans of a store.
func (o *Options) planner() filterPlanner {
	return filterPlanner{o.LevelRatio, o.FilterKind, o.FilterMemory}
}

// plan shares out fpr.
func (f filterPlanner) plan(fpr float64) (*filterPlan, error) {
	p := &filterPlan{fpr: fpr}
	if fpr >= 1 {
		for l := range p.level {
			p.level[l].rate = 1
		}
		return p, nil
	}
	step := 1 / float64(f.ratio)
	// 0.95 of the promise over the levels 1 to last, as a geometric series; a twentieth over the runs of level 0.
	rate := 0.95 * (1 - step) * fpr
	short := 0.0 // what levels got beyond their share since filters cannot do better
	for l := bottom; l >= 1; l-- {
		p.level[l].rate = max(rate, bloomblock.BestRate)
		short += p.level[l].rate - rate
		rate *= step
	}
	perRun := fpr / 20 / stopRuns
	p.level[0].rate = max(perRun, bloomblock.BestRate)
	short += (p.level[0].rate - perRun) * stopRuns
	last := &p.level[bottom]
	last.rate -= short
	if last.rate < bloomblock.BestRate {
		return nil, fmt.Errorf("option FilterFPR: %g is out of reach with a level ratio of %d, the best is about %.1g: %w",
			fpr, f.ratio, (manifest.NumLevels-1+stopRuns)*bloomblock.BestRate/0.95, bloomblock.ErrRate)
	}
	for l := range p.level {
		if err := f.build(p, l); err != nil {
			return nil, fmt.Errorf("option FilterFPR: %g: level %d: %w", fpr, l, err)
		}
	}
	return p, nil
}

// build chooses the units of a level's filters. A table that moves down keeps its filter: its first unit alone meets the last
// level's rate, its first two that of a level about half way, so that a move drops whole units from memory. Where memory is
// given, a table may also have to do with less of it as the tree grows: what the last level needs is more than one unit then. A
// Ribbon unit is not cut, as the parts would be no smaller than Bloom units.
func (f filterPlanner) build(p *filterPlan, level int) (err error) {
	at := &p.level[level]
	ribbon := f.kind == RibbonFilter && p.level[bottom].rate >= bloomblock.BestRibbonRate
	units := min(max(int(-math.Log2(at.rate)), 1), bloomblock.MaxUnits)
	last := p.level[bottom].rate
	var rates []float64 // of the first unit, the first two, and so on
	parts := f.memory > 0 && !ribbon
	if parts && level == bottom {
		at.params, err = bloomblock.ParamsSplit(units, at.rate)
		return err
	}
	if parts && last < 0.25 {
		rates = append(rates, math.Sqrt(last))
	}
	rates = append(rates, last)
	if half := p.between(level); half > 0 && !parts {
		rates = append(rates, half)
	}
	if level < bottom {
		rates = append(rates, at.rate)
	}
	if ribbon {
		at.params, err = bloomblock.ParamsRibbon(rates...)
	} else {
		at.params, err = bloomblock.ParamsNested(rates...)
	}
	if errors.Is(err, bloomblock.ErrRate) { // a step that no single unit can make: units as they fit best
		at.params, err = bloomblock.ParamsFor(at.rate)
	}
	return err
}

// between is the rate of the level nearest to half way, by bits, between a level's rate and the last one's; 0 if none is.
func (p *filterPlan) between(level int) (rate float64) {
	low, high := p.level[level].rate, p.level[bottom].rate
	off := math.Inf(1)
	for m := level + 1; m < bottom; m++ {
		if r := p.level[m].rate; low < r && r < high {
			if d := math.Abs(math.Log(r * r / (low * high))); d < off {
				rate, off = r, d
			}
		}
	}
	return rate
}

const (
	fprSteps = 4          // the rates that within tries, for each factor of two
	bestFPR  = 1.0 / 8192 // of them: what a store that is still small gets, however much memory there is
	allSteps = 13 * fprSteps
)

// at is the plan of one of the rates that within tries, from the highest on.
func (f filterPlanner) at(step int) *filterPlan {
	p, err := f.plan(math.Exp2(-float64(step+1) / fprSteps))
	if err != nil {
		panic(err) // broken logic: rates that are out of reach are far below
	}
	return p
}

// within is the step of the plan with the lowest rate whose filters take at most the planner's memory. Where none does it is the
// one with the highest, and fits is false.
func (f filterPlanner) within(bytes func(*filterPlan) int64) (step int, fits bool) {
	i := sort.Search(allSteps, func(i int) bool { return bytes(f.at(i)) > f.memory }) // the first step that does not fit
	return max(i-1, 0), i > 0
}

// near is the plans by which filters may have been built that are good enough beside the one of a step: of up to twice its rate, and
// of all rates below, which take more memory. For a Compact those below are only while all filters fit, that is, nothing was cut. Twice
// is more than the plan changes while a Compact brings levels together, so that it does not write its own tables anew.
func (f filterPlanner) near(step int, cut bool) (good, fine []*filterPlan) {
	for i := max(step-fprSteps, 0); i < allSteps; i++ {
		p := f.at(i)
		fine = append(fine, p)
		if i <= step || !cut {
			good = append(good, p)
		}
	}
	return good, fine
}

// tooLittle is the error of memory that is too little for that many keys.
func (f filterPlanner) tooLittle(keys uint64) error {
	p := f.at(0)
	least := float64(keys) * p.level[bottom].params.BitsPerKey() / 8
	return fmt.Errorf("option FilterMemory: %d, and filters of %d keys take %.0f or more, for a rate of %.2g: %w", f.memory, keys, math.Ceil(least),
		p.fpr, bloomblock.ErrRate)
}

// A PlannedLevel is what the filters of a level promise, and what they take.
type PlannedLevel struct {
	Level      int               `json:"level"`
	Keys       uint64            `json:"keys"`
	FPR        float64           `json:"promised"`     // share of the promise that each run of the level has at most
	Predicted  float64           `json:"predicted"`    // rate of the filters that are built for it
	BitsPerKey float64           `json:"bits_per_key"` // of filters of many keys
	Bytes      uint64            `json:"bytes"`        // of the filters in memory
	Units      []bloomblock.Unit `json:"units"`
	Ribbon     bool              `json:"ribbon"` // the first unit is a Ribbon unit of its rate
}

// PlanFilters tells what filters take in a tree of so many keys that is at rest: one run on each of so many levels, 1 to 6, each
// full and Options.LevelRatio times as large as the one above. Of the options FilterFPR, FilterMemory, FilterKind and LevelRatio
// count; nil options are the defaults. Level 0, which holds what was flushed last, comes on top. It returns the rate of the whole
// tree too, which with FilterMemory is the best that fits. Errors are those of Open for its options, and where levels are not 1
// to 6. It opens no store.
func PlanFilters(keys uint64, levels int, o *Options) (fpr float64, plan []PlannedLevel, err error) {
	opts, err := planOptions(o)
	if err != nil {
		return 0, nil, err
	}
	if levels < 1 || levels > bottom {
		return 0, nil, fmt.Errorf("bloomkv: %d levels, want 1 to %d", levels, bottom)
	}
	whole, part := 0.0, 1.0
	for range levels {
		whole += part
		part /= float64(opts.LevelRatio)
	}
	of := func(p *filterPlan) (plan []PlannedLevel) {
		part := float64(keys) / whole
		for l := bottom; l > bottom-levels; l-- {
			plan = append(plan, p.planned(l, part, p.level[l].params))
			part /= float64(opts.LevelRatio)
		}
		slices.Reverse(plan)
		return plan
	}
	f := opts.planner()
	if f.memory > 0 {
		step, fits := f.within(func(p *filterPlan) (sum int64) {
			for _, l := range of(p) {
				sum += int64(l.Bytes) //nolint:gosec // far below 2⁶³
			}
			return sum
		})
		if !fits {
			return 0, nil, fmt.Errorf("bloomkv: %w", f.tooLittle(keys))
		}
		p := f.at(step)
		return p.fpr, of(p), nil
	}
	p, err := f.plan(opts.FilterFPR)
	if err != nil {
		return 0, nil, fmt.Errorf("bloomkv: %w", err)
	}
	return p.fpr, of(p), nil
}

// PlanTree tells what filters take in a tree as it is: so many keys on each level, in all its runs together, from level 0 on, if all its
// tables were written with these options and stayed where they are. It returns a PlannedLevel for each level of a store, whether it
// has keys or not. With FilterMemory filters are built and loaded as a store does that has written them all: level 0 counts as the last
// level when they are built, and what then does not fit is left out unit by unit, from the last level upwards; a level's figures are
// means, and its Units those that not all of its filters go without. The rate is not below what all levels with keys waste together.
// The options that count, and errors, are those of PlanFilters; more levels than a store has are one, too.
func PlanTree(keys []uint64, o *Options) (fpr float64, plan []PlannedLevel, err error) {
	opts, err := planOptions(o)
	if err != nil {
		return 0, nil, err
	}
	if len(keys) > manifest.NumLevels {
		return 0, nil, fmt.Errorf("bloomkv: %d levels, a store has %d", len(keys), manifest.NumLevels)
	}
	var tree [manifest.NumLevels]float64
	whole := uint64(0)
	for l, n := range keys {
		tree[l] = float64(n)
		whole += n
	}
	f := opts.planner()
	if f.memory == 0 {
		p, err := f.plan(opts.FilterFPR)
		if err != nil {
			return 0, nil, fmt.Errorf("bloomkv: %w", err)
		}
		for l := range tree {
			plan = append(plan, p.planned(l, tree[l], p.level[l].params))
		}
		return p.fpr, plan, nil
	}
	step, fits := f.within(func(p *filterPlan) (sum int64) {
		for l, n := range keys {
			sum += p.level[buildLevel(l)].bytes(n, 0)
		}
		return sum
	})
	if !fits {
		return 0, nil, fmt.Errorf("bloomkv: %w", f.tooLittle(whole))
	}
	p := f.at(step)
	over := -f.memory
	for l := range tree {
		plan = append(plan, p.planned(l, tree[l], p.level[l].params))
		over += int64(plan[l].Bytes) //nolint:gosec // far below 2⁶³
	}
	wasted := 0.0
	for keep := bloomblock.MaxUnits - 1; keep >= 0; keep-- { // as cut does
		for l := bottom; l >= 0; l-- {
			if at := &plan[l]; over > 0 && len(at.Units) > keep {
				over -= at.cut(tree[l], p.level[l].params.Leading(keep), over)
			}
		}
	}
	for l := range plan {
		if plan[l].Keys > 0 {
			wasted += plan[l].Predicted
		}
	}
	return max(p.fpr, wasted), plan, nil
}

// cut leaves all but some units out of as many of the level's filters as gives over bytes back, or of all, and returns what it gave.
func (l *PlannedLevel) cut(keys float64, left bloomblock.Params, over int64) int64 {
	least := keys * left.BitsPerKey() / 8
	gain := float64(l.Bytes) - least
	share := min(float64(over)/max(gain, 1), 1)
	if share == 1 {
		l.Units, l.Ribbon = left.Units(), left.Ribbon()
	}
	l.Predicted += share * (left.Rate() - l.Predicted)
	l.BitsPerKey += share * (left.BitsPerKey() - l.BitsPerKey)
	l.Bytes -= uint64(share*gain + 0.5)
	return int64(math.Ceil(share * gain))
}

// planOptions are those of o that a plan depends on, checked, with defaults.
func planOptions(o *Options) (Options, error) {
	var opts Options
	if o != nil {
		opts = Options{FilterFPR: o.FilterFPR, FilterMemory: o.FilterMemory, FilterKind: o.FilterKind, LevelRatio: o.LevelRatio}
	}
	opts.MemoryBudget, opts.MemtableSize = maxMemory, minMemtable
	opts = opts.withDefaults()
	if err := opts.check(); err != nil {
		return opts, fmt.Errorf("bloomkv: %w", err)
	}
	return opts, nil
}

// planned is a level of so many keys whose filters have these units in memory.
func (p *filterPlan) planned(level int, keys float64, params bloomblock.Params) PlannedLevel {
	return PlannedLevel{
		Level: level, Keys: uint64(keys + 0.5), FPR: p.level[level].rate, Predicted: params.Rate(), BitsPerKey: params.BitsPerKey(),
		Bytes: uint64(keys*params.BitsPerKey()/8 + 0.5), Units: params.Units(), Ribbon: params.Ribbon(),
	}
}

// buildLevel is the level by whose filters memory is shared out when a plan is made to build by: what level 0 has soon lies in the last.
func buildLevel(level int) int {
	if level == 0 {
		return bottom
	}
	return level
}
