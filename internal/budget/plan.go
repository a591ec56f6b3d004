package budget

import (
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Plans returns the plans by which filters are built, loaded and kept now.
func (b *Share) Plans() *filterplan.Plans { return b.plans.Load() }

// Replan makes the plan that fits the memory for filters, if that is bounded, for a state that is or becomes the
// current one, and drops the units of filters that have no room by it: see Cut. Calls are made one at a time. The error
// says that no filters of so many keys fit; then the plan is the cheapest.
func (b *Share) Replan(s *tree.State) error {
	if b.planner.Memory == 0 {
		return nil
	}
	keys := make([]uint64, len(s.Runs))
	all := uint64(0)
	for i, r := range s.Runs {
		for _, t := range r.Tables {
			keys[i] += t.Meta.Entries
		}
		all += keys[i]
	}
	step, fits := b.planner.Within(func(p *filterplan.Plan) (sum int64) {
		for i, r := range s.Runs {
			sum += p.Levels[filterplan.BuildLevel(r.Level)].Bytes(keys[i], len(r.Tables))
		}
		return sum
	})
	b.plans.Store(b.planner.Near(step, Cut(s, b.planner.At(step), b.planner.Memory)))
	s.EachTable(func(_ int, t *tree.Table) { b.Trim(t) })
	if !fits {
		return b.planner.TooLittle(all)
	}
	return nil
}

// Cut keeps filters within memory, in bytes, when they were built for fewer keys than there are, or when level 0,
// whose filters are larger, has many: it leaves out the last of three units first, of one table after the other, from
// the last level upwards and of the oldest run first, then the second of all, and at last whole filters. The choice
// follows from the state alone, and changes little from one to the next. Cut reports whether it left out anything.
func Cut(s *tree.State, p *filterplan.Plan, memory int64) bool {
	type planned struct {
		table *tree.Table
		units []bloomblock.UnitHeader // that its level needs, and that have room so far
	}
	var tables []planned
	sum := int64(0)
	for _, r := range slices.Backward(s.Runs) {
		at := &p.Levels[r.Level]
		for _, t := range r.Tables {
			h, known := t.Reader.FilterHeader()
			t.Planned.Store(bloomblock.MaxUnits)
			switch {
			case !known: // counted as if it were built for the level
				sum += min(at.Bytes(t.Meta.Entries, 1), int64(t.Meta.FilterLen)) //nolint:gosec // below the size of a file
			case len(h.Units) == 0: // no filter, or a damaged one
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
			if sum <= memory {
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

// Follow makes memory follow a change of the tree from old to now by an edit that deleted tables: their filters are
// dropped, so that they need no room beside those that take their place, the plan is made anew, and the filters of
// moved tables are trimmed. Readers of the old state search replaced tables as if their filters said maybe. Calls are
// made one at a time.
func (b *Share) Follow(old, now *tree.State, deleted []manifest.Deleted) {
	moved, gone := map[uint64]bool{}, map[uint64]bool{}
	for _, d := range deleted {
		gone[d.Number] = true
	}
	now.EachTable(func(_ int, t *tree.Table) {
		if gone[t.Meta.Number] {
			delete(gone, t.Meta.Number)
			moved[t.Meta.Number] = true
		}
	})
	if len(gone) > 0 {
		old.EachTable(func(_ int, t *tree.Table) {
			if gone[t.Meta.Number] {
				t.Loading.Lock()
				t.Kept.Store(0)
				t.Reader.Shed(0, false)
				b.count(t)
				t.Loading.Unlock()
			}
		})
	}
	_ = b.Replan(now) // if there are too many keys, tables have no filter
	now.EachTable(func(_ int, t *tree.Table) {
		if moved[t.Meta.Number] {
			b.Trim(t)
		}
	})
	b.pool.Rebalance() // of the tables that stay: until now those of the old state stood for them
}

// OffPlan reports whether a table on a level has another filter than a table written there or above would get now: for
// another rate, of another kind, or with prefixes by another rule. good are the plans whose filters may stay. It reads
// no file: the rule of prefixes counts once the tail of the table was read.
func (b *Share) OffPlan(level int, t *tree.Table, good []*filterplan.Plan) bool {
	if t.Meta.Entries == 0 {
		return false // its filter is never asked
	}
	if !slices.ContainsFunc(good, func(p *filterplan.Plan) bool { return p.Has(level, t.Meta.FilterRate) }) {
		return true
	}
	want := ""
	if t.Meta.FilterRate < 1 {
		want = b.prefix.String()
	}
	rule, known := t.Reader.PrefixRule()
	return known && rule != want
}
