package bloomkv

import (
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// replan makes the plan that fits Options.FilterMemory, if that is set, for a state that is about to be, or has just become, the
// current one, and says which units of filters that are there have room: see cut. Those that have not are dropped. editMu is held,
// or nobody else knows the store yet. The error says that no filters of so many keys fit; then the plan is the cheapest.
func (db *DB) replan(s *tree.State) error {
	if db.opts.FilterMemory == 0 {
		return nil
	}
	planner := db.opts.planner()
	keys := make([]uint64, len(s.Runs))
	all := uint64(0)
	for i, r := range s.Runs {
		for _, t := range r.Tables {
			keys[i] += t.Meta.Entries
		}
		all += keys[i]
	}
	step, fits := planner.Within(func(p *filterplan.Plan) (sum int64) {
		for i, r := range s.Runs {
			sum += p.Levels[filterplan.BuildLevel(r.Level)].Bytes(keys[i], len(r.Tables))
		}
		return sum
	})
	db.plans.Store(planner.Near(step, db.cut(s, planner.At(step))))
	s.EachTable(func(_ int, t *tree.Table) { db.trim(t) })
	if !fits {
		return planner.TooLittle(all)
	}
	return nil
}

// A planned is a table while units are left out.
type planned struct {
	table *tree.Table
	units []bloomblock.UnitHeader // that its level needs, and that have room so far
}

// cut has filters take no more than Options.FilterMemory where they were built for fewer keys than there are, or level 0, whose
// filters are larger, has many: the last of three units goes first, of one table after the other, from the last level upwards and
// of the oldest run first, then the second of all, and at last whole filters. What is left out follows from the state alone, and
// changes little from one to the next. It reports whether anything is.
func (db *DB) cut(s *tree.State, p *filterplan.Plan) bool {
	var tables []planned
	sum := int64(0)
	for _, r := range slices.Backward(s.Runs) {
		at := &p.Levels[r.Level]
		for _, t := range r.Tables {
			h, known := t.Reader.FilterHeader()
			t.Planned.Store(bloomblock.MaxUnits)
			switch {
			case !known: // counted as if it were built for the level
				sum += min(at.Bytes(t.Meta.Entries, 1), int64(t.Meta.FilterLen)) //nolint:gosec // below the size of a file, as below
			case len(h.Units) == 0: // none, or one that is damaged
				sum += t.Reader.FilterBytes()
			default:
				n := h.UnitsFor(at.Rate)
				tables = append(tables, planned{t, h.Units[:n]})
				sum += int64(h.PrefixSize(n) - bloomblock.HeaderSize) //nolint:gosec // as above
			}
		}
	}
	some := false
	for keep := bloomblock.MaxUnits - 1; keep >= 0; keep-- {
		for i := range tables {
			t := &tables[i]
			if sum <= db.opts.FilterMemory {
				break
			}
			if len(t.units) > keep {
				sum -= int64(t.units[keep].Bytes()) //nolint:gosec // as above
				t.units, some = t.units[:keep], true
			}
		}
	}
	for _, t := range tables {
		t.table.Planned.Store(int32(len(t.units))) //nolint:gosec // at most MaxUnits
	}
	return some
}
