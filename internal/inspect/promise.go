package inspect

import (
	"math"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

// planOf is the plan by which the filters of a version were built. No file has it; but the manifest has what each table's filter
// promises, and the plan of a rate has few rates. Of all plans with a round rate (in two digits) and the usual ratio of levels, and of
// those with a rate of one digit and some other ratios, it is the first one, the default before all others and the rounder ones before the less
// round, that has the rates of most tables. Nil is none that has those of more than half. FilterMemory leaves no such plan.
func planOf(v *manifest.Version) *Plan {
	type kind struct {
		level int
		rate  float64
	}
	tables, all := map[kind]int{}, 0
	for level, t := range v.Tables() {
		if t.Entries > 0 {
			tables[kind{level, t.FilterRate}]++
			all++
		}
	}
	var best *Plan
	try := func(fpr float64, ribbon bool, ratio int) (done bool) {
		o := &bloomkv.Options{FilterFPR: fpr, LevelRatio: ratio}
		p := &Plan{FPR: fpr, Kind: "bloom", Ratio: ratio}
		switch {
		case fpr >= 1:
			p.Kind = "none"
		case ribbon:
			o.FilterKind, p.Kind = bloomkv.RibbonFilter, "ribbon"
		}
		_, levels, err := bloomkv.PlanTree(nil, o)
		if err != nil { // out of reach
			return false
		}
		for _, l := range levels {
			p.Levels = append(p.Levels, PlanLevel{l.Level, l.FPR, l.Predicted, l.BitsPerKey})
		}
		for k, n := range tables {
			for level := range k.level + 1 { // a table may have moved down, and never moves up
				if p.Levels[level].Predicted == k.rate {
					p.Tables += n
					break
				}
			}
		}
		p.Others = all - p.Tables
		if best == nil && 2*p.Tables > all || best != nil && p.Tables > best.Tables {
			best = p
		}
		return best != nil && best.Others == 0
	}
	both := func(fpr float64, ratio int) bool { return try(fpr, false, ratio) || try(fpr, true, ratio) }
	if both(0.01, usualRatio) || both(1, usualRatio) {
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

// usualRatio is that of Options.LevelRatio by default.
const usualRatio = 10

// rateOf is d·10^e, rounded once: as a program has it that says so.
func rateOf(d, e int) float64 { return float64(d) / math.Pow10(-e) }

// ratios are those that are tried, the usual one first.
func ratios() []int {
	return []int{usualRatio, 8, 4, 2, 3, 5, 6, 7, 9, 11, 12, 13, 14, 15, 16, 20, 25, 32, 50, 64, 100}
}
