package budget

import (
	"math"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// A wish is a filter for which memory is planned.
type wish struct {
	store  *member
	table  *tree.Table
	filter *tree.Filter // of table
}

// wishes are those of several stores, one store after another. The two slices are parallel.
type wishes struct {
	of      []wish
	demands filterplan.Demands
}

// add appends the wish for a filter of a table in a run.
func (w *wishes) add(o wish, r *tree.Run, forms []bloomblock.Form) {
	w.of = append(w.of, o)
	w.demands = append(w.demands, filterplan.NewDemand(o.table.Meta.Number, o.table.Meta.Entries, r.Entries, forms))
}

// plan sets the plans of filters to the chosen forms, and returns the bytes of these.
func (w *wishes) plan(chosen []int) (sum int64) {
	for i := range w.of {
		forms := w.demands[i].Forms
		most := forms[chosen[i]].Bytes
		sum += most
		if most == w.demands[i].Whole.Bytes {
			most = math.MaxInt64 // whatever it has, if it is not known yet
		}
		w.of[i].filter.Most.Store(most)
	}
	return sum
}

// wish appends the filters of a state to the wishes of all stores, by a plan: those of keys, limited to the store's
// bound on memory for them, and those of prefixes that scans have asked for, unless prefixes is nil.
func (m *member) wish(s *tree.State, plan *filterplan.Plan, keys, prefixes *wishes) {
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
			keys.add(wish{m, t, &t.Keys}, r, forms)
			if prefixes == nil {
				continue
			}
			if forms := t.Prefixes.Forms(rate); forms != nil {
				prefixes.add(wish{m, t, &t.Prefixes}, r, forms)
			}
		}
	}
	if m.Planner.Memory > 0 {
		keys.demands[first:].Limit(m.Planner.Memory)
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
