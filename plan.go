package bloomkv

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

const bottom = manifest.NumLevels - 1

// A filterPlan shares the promised rate of the whole tree out to its runs: each run of a level gets the level's rate, and
// the rates of all runs that there can be never add up to more than the promise, however full the levels are. The last
// level, which holds most keys, gets most of it; each level above gets a fraction, as the same bits buy more there (Dayan,
// Athanassoulis, Idreos, "Monkey: Optimal Navigable Key-Value Store", SIGMOD 2017). The rates depend on the level alone,
// so that a table's filter is right for as long as the table stays.
type filterPlan [manifest.NumLevels]struct {
	rate   float64           // that each run of the level may have at most
	params bloomblock.Params // of the filters built for it
}

// planFilters shares out fpr for levels that grow by ratio.
func planFilters(fpr float64, ratio int, kind FilterKind) (p filterPlan, err error) {
	if fpr >= 1 {
		for l := range p {
			p[l].rate = 1
		}
		return p, nil
	}
	step := 1 / float64(ratio)
	// 0.95 of the promise over the levels 1 to last, as a geometric series; a twentieth over the runs of level 0.
	rate := 0.95 * (1 - step) * fpr
	short := 0.0 // what levels got beyond their share since filters cannot do better
	for l := bottom; l >= 1; l-- {
		p[l].rate = max(rate, bloomblock.BestRate)
		short += p[l].rate - rate
		rate *= step
	}
	perRun := fpr / 20 / stopRuns
	p[0].rate = max(perRun, bloomblock.BestRate)
	short += (p[0].rate - perRun) * stopRuns
	p[bottom].rate -= short
	if p[bottom].rate < bloomblock.BestRate {
		return p, fmt.Errorf("option FilterFPR: %g is out of reach with a level ratio of %d, the best is about %.1g: %w",
			fpr, ratio, (manifest.NumLevels-1+stopRuns)*bloomblock.BestRate/0.95, bloomblock.ErrRate)
	}
	// A table that moves down keeps its filter: its first unit alone meets the last level's rate, its first two that of a
	// level about half way, so that a move drops whole units from memory.
	nested := bloomblock.ParamsNested
	if kind == RibbonFilter && p[bottom].rate >= bloomblock.BestRibbonRate {
		nested = bloomblock.ParamsRibbon
	}
	for l := range p {
		rates := []float64{p[bottom].rate}
		if l < bottom {
			if half := p.between(l); half > 0 {
				rates = append(rates, half)
			}
			rates = append(rates, p[l].rate)
		}
		p[l].params, err = nested(rates...)
		if errors.Is(err, bloomblock.ErrRate) { // a step that no single unit can make: units as they fit best
			p[l].params, err = bloomblock.ParamsFor(p[l].rate)
		}
		if err != nil {
			return p, fmt.Errorf("option FilterFPR: %g: level %d: %w", fpr, l, err)
		}
	}
	return p, nil
}

// between is the rate of the level nearest to half way, by bits, between a level's rate and the last one's; 0 if none is.
func (p *filterPlan) between(level int) (rate float64) {
	low, high := p[level].rate, p[bottom].rate
	off := math.Inf(1)
	for m := level + 1; m < bottom; m++ {
		if r := p[m].rate; low < r && r < high {
			if d := math.Abs(math.Log(r * r / (low * high))); d < off {
				rate, off = r, d
			}
		}
	}
	return rate
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
// full and Options.LevelRatio times as large as the one above. Of the options FilterFPR, FilterKind and LevelRatio count; nil
// options are the defaults. Level 0, which holds what was flushed last, comes on top. Errors are those of Open for its options, and
// where levels are not 1 to 6. It opens no store.
func PlanFilters(keys uint64, levels int, o *Options) ([]PlannedLevel, error) {
	opts := o.withDefaults()
	if err := opts.check(); err != nil {
		return nil, fmt.Errorf("bloomkv: %w", err)
	}
	if levels < 1 || levels > bottom {
		return nil, fmt.Errorf("bloomkv: %d levels, want 1 to %d", levels, bottom)
	}
	p, err := planFilters(opts.FilterFPR, opts.LevelRatio, opts.FilterKind)
	if err != nil {
		return nil, fmt.Errorf("bloomkv: %w", err)
	}
	var plan []PlannedLevel
	whole, part := 0.0, 1.0
	for range levels {
		whole += part
		part /= float64(opts.LevelRatio)
	}
	for part, l := 1.0, bottom; l > bottom-levels; l-- {
		at := &p[l]
		n := float64(keys) * part / whole
		plan = append(plan, PlannedLevel{
			Level: l, Keys: uint64(n + 0.5), FPR: at.rate, Predicted: at.params.Rate(), BitsPerKey: at.params.BitsPerKey(),
			Bytes: uint64(n*at.params.BitsPerKey()/8 + 0.5), Units: at.params.Units(), Ribbon: at.params.Ribbon(),
		})
		part /= float64(opts.LevelRatio)
	}
	slices.Reverse(plan)
	return plan, nil
}
