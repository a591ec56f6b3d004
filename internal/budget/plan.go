package budget

import (
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Plans returns the current plans for building, loading and keeping filters.
func (b *Share) Plans() *filterplan.Plans { return b.plans.Load() }

// Replan computes the plan that fits the memory for filters, if that is bounded, for a state that is or becomes the
// current one, and drops the units of filters that do not fit: see Cut. It must not be called concurrently. It
// returns an error if not even the cheapest filters for the keys fit; then it uses the cheapest plan.
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

// Cut keeps filters within memory, in bytes, if they were built for fewer keys than there are now, or if level 0,
// whose filters are larger, has many keys. It first leaves out the last of three units, of one table after the other,
// from the last level upwards and starting with the oldest run, then the second units, and finally whole filters. The
// choice depends only on the state, and changes little from one state to the next. Cut reports whether it left out
// anything.
func Cut(s *tree.State, p *filterplan.Plan, memory int64) bool {
	type planned struct {
		table *tree.Table
		units []bloomblock.UnitHeader // those that its level needs and that fit so far
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
				filterLen := int64(t.Meta.FilterLen) //nolint:gosec // below the size of a file
				sum += min(at.Bytes(t.Meta.Entries, 1), filterLen)
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

// Follow adjusts memory to an edit that changed the tree from old to now and deleted tables. It drops the filters of
// deleted tables, so that they take no space from their replacements, computes the plan again, and trims the filters
// of moved tables. Readers of the old state search deleted tables as if their filters had not excluded the key.
// Follow must not be called concurrently.
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
	_ = b.Replan(now) // with too many keys, tables have no filter
	now.EachTable(func(_ int, t *tree.Table) {
		if moved[t.Meta.Number] {
			b.Trim(t)
		}
	})
	b.pool.Rebalance() // with the tables of now; earlier calls used those of old
}

// OffPlan reports whether the filter of a table on a level differs from the one that the table would get if it were
// written now, there or above: for another rate, of another kind, or with prefixes by another rule. good are the
// plans whose filters may stay. OffPlan reads no file: the prefix rule counts only once the tail of the table has
// been read.
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
