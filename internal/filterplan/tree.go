package filterplan

import (
	"fmt"
	"math"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

// Figures are the rates and the size of the filters of one level.
type Figures struct {
	Level      int               `json:"level"`
	Keys       uint64            `json:"keys"`
	FPR        float64           `json:"promised"`     // upper bound for each run of the level
	Predicted  float64           `json:"predicted"`    // rate of the filters built for that bound
	BitsPerKey float64           `json:"bits_per_key"` // of filters with many keys
	Bytes      uint64            `json:"bytes"`        // of the filters in memory
	Units      []bloomblock.Unit `json:"units"`
	Ribbon     bool              `json:"ribbon"` // the first unit is a Ribbon unit of its rate
}

// figures returns the figures of a level with the given number of keys whose filters have these units in memory.
func (p *Plan) figures(level int, keys float64, params bloomblock.Params) Figures {
	return Figures{
		Level: level, Keys: uint64(keys + 0.5), FPR: p.Levels[level].Rate, Predicted: params.Rate(),
		BitsPerKey: params.BitsPerKey(), Bytes: uint64(keys*params.BitsPerKey()/8 + 0.5),
		Units: params.Units(), Ribbon: params.Ribbon(),
	}
}

// keysOfOneLevel is the usual number of keys up to which a tree at rest has one level: 64 MiB of entries of about 110
// bytes. Each factor of the ratio adds a level.
const keysOfOneLevel = 600_000

// LevelsAtRest returns the usual number of levels of a tree at rest, from 1 to 6.
func (f Planner) LevelsAtRest(keys uint64) (levels int) {
	levels = 1
	for n := float64(keys); n > keysOfOneLevel && levels < bottom; n /= float64(f.Ratio) {
		levels++
	}
	return levels
}

// AtRest returns the rate of a tree at rest and the figures of its levels: one run on each of the given number of
// levels, from 1 to 6, each full and f.Ratio times as large as the one above. 0 levels means LevelsAtRest. fpr
// is the promised rate, unused if f.Memory is set; the result is that of Promise.
func (f Planner) AtRest(fpr float64, keys uint64, levels int) (float64, []Figures, error) {
	if levels == 0 {
		levels = f.LevelsAtRest(keys)
	}
	if levels < 1 || levels > bottom {
		return 0, nil, fmt.Errorf("%d levels, want 1 to %d", levels, bottom)
	}
	whole, part := 0.0, 1.0
	for range levels {
		whole += part
		part /= float64(f.Ratio)
	}
	of := func(p *Plan) (all []Figures) {
		part := float64(keys) / whole
		for l := bottom; l > bottom-levels; l-- {
			all = append(all, p.figures(l, part, p.Levels[l].Params))
			part /= float64(f.Ratio)
		}
		slices.Reverse(all)
		return all
	}
	p, err := f.choose(fpr, keys, func(p *Plan) int64 { return total(of(p)) })
	if err != nil {
		return 0, nil, err
	}
	all := of(p)
	return Promise(p.FPR, f.Memory > 0, predicted(all)), all, nil
}

// Tree returns the rate of a tree with the given numbers of keys on its levels, from level 0 on, and the figures of all
// levels of a store, as if all tables had been written by this planner and had stayed on their level. With f.Memory
// filters are built and loaded as a store does it: level 0 counts as the last level when they are built, and what then
// does not fit is left out unit by unit, from the last level upwards. Then the figures of a level are means, and its
// Units are those that all its filters have. The rate is that of Promise, with one run on each level with keys. fpr is
// the promised rate, unused if f.Memory is set.
func (f Planner) Tree(fpr float64, keys []uint64) (float64, []Figures, error) {
	if len(keys) > manifest.NumLevels {
		return 0, nil, fmt.Errorf("%d levels, a store has %d", len(keys), manifest.NumLevels)
	}
	var tree [manifest.NumLevels]float64
	whole := uint64(0)
	for l, n := range keys {
		tree[l] = float64(n)
		whole += n
	}
	p, err := f.choose(fpr, whole, func(p *Plan) (sum int64) {
		for l, n := range keys {
			sum += p.Levels[BuildLevel(l)].Bytes(n, 0)
		}
		return sum
	})
	if err != nil {
		return 0, nil, err
	}
	var all []Figures
	for l := range tree {
		all = append(all, p.figures(l, tree[l], p.Levels[l].Params))
	}
	if f.Memory == 0 {
		return Promise(p.FPR, false, predicted(all)), all, nil
	}
	over := total(all) - f.Memory
	for keep := bloomblock.MaxUnits - 1; keep >= 0; keep-- {
		for l := bottom; l >= 0; l-- {
			if at := &all[l]; over > 0 && len(at.Units) > keep {
				over -= at.cut(tree[l], p.Levels[l].Params.Leading(keep), over)
			}
		}
	}
	return Promise(p.FPR, true, predicted(all)), all, nil
}

// predicted returns what all levels with keys waste together.
func predicted(all []Figures) (sum float64) {
	for _, l := range all {
		if l.Keys > 0 {
			sum += l.Predicted
		}
	}
	return sum
}

// choose returns the plan for a promised rate, or, if f.Memory is set, the best plan whose filters of the given number
// of keys fit in it. bytes returns what the filters of a plan take.
func (f Planner) choose(fpr float64, keys uint64, bytes func(*Plan) int64) (*Plan, error) {
	if f.Memory == 0 {
		return f.Plan(fpr)
	}
	step, fits := f.Within(bytes)
	if !fits {
		return nil, f.TooLittle(keys)
	}
	return f.At(step), nil
}

// total returns the bytes of all levels.
func total(levels []Figures) (sum int64) {
	for _, l := range levels {
		sum += int64(l.Bytes) //nolint:gosec // far below 2⁶³
	}
	return sum
}

// cut leaves all units except those of left out of as many of the level's filters as it takes to give over bytes back,
// or out of all of them. It returns the bytes that it gave back.
func (l *Figures) cut(keys float64, left bloomblock.Params, over int64) int64 {
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
