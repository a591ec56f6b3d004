package inspect

import (
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filterplan"
)

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
		entries := uint64(0)
		for _, m := range r.members {
			entries += m.meta.Entries
		}
		for _, m := range r.members {
			if n := m.meta.Entries; n > 0 {
				rate := p.now.Levels[m.level].Rate
				members = append(members, m)
				keys = append(keys, filterplan.NewDemand(m.meta.Number, n, entries, m.header.Forms(rate)))
				forms := m.prefixHeader().Forms(rate)
				prefixes = append(prefixes, filterplan.NewDemand(m.meta.Number, n, entries, forms))
			}
		}
	}
	if p.facts.Limit > 0 {
		keys.Limit(int64(p.facts.Limit)) //nolint:gosec // checked when the plan was made
		p.good = p.planner.Near(p.step, keys.Wasted(keys.All()) > p.now.FPR).Good
	}
	full := keys.Fill(t.space())
	promise := func(u filterplan.Use, chosen []int) filterplan.Promise {
		q := keys.Promise(p.now.FPR, chosen)
		q.Budget = u.Budget(keys.Most(), t.fixed)
		return q
	}
	p.promise = &Promise{
		MemoryBudget: t.budget, Asked: p.now.FPR, Whole: keys.Promise(p.now.FPR, keys.All()).Passed,
		Idle:    promise(filterplan.Idle, keys.Fill(filterplan.Idle.Space(t.budget, t.fixed))),
		Writing: promise(filterplan.Writing, full),
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
func (t *tree) space() int64 { return filterplan.Writing.Space(t.budget, t.fixed) }

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
