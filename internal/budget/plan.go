package budget

import (
	"slices"
	"time"

	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Replan computes the plans for building filters for a state that is or becomes the current one. It must not be called
// concurrently. With a bound on the memory for filters, it returns an error if not even the cheapest filters for the
// keys fit; then it uses the cheapest plan.
func (b *Share) Replan(s *tree.State) error {
	runs := make([]filterplan.Run, len(s.Runs))
	all := uint64(0)
	for i, r := range s.Runs {
		runs[i] = filterplan.Run{Level: r.Level, Tables: len(r.Tables), Keys: r.Entries}
		all += r.Entries
	}
	if b.Planner.Memory == 0 {
		others := b.pool.Held.Bytes().Filter - b.held.Bytes().Filter
		space := b.pool.filterSpace(b.pool.Memory-b.pool.Reserved.Load()) - others
		b.plans.Store(b.Planner.ForSpace(b.plans.Load(), runs, space))
		return nil
	}
	step, fits := b.Planner.ForRuns(runs)
	now := b.Planner.At(step)
	var w wishes
	b.wish(s, now, &w, nil)
	cut := w.demands.Wasted(w.demands.All()) > now.FPR
	b.plans.Store(b.Planner.Near(step, cut))
	if !fits {
		return b.Planner.TooLittle(all)
	}
	return nil
}

// Follow adjusts memory to an edit that changed the tree from old to now, added fresh tables and deleted others. It
// drops the filters of deleted tables, so that they take no space from their replacements, computes the plans again,
// and reduces filters that need less, as those of moved tables. It reads no file; Restore loads what the plan has more.
// Readers of the old state search deleted tables as if their filters had not excluded the key. Follow must not be
// called concurrently.
func (b *Share) Follow(old, now *tree.State, fresh []*tree.Table, deleted []manifest.Deleted) {
	_ = b.Replan(now) // with too many keys, tables have no filter
	gone := map[uint64]bool{}
	for _, d := range deleted {
		gone[d.Number] = true
	}
	if len(gone) > 0 {
		moved := map[uint64]bool{}
		now.EachTable(func(_ int, t *tree.Table) {
			if gone[t.Meta.Number] { // else the map would have all tables, for each slice of a compaction
				moved[t.Meta.Number] = true
			}
		})
		old.EachTable(func(_ int, t *tree.Table) {
			if !gone[t.Meta.Number] {
				return
			}
			if !moved[t.Meta.Number] {
				t.Keys.Most.Store(0)
				t.Prefixes.Most.Store(0)
			}
			if t.Loading.TryLock() { // else its loader, which may read a file, reduces it: see settle
				b.reduce(t)
				t.Loading.Unlock()
			}
		})
	}
	// Only now: a division that began before the tables were in a state has no plan for them.
	if slices.ContainsFunc(fresh, func(t *tree.Table) bool { return t.Keys.Most.Load() == 0 }) {
		b.pool.dropped.Store(true)
	}
	b.Rebalance()
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
		want = b.Prefix.String()
	}
	rule, known := t.Reader.PrefixRule()
	return known && rule != want
}

// Promise returns what the options ask, and the promises of which the worse counts: that of now, and if the store was
// written to within the last minute, that of full memtables. Neither is worse in all: with less memory, filters that
// let many keys through may be asked in their files.
func (b *Share) Promise() (asked float64, kept []filterplan.Promise) {
	b.ensurePlan()
	p := b.promise.Load()
	kept = append(kept, p.Now)
	if b.busy(time.Now()) {
		kept = append(kept, p.Full)
	}
	return p.Asked, kept
}

// report calls the observer if the store does not keep what was asked once its memtables are full, or keeps it again.
// The promise has to be missed by a sixteenth, so that a tree that changes all the time is not reported all the time.
func (b *Share) report() {
	p := b.promise.Load()
	short := !p.Kept(p.Full)
	if told := b.told.Load(); told == short || short && p.Full.Passed < p.Whole*17/16 {
		return
	}
	if b.told.CompareAndSwap(!short, short) {
		b.Observer.Promise(*p)
	}
}
