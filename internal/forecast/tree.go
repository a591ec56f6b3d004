package forecast

import (
	"fmt"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

const bottom = manifest.NumLevels - 1

// Figures are the rates and the size of the filters of one level.
type Figures struct {
	Level      int               `json:"level"`
	Keys       uint64            `json:"keys"`
	FPR        float64           `json:"promised"`     // upper bound for each run of the level
	Predicted  float64           `json:"predicted"`    // share of tables searched in vain, a mean over the runs
	BitsPerKey float64           `json:"bits_per_key"` // of these
	Bytes      uint64            `json:"bytes"`        // of these
	Units      []bloomblock.Unit `json:"units"`        // of filters with many keys in their file
	Ribbon     bool              `json:"ribbon"`       // the first unit is a Ribbon unit of its rate
}

// figures returns the figures of a level with the given number of keys whose filters are whole in memory.
func figures(p *filterplan.Plan, level int, keys float64) Figures {
	at := &p.Levels[level]
	return Figures{
		Level: level, Keys: uint64(keys + 0.5), FPR: at.Rate, Predicted: at.Params.Rate(),
		BitsPerKey: at.Params.BitsPerKey(), Bytes: uint64(keys*at.Params.BitsPerKey()/8 + 0.5),
		Units: at.Params.Units(), Ribbon: at.Params.Ribbon(),
	}
}

// keysOfOneLevel is the usual number of keys up to which a tree at rest has one level: 64 MiB of entries of about 110
// bytes. Each factor of the ratio adds a level.
const keysOfOneLevel = 600_000

// levelsAtRest returns the usual number of levels of a tree at rest, from 1 to 6.
func levelsAtRest(f filterplan.Planner, keys uint64) (levels int) {
	levels = 1
	for n := float64(keys); n > keysOfOneLevel && levels < bottom; n /= float64(f.Ratio) {
		levels++
	}
	return levels
}

// shapeOf returns the keys of the levels of a tree at rest, from the highest of the given number of levels to the last
// one: each is full and f.Ratio times as large as the one above. 0 levels means levelsAtRest; else 1 to 6.
func shapeOf(f filterplan.Planner, keys uint64, levels int) ([]float64, error) {
	if levels == 0 {
		levels = levelsAtRest(f, keys)
	}
	if levels < 1 || levels > bottom {
		return nil, fmt.Errorf("%d levels, want 1 to %d", levels, bottom)
	}
	whole, part := 0.0, 1.0
	for range levels {
		whole += part
		part /= float64(f.Ratio)
	}
	shape := make([]float64, levels)
	part = float64(keys) / whole
	for i := levels - 1; i >= 0; i-- {
		shape[i] = part
		part /= float64(f.Ratio)
	}
	return shape, nil
}

// AtRest returns the rate of a tree at rest of a store with the given options, and the figures of its levels, with all
// filters whole: one run on each of the given number of levels, from 1 to 6, each full and o.Ratio times as large as
// the one above. 0 levels means levelsAtRest. With o.Memory the rate is the best one that fits. Options of 0 get their
// defaults. It returns an error if an option is invalid, or if the filters cannot be built.
func AtRest(o filterplan.Options, keys uint64, levels int) (float64, []Figures, error) {
	o, err := o.Checked()
	if err != nil {
		return 0, nil, err
	}
	f := o.Planner()
	shape, err := shapeOf(f, keys, levels)
	if err != nil {
		return 0, nil, err
	}
	of := func(p *filterplan.Plan) (all []Figures) {
		for i, keys := range shape {
			all = append(all, figures(p, bottom+1-len(shape)+i, keys))
		}
		return all
	}
	var p *filterplan.Plan
	if f.Memory == 0 {
		p, err = f.Plan(o.FPR)
	} else {
		p, err = f.Within(keys, func(p *filterplan.Plan) (sum int64) {
			for _, l := range of(p) {
				sum += int64(l.Bytes) //nolint:gosec // far below 2⁶³
			}
			return sum
		})
	}
	if err != nil {
		return 0, nil, err
	}
	all, predicted := of(p), 0.0
	for _, l := range all {
		predicted += l.Predicted
	}
	return max(p.FPR, predicted), all, nil // without filters, each run costs a read
}

// Tree returns what a tree promises, without a budget, and the figures of all levels of a store, as if all tables had
// been written with the given options and had stayed on their level. space is the memory for filters, in bytes;
// o.Memory may bound it further. As in a store, level 0 counts as the last level when o.Memory is divided among the
// filters that are built, and filters that do not fit are reduced by Fill. Options and errors are those of AtRest.
func Tree(o filterplan.Options, runs []filterplan.Run, space int64) (filterplan.Promise, []Figures, error) {
	o, err := o.Checked()
	if err != nil {
		return filterplan.Promise{}, nil, err
	}
	f := o.Planner()
	runs = cut(runs)
	p, err := f.For(o.FPR, runs, space)
	if err != nil {
		return filterplan.Promise{}, nil, err
	}
	if f.Memory > 0 {
		space = min(space, f.Memory)
	}
	filters := filtersOf(p, runs)
	chosen := filters.demands.Fill(space)
	var all []Figures
	for l := range manifest.NumLevels {
		all = append(all, figures(p, l, 0))
		filters.measure(&all[l], runs, chosen)
	}
	return filters.demands.Promise(p.FPR, chosen), all, nil
}

// mostTables is the largest number of tables that are planned for a run: enough that the filters of some may be reduced
// more than those of others.
const mostTables = 64

// cut returns runs with the numbers of equal tables that are planned for them. A run whose number is 0 gets as many as
// are useful.
func cut(runs []filterplan.Run) []filterplan.Run {
	runs = slices.Clone(runs)
	for i := range runs {
		r := &runs[i]
		if r.Tables == 0 {
			r.Tables = int(r.Keys/50_000 + 1) //nolint:gosec // at most 2⁴⁸ keys
		}
		r.Tables = max(min(r.Tables, mostTables), int(r.Keys>>38))
	}
	return runs
}

// filters are those that a plan builds for runs. The two slices are parallel.
type filters struct {
	demands filterplan.Demands
	levels  []int // of each
}

// filtersOf returns the filters that a plan builds for runs of equal tables: see cut.
func filtersOf(p *filterplan.Plan, runs []filterplan.Run) (f filters) {
	for _, r := range runs {
		at, tables := &p.Levels[r.Level], uint64(r.Tables) //nolint:gosec // ≥ 1
		if at.Rate >= 1 {
			tables = 1
		}
		d := filterplan.NewDemand(0, 1, tables, at.Params.Header((r.Keys+tables-1)/tables).Forms(at.Rate))
		for range tables {
			if r.Keys > 0 { // else it is never searched
				d.Table++
				f.demands, f.levels = append(f.demands, d), append(f.levels, r.Level)
			}
		}
	}
	return f
}

// measure sets the figures of a level to those of its runs, whose filters have the chosen forms.
func (f *filters) measure(l *Figures, runs []filterplan.Run, chosen []int) {
	n, bytes := 0, int64(0)
	var p filterplan.Promise
	for _, r := range runs {
		if r.Level == l.Level && r.Keys > 0 {
			n++
			l.Keys += r.Keys
		}
	}
	if n == 0 {
		return
	}
	for i, d := range f.demands {
		if f.levels[i] == l.Level {
			p.Add(d.Weight, d.Forms[chosen[i]], d.Whole)
			bytes += d.Forms[chosen[i]].Bytes
		}
	}
	l.Predicted, l.Bytes = p.FPR/float64(n), uint64(bytes)
	l.BitsPerKey = 8 * float64(bytes) / float64(l.Keys)
}
