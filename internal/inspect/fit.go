package inspect

import (
	"slices"

	"github.com/bloomkv/bloomkv/internal/filterplan"
)

// fit leaves out the units of filters that a store with bounded memory for them does not load. All tables have been
// read, and the members have the units that their levels need.
func (t *tree) fit() {
	p := t.plan
	if p == nil || p.facts.Limit == 0 {
		return
	}
	var members []*member
	var filters []filterplan.Filter
	for _, r := range slices.Backward(t.runs) {
		for _, m := range r.members {
			members = append(members, m)
			filters = append(filters, filterplan.Filter{
				Level: m.level, Entries: m.meta.Entries, InFile: m.meta.FilterLen, Known: !m.facts.unread,
				Header: m.header, Loaded: int64(m.place.FilterBytes), //nolint:gosec // below the size of a file
			})
		}
	}
	kept, cut := p.now.Fit(filters, int64(p.facts.Limit)) //nolint:gosec // checked when the plan was made
	for i, m := range members {
		if kept[i] < m.place.Units {
			m.leave(kept[i])
		}
	}
	p.good = p.planner.Near(p.step, cut).Good
}

// leave leaves n units of the member's filter in memory. Without all units that the level needs, the prefix filter is
// not loaded either.
func (m *member) leave(n int) {
	p := &m.place
	for _, u := range m.facts.Units[n:p.Units] { // Bloom units: a Ribbon unit, whose rate is sampled, is the first
		if u.FPRFromBits > 0 { // else no bit is set, and the rate is 0
			p.FPR /= u.FPRFromBits
		}
	}
	if n == 0 {
		p.FPR = 1
	}
	p.Units, p.FilterBytes, m.prefix = n, m.header.PrefixSize(n)-m.header.PrefixSize(0), 0
	if m.reader != nil {
		_ = m.reader.DropFilterUnits(n) // with fewer units, nothing can be damaged
	}
}
