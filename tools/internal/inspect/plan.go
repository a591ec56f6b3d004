package inspect

import (
	"cmp"
	"math"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/forecast"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/words"
)

// A treePlan is the plan that a store has for its tree, by the options that it was last written with.
type treePlan struct {
	facts   *Plan
	planner filterplan.Planner
	step    int                // of the plan, if the memory for filters is bounded
	now     *filterplan.Plan   // by which filters are built and loaded
	good    []*filterplan.Plan // whose filters may stay
	promise *Promise           // by fit
}

// budget returns the MemoryBudget that a store is opened with.
func (o *Options) budget(s *manifest.State) int64 {
	if f := s.Filters; o.Budget == 0 && f != nil && f.Memory < math.MaxInt64/2 {
		return max(filterplan.DefaultBudget, 2*int64(f.Memory))
	}
	return cmp.Or(o.Budget, filterplan.DefaultBudget)
}

// planOf returns the plan of a store that has runs of the given sizes, with the given MemoryBudget. It returns nil if
// the manifest has no options, as in an earlier version, or options that this version does not accept.
func planOf(s *manifest.State, sizes []filterplan.Run, budget int64) *treePlan {
	f := s.Filters
	if f == nil {
		return nil
	}
	o, err := filterplan.Options{
		FPR: f.FPR, Memory: int64(f.Memory), //nolint:gosec // below 0 is refused
		Kind: filterplan.Kind(f.Kind), Ratio: int(f.Ratio),
	}.Checked()
	if err != nil {
		return nil
	}
	t := &treePlan{planner: o.Planner()}
	if f.Memory > 0 {
		t.step, _ = t.planner.ForRuns(sizes)
		t.now = t.planner.At(t.step)
	} else {
		first, err := t.planner.First(f.FPR)
		if err != nil {
			return nil
		}
		plans := t.planner.ForSpace(first, sizes, forecast.Writing.Space(budget, 0))
		t.now, t.good = plans.Now, plans.Good
	}
	t.facts = &Plan{
		FPR: t.now.FPR, Limit: f.Memory, Kind: filterplan.Kind(f.Kind).String(), Ratio: int(f.Ratio),
		Prefix: words.Escaped([]byte(f.Prefix), words.KeyLimit),
	}
	if f.FPR == 1 {
		t.facts.Kind, t.facts.Prefix = "none", ""
	}
	for l := range t.now.Levels {
		at := &t.now.Levels[l]
		t.facts.Levels = append(t.facts.Levels, PlanLevel{l, at.Rate, at.Params.Rate(), at.Params.BitsPerKey()})
	}
	return t
}

// follows reports whether the filter of a table was built by the plan, or by one that is near enough for the store to
// leave the table as it is. A table without versions has no filter that is used.
func (t *treePlan) follows(m *member) bool {
	rule := ""
	if x := m.facts.Prefix; x != nil {
		rule = x.Rule
	}
	return m.meta.Entries == 0 ||
		!filterplan.Off(t.good, m.level, m.meta.FilterRate) && (rule == t.facts.Prefix || m.facts.unread)
}

// count counts a table that was read.
func (t *treePlan) count(m *member) {
	switch {
	case m.meta.Entries == 0:
	case t.follows(m):
		t.facts.Tables++
	default:
		t.facts.TablesOffPlan++
		t.facts.BytesOffPlan += m.meta.Size
	}
}

// fit computes what the store promises with its memory, and reduces filters to what it has of each while memtables are
// full. All tables have been read, and the members have what their levels need.
func (t *tree) fit() {
	p := t.plan
	if p == nil {
		return
	}
	var members []*member
	var keys, prefixes filterplan.Demands // of each
	for _, r := range t.runs {
		for _, m := range r.members {
			if n := m.meta.Entries; n > 0 {
				rate := p.now.Levels[m.level].Rate
				members = append(members, m)
				keys = append(keys, filterplan.NewDemand(m.meta.Number, n, r.size.Keys, m.header.Forms(rate)))
				forms := m.prefixHeader().Forms(rate)
				prefixes = append(prefixes, filterplan.NewDemand(m.meta.Number, n, r.size.Keys, forms))
			}
		}
	}
	if p.facts.Limit > 0 {
		keys.Limit(int64(p.facts.Limit)) //nolint:gosec // checked when the plan was made
		p.good = p.planner.Near(p.step, keys.Wasted(keys.All()) > p.now.FPR).Good
	}
	full := keys.Fill(t.space())
	promise := func(u forecast.Use, chosen []int) filterplan.Promise {
		q := keys.Promise(p.now.FPR, chosen)
		q.Budget = u.Budget(keys.Most(), t.fixed)
		return q
	}
	p.promise = &Promise{
		MemoryBudget: t.budget, Asked: p.now.FPR, Whole: keys.Promise(p.now.FPR, keys.All()).Passed,
		Idle:    promise(forecast.Idle, keys.Fill(forecast.Idle.Space(t.budget, t.fixed))),
		Writing: promise(forecast.Writing, full),
	}
	for i, m := range members {
		form := keys[i].Forms[full[i]]
		if int64(m.place.FilterBytes) > form.Bytes { //nolint:gosec // a size
			m.reduce(form)
		}
		if filterplan.WorthAsking(form, keys[i].Whole.Rate) {
			m.place.InFile, m.place.searched = true, m.header.Rate(len(m.header.Units))
		}
	}
	for i, n := range prefixes.Fill(t.space() - keys.Bytes(full)) {
		members[i].prefix = uint64(prefixes[i].Forms[n].Bytes) //nolint:gosec // a size
	}
}

// space returns the bytes that filters may take while memtables are full.
func (t *tree) space() int64 { return forecast.Writing.Space(t.budget, t.fixed) }

// short reports whether the memory is too little for what was asked.
func (p *Promise) short() bool { return p != nil && p.Writing.Passed > p.Whole }

// prefixHeader returns the header of the member's prefix filter, without units if it has none.
func (m *member) prefixHeader() bloomblock.Header {
	if p := m.facts.Prefix; p != nil && p.Damage == nil {
		return p.header
	}
	return bloomblock.Header{}
}

// reduce gives the member's place the figures of the filter in a form.
func (m *member) reduce(form bloomblock.Form) {
	p := &m.place
	m.form = form
	p.FPR, p.FilterBytes, p.Units = form.Rate, uint64(form.Bytes), 0 //nolint:gosec // a size
	for i := range m.header.Units {
		if form.Has(i) {
			p.Units++
		}
	}
	if m.filter != nil && form.Bytes > 0 {
		if f, ok := m.filter.Reduce(m.header, form, bloomblock.AlignedBytes(form.Bytes)); ok {
			p.FPR = f.FalsePositiveRate()
		}
	}
}
