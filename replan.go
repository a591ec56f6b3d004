package bloomkv

import (
	"math"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// replan makes the plan that fits Options.FilterMemory, if that is set, for a state that is about to be, or has just become, the
// current one, and says which units of filters that are there have room: see cut. Those that have not are dropped. editMu is held,
// or nobody else knows the store yet. The error says that no filters of so many keys fit; then the plan is the cheapest.
func (db *DB) replan(s *state) error {
	if db.opts.FilterMemory == 0 {
		return nil
	}
	planner := db.opts.planner()
	keys := make([]uint64, len(s.runs))
	all := uint64(0)
	for i, r := range s.runs {
		for _, t := range r.tables {
			keys[i] += t.meta.Entries
		}
		all += keys[i]
	}
	step, fits := planner.within(func(p *filterPlan) (sum int64) {
		for i, r := range s.runs {
			sum += p.level[buildLevel(r.level)].bytes(keys[i], len(r.tables))
		}
		return sum
	})
	plan := planner.at(step)
	plans := &filterPlans{now: plan}
	plans.good, plans.fine = planner.near(step, db.cut(s, plan))
	db.plans.Store(plans)
	s.tables(func(_ int, t *table) { db.trim(t) })
	if !fits {
		return planner.tooLittle(all)
	}
	return nil
}

// bytes returns the most memory that filters built for the level take, for the given numbers of keys and tables. The
// last block of each unit is not full, and a Ribbon unit extends beyond the slot of its last key.
func (l *levelPlan) bytes(keys uint64, tables int) int64 {
	each := len(l.params.Units()) * blockBytes
	if l.params.Ribbon() {
		each += bandBytes * int(math.Ceil(l.params.Leading(1).BitsPerKey()))
	}
	return int64(float64(keys)*l.params.BitsPerKey()/8) + int64(tables*each)
}

const (
	blockBytes = 64    // a block of a filter
	bandBytes  = 3 * 8 // the words of a column that begin where no key's band does
)

// A planned is a table while units are left out.
type planned struct {
	table *table
	units []bloomblock.UnitHeader // that its level needs, and that have room so far
}

// cut has filters take no more than Options.FilterMemory where they were built for fewer keys than there are, or level 0, whose
// filters are larger, has many: the last of three units goes first, of one table after the other, from the last level upwards and
// of the oldest run first, then the second of all, and at last whole filters. What is left out follows from the state alone, and
// changes little from one to the next. It reports whether anything is.
func (db *DB) cut(s *state, p *filterPlan) bool {
	var tables []planned
	sum := int64(0)
	for _, r := range slices.Backward(s.runs) {
		at := &p.level[r.level]
		for _, t := range r.tables {
			h, known := t.reader.FilterHeader()
			t.planned.Store(bloomblock.MaxUnits)
			switch {
			case !known: // counted as if it were built for the level
				sum += min(at.bytes(t.meta.Entries, 1), int64(t.meta.FilterLen)) //nolint:gosec // below the size of a file, as below
			case len(h.Units) == 0: // none, or one that is damaged
				sum += t.reader.FilterBytes()
			default:
				n := h.UnitsFor(at.rate)
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
		t.table.planned.Store(int32(len(t.units))) //nolint:gosec // at most MaxUnits
	}
	return some
}
