package budget

import (
	"slices"
	"time"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Plans returns the current plans for building and keeping filters.
func (b *Share) Plans() *filterplan.Plans { return b.plans.Load() }

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
	if b.planner.Memory == 0 {
		others := b.pool.Held.filters.Load() - b.held.filters.Load()
		space := b.pool.filterSpace(b.pool.Memory-b.pool.Reserved.Load()) - others
		b.plans.Store(b.planner.ForSpace(b.plans.Load(), runs, space))
		return nil
	}
	step, fits := b.planner.ForRuns(runs)
	now := b.planner.At(step)
	var w wishes
	b.wish(s, now, &w, nil)
	cut := w.demands.Wasted(w.demands.All()) > now.FPR
	b.plans.Store(b.planner.Near(step, cut))
	if !fits {
		return b.planner.TooLittle(all)
	}
	return nil
}

// fits reports whether all filters of a state fit whole into memory, and all keep what is asked: then there is nothing
// to divide. bytes is what they take at most.
func (b *Share) fits(s *tree.State) (bytes int64, ok bool) {
	plan := b.plans.Load().Now
	for _, r := range s.Runs {
		bytes += int64(r.FilterBytes) //nolint:gosec // below the sizes of files
		ok := r.WorstRate <= plan.Levels[r.Level].Rate
		if !ok {
			return bytes, false
		}
	}
	return bytes, b.planner.Memory == 0 && plan.FPR < 1 // without filters, each run costs a read
}

// wish appends the filters of a state to the wishes of all stores, by a plan: those of keys, limited to the store's
// bound on memory for them, and those of prefixes that scans have asked for, unless prefixes is nil.
func (b *Share) wish(s *tree.State, plan *filterplan.Plan, keys, prefixes *wishes) {
	first, tables := len(keys.of), s.Version.NumTables()
	keys.of, keys.demands = slices.Grow(keys.of, tables), slices.Grow(keys.demands, tables)
	var unread []bloomblock.Form
	for _, r := range s.Runs {
		rate := plan.Levels[r.Level].Rate
		for _, t := range r.Tables {
			if t.Meta.Entries == 0 {
				continue // it is never searched
			}
			forms := t.Keys.Forms(rate)
			if forms == nil {
				if unread == nil {
					unread = make([]bloomblock.Form, 0, 2*tables)
				}
				n := len(unread)
				unread = appendUnread(unread, t.Meta, rate)
				forms = unread[n:len(unread):len(unread)]
			}
			keys.add(wish{b, t, &t.Keys}, r, forms)
			if prefixes == nil {
				continue
			}
			if forms := t.Prefixes.Forms(rate); forms != nil {
				prefixes.add(wish{b, t, &t.Prefixes}, r, forms)
			}
		}
	}
	if b.planner.Memory > 0 {
		keys.demands[first:].Limit(b.planner.Memory)
	}
}

// appendUnread appends the forms of a filter whose header was not read yet, as far as the manifest tells: all or
// nothing.
func appendUnread(forms []bloomblock.Form, t *manifest.Table, rate float64) []bloomblock.Form {
	forms = append(forms, bloomblock.Form{Rate: 1})
	if t.FilterLen > bloomblock.HeaderSize && rate < 1 {
		all := bloomblock.Form{Rate: t.FilterRate}
		all.Bytes = int64(t.FilterLen) - bloomblock.HeaderSize //nolint:gosec // below the size of a file
		forms = append(forms, all)
	}
	return forms
}

// Promises are what a store promises.
type Promises struct {
	Asked float64 // wasted reads for a lookup of an absent key, by the options
	Whole float64 // with all filters whole in memory: more than Asked if tables were written for another promise

	Now  filterplan.Promise // with the memory that memtables need now; Budget is for all stores of the pool
	Full filterplan.Promise // with memtables that take all that is reserved for them
}

// Kept reports whether memory suffices for a promise.
func (p *Promises) Kept(q filterplan.Promise) bool { return q.Passed <= p.Whole }

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

// promiseFor returns what a store promises by a plan for a rate, with its filters in the forms that they have now, and
// with full memtables. Without filters, it keeps what is asked.
func promiseFor(fpr float64, own filterplan.Demands, now, full []int) *Promises {
	return &Promises{
		Asked: fpr, Whole: own.Promise(fpr, own.All()).Passed,
		Now: own.Promise(fpr, now), Full: own.Promise(fpr, full),
	}
}

// setPromises sets what the store promises. bytes are those of all filters of the pool. If the observer has to be told,
// Room receives.
func (b *Share) setPromises(p *Promises, bytes int64) {
	p.Now.Budget, p.Full.Budget = b.pool.budgetFor(bytes, false), b.pool.budgetFor(bytes, true)
	b.promise.Store(p)
	if p.Kept(p.Full) == b.told.Load() {
		b.offer()
	}
}

// budgetFor returns the memory that would hold the given bytes of filters, with memtables as they are or full.
func (p *Pool) budgetFor(filters int64, full bool) int64 {
	fixed, scaled := p.Held.fixed(), int64(0)
	for _, b := range p.members() {
		grows := b.reserved // the part of what memtables need that a larger memory enlarges
		if !full {
			grows /= tree.MemtableSteps
			fixed += max(max(b.water.now, b.water.before)-grows, 0)
		}
		if b.scaled {
			scaled += grows
		} else {
			fixed += grows
		}
	}
	return filterplan.BudgetFor(filters, fixed, float64(scaled)/float64(p.Memory))
}

// Follow adjusts memory to an edit that changed the tree from old to now and deleted tables. It drops the filters of
// deleted tables, so that they take no space from their replacements, computes the plans again, and reduces filters
// that need less, as those of moved tables. It reads no file; Restore loads what the plan has more. Readers of the old
// state search deleted tables as if their filters had not excluded the key. Follow must not be called concurrently.
func (b *Share) Follow(old, now *tree.State, deleted []manifest.Deleted) {
	_ = b.Replan(now) // with too many keys, tables have no filter
	gone := map[uint64]bool{}
	for _, d := range deleted {
		gone[d.Number] = true
	}
	if len(gone) > 0 {
		moved := map[uint64]bool{}
		now.EachTable(func(_ int, t *tree.Table) { moved[t.Meta.Number] = gone[t.Meta.Number] })
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
		want = b.prefix.String()
	}
	rule, known := t.Reader.PrefixRule()
	return known && rule != want
}
