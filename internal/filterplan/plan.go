// Package filterplan shares one number out to the filters of a tree: the rate of wasted reads that a store promises, or
// the memory that its filters may take. It is pure: it knows levels and numbers of keys, and no table.
package filterplan

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

const bottom = manifest.NumLevels - 1

// A Plan divides the promised rate of the whole tree among its runs. Each run of a level gets the rate of the level,
// and the rates of all runs that the tree may have never add up to more than the promise, however full the levels are.
// The last level, which holds most keys, gets most of the rate, and each level above gets a fraction of it, because the
// same bits buy more there (Dayan, Athanassoulis, Idreos, "Monkey: Optimal Navigable Key-Value Store", SIGMOD 2017). A
// rate depends on the level alone, so the filter of a table is right for as long as the table stays.
type Plan struct {
	FPR    float64 // of the whole tree
	Levels [manifest.NumLevels]Level
}

// A Level is the part of a plan for the runs of one level.
type Level struct {
	Rate   float64           // the highest rate that each run of the level may have
	Params bloomblock.Params // of the filters built for it
}

// A Planner makes plans.
type Planner struct {
	Ratio  int // size of a level divided by the size of the level above
	Kind   Kind
	Memory int64 // bytes for filters; 0 if a rate is promised instead
	Short  bool  // filters that keep the promise would not fit in memory with room to spare
}

// Plan returns the plan for a promised rate. The error matches bloomblock.ErrRate if filters can't reach it.
func (f Planner) Plan(fpr float64) (*Plan, error) {
	p := &Plan{FPR: fpr}
	if fpr >= 1 {
		for l := range p.Levels {
			p.Levels[l].Rate = 1
		}
		return p, nil
	}
	step := 1 / float64(f.Ratio)
	// 0.95 of the promise for levels 1 to last, as a geometric series, and a twentieth for level 0.
	share := 0.95 * (1 - step) * fpr
	short := 0.0 // what levels got beyond their share because filters can't do better
	for l := bottom; l >= 1; l-- {
		short += p.divide(l, share, 1)
		share *= step
	}
	short += p.divide(0, fpr/20, Level0Runs)
	last := &p.Levels[bottom]
	if last.Rate -= short; last.Rate < bloomblock.BestRate {
		return nil, fmt.Errorf(
			"option FilterFPR: %g is out of reach with a level ratio of %d, the best is about %.1g: %w",
			fpr, f.Ratio, (Level0Runs+bottom)*bloomblock.BestRate/0.95, bloomblock.ErrRate)
	}
	for l := range p.Levels {
		if err := f.build(p, l); err != nil {
			return nil, fmt.Errorf("option FilterFPR: %g: level %d: %w", fpr, l, err)
		}
	}
	return p, nil
}

// divide divides the share of a level among its runs. It returns how much more they get because filters can't do
// better.
func (p *Plan) divide(level int, share float64, runs int) (more float64) {
	perRun := share / float64(runs)
	rate := max(perRun, bloomblock.BestRate)
	p.Levels[level].Rate = rate
	return (rate - perRun) * float64(runs)
}

// build chooses the units of a level's filters. A table that moves down keeps its filter: its first unit alone meets
// the rate of the last level, and its first two that of a level about half way, so that a move drops whole units from
// memory. Where memory is short, less of a filter may be in memory than it has: then the rate of the last level is
// split over several units as well, which lose less when they are folded or left out than one unit does. A Ribbon
// unit loses nothing: it is reduced column by column.
func (f Planner) build(p *Plan, level int) (err error) {
	at := &p.Levels[level]
	last := p.Levels[bottom].Rate
	short := f.Short || f.Memory > 0
	ribbon := (f.Kind == Ribbon || f.Kind == Auto && short) && last >= bloomblock.BestRibbonRate
	split := short && !ribbon
	if split && level == bottom {
		units := min(max(int(-math.Log2(at.Rate)), 1), bloomblock.MaxUnits)
		at.Params, err = bloomblock.ParamsSplit(units, at.Rate)
		at.Params = at.Params.SideBySide() // so that one page of the file answers where memory is far too short
		return err
	}
	var rates []float64 // of the first unit, the first two, and so on
	if split && last < 0.25 {
		rates = append(rates, math.Sqrt(last))
	}
	rates = append(rates, last)
	if half := p.between(level); half > 0 && !split {
		rates = append(rates, half)
	}
	if level < bottom {
		rates = append(rates, at.Rate)
	}
	if ribbon {
		at.Params, err = bloomblock.ParamsRibbon(rates...)
	} else {
		at.Params, err = bloomblock.ParamsNested(rates...)
	}
	if errors.Is(err, bloomblock.ErrRate) { // no single unit can make one of the steps: then units as they fit best
		at.Params, err = bloomblock.ParamsFor(at.Rate)
	}
	return err
}

// between returns the rate of the level that is nearest, in bits, to half way between the rate of a level and the last
// one; 0 if no level lies between them.
func (p *Plan) between(level int) (rate float64) {
	low, high := p.Levels[level].Rate, p.Levels[bottom].Rate
	off := math.Inf(1)
	for m := level + 1; m < bottom; m++ {
		if r := p.Levels[m].Rate; low < r && r < high {
			if d := math.Abs(math.Log(r * r / (low * high))); d < off {
				rate, off = r, d
			}
		}
	}
	return rate
}

// sameRate is the relative difference below which two rates count as equal: processors round differently.
const sameRate = 1e-9

// has reports whether the plan builds filters of the given rate for the level or one above it: tables move down and
// never up. Other plans, kinds and divisions into units have other rates, since a rate is a product of the rates of
// units.
func (p *Plan) has(level int, rate float64) bool {
	return slices.ContainsFunc(p.Levels[:level+1], func(l Level) bool {
		return math.Abs(rate/l.Params.Rate()-1) < sameRate
	})
}
