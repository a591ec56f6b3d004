package inspect

import (
	"math"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

// A promise is what filters of tables promise: those of one level that are alike.
type promise struct {
	level int
	rate  float64 // of all units, as the manifest has it
}

// mostPromises is how many of them are told apart: a plan has seven.
const mostPromises = 100

// planOf is the plan by which the filters of a version were built. No file has it; but the manifest has what each table's filter
// promises, the header of a filter what its first unit does, and the plan of a rate has few of each. Of all plans with a round rate (in
// two digits) and the usual ratio of levels, and of those with a rate of one digit and some other ratios, it is the first one, the
// default before all others and the rounder ones before the less round, that has the rates of most tables. Nil is none that has those
// of more than half, and of them one that was built for where it is or for level 0. FilterMemory leaves no such plan. Tables without a filter tell nothing, unless there are no others. first is the promised rate of the first unit of a table's filter, 0 where it is
// not known.
func planOf(v *manifest.Version, first func(t *manifest.Table) float64) *Plan {
	type like struct {
		tables int
		first  float64
	}
	promises, all, without := map[promise]like{}, 0, 0
	for level, t := range v.Tables() {
		switch {
		case t.Entries == 0:
			continue
		case t.FilterLen == 0:
			without++
			continue
		}
		all++
		of := promise{level, t.FilterRate}
		l, known := promises[of]
		switch {
		case !known && len(promises) == mostPromises:
			continue
		case !known:
			l.first = first(t)
		}
		l.tables++
		promises[of] = l
	}
	var best *Plan
	try := func(fpr float64, ribbon bool, ratio int) (done bool) {
		o := &bloomkv.Options{FilterFPR: fpr, LevelRatio: ratio}
		p := &Plan{FPR: fpr, Kind: "bloom", Ratio: ratio}
		if ribbon {
			o.FilterKind, p.Kind = bloomkv.RibbonFilter, "ribbon"
		}
		_, levels, err := bloomkv.PlanTree(nil, o)
		if err != nil { // out of reach
			return false
		}
		for _, l := range levels {
			p.Levels = append(p.Levels, PlanLevel{l.Level, l.FPR, l.Predicted, l.BitsPerKey})
		}
		direct := false
		for of, l := range promises {
			for level := range of.level + 1 { // a table may have moved down, and never moves up
				if levels[level].Predicted == of.rate && (l.first == 0 || isFirst(l.first, &levels[level], levels)) {
					p.Tables += l.tables
					direct = direct || level == of.level || level == 0
					break
				}
			}
		}
		p.Others = all - p.Tables
		if !direct {
			return false
		}
		if best == nil && 2*p.Tables > all || best != nil && p.Tables > best.Tables {
			best = p
		}
		return best != nil && best.Others == 0
	}
	both := func(fpr float64, ratio int) bool { return try(fpr, false, ratio) || try(fpr, true, ratio) }
	if all == 0 {
		if without > 0 {
			best = unfiltered(without)
		}
		return best
	}
	if both(0.01, usualRatio) {
		return best
	}
	for _, digits := range [][]int{{10, 20, 50}, {30, 40, 60, 70, 80, 90}} {
		for _, ratio := range ratios() {
			for _, d := range digits {
				for e := -2; e >= -11; e-- {
					if both(rateOf(d, e), ratio) {
						return best
					}
				}
			}
		}
	}
	for d := 11; d < 100; d++ {
		for e := -2; e >= -11; e-- {
			if d%10 != 0 && both(rateOf(d, e), usualRatio) {
				return best
			}
		}
	}
	return best
}

// unfiltered is the plan of a store of so many tables of which none has a filter.
func unfiltered(tables int) *Plan {
	p := &Plan{FPR: 1, Kind: "none", Ratio: usualRatio, Tables: tables}
	for level := range manifest.NumLevels {
		p.Levels = append(p.Levels, PlanLevel{level, 1, 1, 0})
	}
	return p
}

// isFirst says whether rate is that of the first unit of the filters of a level. A Ribbon unit has just that of the last level.
func isFirst(rate float64, l *bloomkv.PlannedLevel, levels []bloomkv.PlannedLevel) bool {
	want := levels[len(levels)-1].FPR
	switch {
	case len(l.Units) == 0:
		return false
	case !l.Ribbon:
		want = l.Units[0].Rate()
	}
	return math.Abs(rate/want-1) < 1e-9 // it was rounded in a table
}

// firstUnit is the promised rate of the first unit of a table's filter, or 0.
func firstUnit(name string) (rate float64) {
	_ = withTable(name, func(t *openTable) error { // what is wrong with the table is told when it is read
		h, err := bloomblock.ParseHeader(t.block)
		if err == nil && len(h.Units) > 0 {
			rate = h.Units[0].Rate
		}
		return err
	})
	return rate
}

// usualRatio is that of Options.LevelRatio by default.
const usualRatio = 10

// rateOf is d·10^e, rounded once: as a program has it that says so.
func rateOf(d, e int) float64 { return float64(d) / math.Pow10(-e) }

// ratios are those that are tried, the usual one first.
func ratios() []int {
	return []int{usualRatio, 8, 4, 2, 3, 5, 6, 7, 9, 11, 12, 13, 14, 15, 16, 20, 25, 32, 50, 64, 100}
}
