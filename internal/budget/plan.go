package budget

import (
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
	var w wishes
	now := b.planner.At(step)
	b.wishFor(s, now, &w, nil)
	cut := filterplan.Wasted(w.demands, filterplan.Fill(w.demands, b.planner.Memory)) > now.FPR
	b.plans.Store(b.planner.Near(step, cut))
	if !fits {
		return b.planner.TooLittle(all)
	}
	return nil
}

// wish appends the filters of a state to the wishes of all stores: those of keys, limited to the store's bound on
// memory for them, and those of prefixes that scans have asked for.
func (b *Share) wish(s *tree.State, keys, prefixes *wishes) {
	first := len(keys.of)
	b.wishFor(s, b.plans.Load().Now, keys, prefixes)
	if b.planner.Memory > 0 {
		own := keys.demands[first:]
		for i, n := range filterplan.Fill(own, b.planner.Memory) {
			keys.of[first+i].asked = own[i].Forms[n]
			own[i].Forms = own[i].Forms[:n+1]
		}
	}
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

// wishFor implements wish for a plan, without the bound on memory.
func (b *Share) wishFor(s *tree.State, plan *filterplan.Plan, keys, prefixes *wishes) {
	for _, r := range s.Runs {
		rate := plan.Levels[r.Level].Rate
		for _, t := range r.Tables {
			if t.Meta.Entries == 0 {
				continue // it is never searched
			}
			d := filterplan.Demand{
				Weight: float64(t.Meta.Entries) / float64(r.Entries), Table: t.Meta.Number,
				Forms: t.Keys.Forms(rate, t.Reader.FilterForms),
			}
			if d.Forms == nil {
				d.Forms = unknown(t.Meta, rate)
			}
			keys.of = append(keys.of, newWish(b, t, &t.Keys, d.Forms))
			keys.demands = append(keys.demands, d)
			if prefixes == nil {
				continue
			}
			if d.Forms = t.Prefixes.Forms(rate, t.Reader.PrefixForms); d.Forms != nil {
				prefixes.of = append(prefixes.of, newWish(b, t, &t.Prefixes, d.Forms))
				prefixes.demands = append(prefixes.demands, d)
			}
		}
	}
}

// unknown returns the forms of a filter whose header was not read yet, as far as the manifest tells: all or nothing.
func unknown(t *manifest.Table, rate float64) []bloomblock.Form {
	forms := []bloomblock.Form{{Rate: 1}}
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

// Promise returns what the store promises, and which of its promises counts: with full memtables, if it was written to
// within the last minute.
func (b *Share) Promise() (p Promises, now filterplan.Promise) {
	p = *b.promise.Load()
	if b.busy(time.Now()) {
		return p, p.Full
	}
	return p, p.Now
}

// promised computes what the store promises, from the wishes of all stores and the forms that they get now, and with
// full memtables.
func (b *Share) promised(w *wishes, now, full []int) *Promises {
	plan := b.plans.Load().Now
	p := &Promises{Asked: plan.FPR}
	all := int64(0)
	for i, o := range w.of {
		d := &w.demands[i]
		all += o.asked.Bytes
		if o.share == b {
			p.Whole += d.Weight * o.asked.Rate
			p.Now.Add(d.Weight, d.Forms[now[i]], o.whole)
			p.Full.Add(d.Weight, d.Forms[full[i]], o.whole)
		}
	}
	p.Whole = max(p.Whole, plan.FPR)
	p.Now.AtLeast(plan.FPR)
	p.Full.AtLeast(plan.FPR)
	p.Now.Budget = b.pool.budgetFor(all, false)
	p.Full.Budget = b.pool.budgetFor(all, true)
	return p
}

// asks returns the promises of a store that keeps what is asked.
func asks(fpr float64) *Promises {
	var p filterplan.Promise
	p.AtLeast(fpr)
	return &Promises{Asked: fpr, Whole: fpr, Now: p, Full: p}
}

// keeps makes the store promise what was asked, with the budgets that it takes.
func (b *Share) keeps(idle, full int64) {
	p := asks(b.plans.Load().Now.FPR)
	p.Now.Budget, p.Full.Budget = idle, full
	b.promise.Store(p)
	if b.told.Load() {
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
			t.Loading.Lock()
			if !moved[t.Meta.Number] {
				t.Keys.Bytes.Store(0)
				t.Prefixes.Bytes.Store(0)
			}
			b.reduce(t)
			t.Loading.Unlock()
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
