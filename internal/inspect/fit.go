package inspect

import (
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filterplan"
)

// fit reduces filters to what a store with the memory for them has of each. All tables have been read, and the members
// have what their levels need.
func (t *tree) fit() {
	p := t.plan
	if p == nil {
		return
	}
	var members []*member
	var demands []filterplan.Demand
	for _, r := range t.runs {
		entries := uint64(0)
		for _, m := range r.members {
			entries += m.meta.Entries
		}
		for _, m := range r.members {
			if m.meta.Entries > 0 && !m.facts.unread {
				members = append(members, m)
				demands = append(demands, filterplan.Demand{
					Weight: float64(m.meta.Entries) / float64(entries), Order: m.meta.Number,
					Forms: m.header.Forms(p.now.Levels[m.level].Rate),
				})
			}
		}
	}
	space := p.space
	if p.facts.Limit > 0 {
		space = min(space, int64(p.facts.Limit)) //nolint:gosec // checked when the plan was made
	}
	cut := false
	for i, n := range filterplan.Fill(demands, space) {
		if forms := demands[i].Forms; n < len(forms)-1 {
			members[i].reduce(forms[:n+1])
			cut = true
		}
	}
	if p.facts.Limit > 0 {
		p.good = p.planner.Near(p.step, cut).Good
	}
	p.short = cut
}

// reduce brings the member's filter into the last of forms. Without a filter, the prefix filter is not loaded either.
func (m *member) reduce(forms []bloomblock.Form) {
	p, form := &m.place, forms[len(forms)-1]
	p.FPR, p.FilterBytes, p.Units = form.Rate, uint64(form.Bytes), 0 //nolint:gosec // a size
	for i := range m.header.Units {
		if form.Has(i) {
			p.Units++
		}
	}
	if form.Bytes == 0 {
		m.prefix = 0
	}
	if m.reader != nil {
		m.reader.ReduceFilter(forms)
		if f := m.reader.Filter(); f != nil && f.Form() == form {
			p.FPR = f.FalsePositiveRate()
		}
	}
}
