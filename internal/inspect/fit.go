package inspect

import (
	"math"

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
	var keys, prefixes []filterplan.Demand // of each
	var wholes []bloomblock.Form
	for _, r := range t.runs {
		entries := uint64(0)
		for _, m := range r.members {
			entries += m.meta.Entries
		}
		for _, m := range r.members {
			if m.meta.Entries > 0 {
				d := filterplan.Demand{Weight: float64(m.meta.Entries) / float64(entries), Table: m.meta.Number}
				rate := p.now.Levels[m.level].Rate
				d.Forms = m.header.Forms(rate)
				members, keys = append(members, m), append(keys, d)
				wholes = append(wholes, d.Forms[len(d.Forms)-1])
				d.Forms = m.prefixHeader().Forms(rate)
				prefixes = append(prefixes, d)
			}
		}
	}
	if p.facts.Limit > 0 {
		chosen := filterplan.Fill(keys, int64(p.facts.Limit)) //nolint:gosec // checked when the plan was made
		p.good = p.planner.Near(p.step, filterplan.Wasted(keys, chosen) > p.now.FPR).Good
		for i, n := range chosen {
			keys[i].Forms = keys[i].Forms[:n+1]
		}
	}
	whole := filterplan.Fill(keys, math.MaxInt64)
	idle := filterplan.Fill(keys, filterplan.Idle.Space(t.budget, t.fixed))
	full := filterplan.Fill(keys, t.space())
	promise := func(u filterplan.Use, chosen []int) (q filterplan.Promise) {
		for i, d := range keys {
			q.Add(d.Weight, d.Forms[chosen[i]], wholes[i])
		}
		q.AtLeast(p.now.FPR)
		q.Budget = u.Budget(filterplan.Bytes(keys, whole), t.fixed)
		return q
	}
	p.promise = &Promise{
		MemoryBudget: t.budget, Asked: p.now.FPR, Whole: promise(filterplan.Idle, whole).Passed,
		Idle: promise(filterplan.Idle, idle), Writing: promise(filterplan.Writing, full),
	}
	for i, m := range members {
		form := keys[i].Forms[full[i]]
		if int64(m.place.FilterBytes) > form.Bytes { //nolint:gosec // a size
			m.reduce(form)
		}
		if filterplan.WorthAsking(form, wholes[i].Rate) {
			m.place.InFile, m.place.searched = true, m.header.Rate(len(m.header.Units))
		}
	}
	for i, n := range filterplan.Fill(prefixes, t.space()-filterplan.Bytes(keys, full)) {
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
