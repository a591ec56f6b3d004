package budget

import (
	"slices"

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
	runs := make([]filterplan.Run, len(s.Runs))
	all := uint64(0)
	for i, r := range s.Runs {
		runs[i] = filterplan.Run{Level: r.Level, Tables: len(r.Tables)}
		for _, t := range r.Tables {
			runs[i].Keys += t.Meta.Entries
		}
		all += runs[i].Keys
	}
	step, fits := b.planner.ForRuns(runs)
	b.plans.Store(b.planner.Near(step, Cut(s, b.planner.At(step), b.planner.Memory)))
	s.EachTable(func(_ int, t *tree.Table) { b.Trim(t) })
	if !fits {
		return b.planner.TooLittle(all)
	}
	return nil
}

// Cut keeps filters within memory, in bytes, oldest runs first: see filterplan.Plan.Fit. The choice depends only on the
// state, and changes little from one state to the next. Cut reports whether it left out anything.
func Cut(s *tree.State, p *filterplan.Plan, memory int64) bool {
	var tables []*tree.Table
	var filters []filterplan.Filter
	for _, r := range slices.Backward(s.Runs) {
		for _, t := range r.Tables {
			h, known := t.Reader.FilterHeader()
			tables = append(tables, t)
			filters = append(filters, filterplan.Filter{
				Level: r.Level, Entries: t.Meta.Entries, InFile: t.Meta.FilterLen, Known: known, Header: h,
				Loaded: t.Reader.FilterBytes(),
			})
		}
	}
	kept, cut := p.Fit(filters, memory)
	for i, t := range tables {
		t.Planned.Store(int32(kept[i])) //nolint:gosec // at most MaxUnits
	}
	return cut
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
	if filterplan.Off(good, level, t.Meta.FilterRate) {
		return true
	}
	want := ""
	if t.Meta.FilterRate < 1 {
		want = b.prefix.String()
	}
	rule, known := t.Reader.PrefixRule()
	return known && rule != want
}
