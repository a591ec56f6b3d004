package inspect

import (
	"bytes"
	"slices"
	"sort"
)

// measure determines the place of each table among the keys of the store, and what lookups of absent keys waste
// there.
func (t *tree) measure() {
	total := 0.0
	for _, r := range t.runs {
		r.before = make([]float64, 1, len(r.members)+1)
		sum := 0.0
		for _, m := range r.members {
			sum += m.freshBefore(1)
			r.before = append(r.before, sum)
		}
		total += sum
	}
	if total == 0 { // there are only range deletes
		return
	}
	for _, m := range t.members {
		low, high := m.run.before[m.at], m.run.before[m.at+1]
		for _, r := range t.runs {
			if r == m.run {
				continue
			}
			low += r.rank(m.meta.Smallest)
			high += r.rank(m.meta.Upper())
		}
		p := &m.place
		p.From = min(low/total, 1)
		p.To = min(max(high/total, p.From), 1)
		if m.meta.Entries > 0 { // else the table is not searched
			p.Wasted = (p.To - p.From) * p.rate()
		}
	}
}

// rank returns the number of the run's fresh keys before key; nil is the end.
func (r *memberRun) rank(key []byte) float64 {
	i := len(r.members)
	if key != nil {
		i = sort.Search(i, func(i int) bool { return !r.members[i].meta.EndsBefore(key) })
	}
	if i == len(r.members) {
		return r.before[i]
	}
	m := r.members[i]
	return r.before[i] + m.freshBefore(m.shareBefore(key))
}

// shareBefore returns the share of the member's keys before key; nil is the end. The keys are assumed to lie as the
// data does, which the index gives to half a block. Without an index, half of them lie before any key between the
// bounds.
func (m *member) shareBefore(key []byte) float64 {
	switch {
	case key == nil || m.meta.EndsBefore(key):
		return 1
	case bytes.Compare(key, m.meta.Smallest) <= 0:
		return 0
	case m.reader != nil:
		if s, err := m.reader.ShareBefore(key); err == nil {
			return s
		}
	}
	return 0.5
}

// A piece is an interval of a member's keys that lie within the bounds of the same older runs.
type piece struct {
	to    float64 // share of the keys up to the end of the piece
	fresh float64 // number of these that no older run has
}

// spread determines where the keys of the member lie that no older run has. The keys in common with an older run are
// assumed to be evenly distributed within its bounds, and independent of those in common with other runs.
func (m *member) spread(older []*memberRun, common func(r *memberRun) float64) {
	type cover struct{ from, to, fresh float64 } // fresh is the share of fresh keys there
	var covers []cover
	keys, cuts := float64(m.keys()), []float64{0, 1}
	for _, r := range older {
		n := common(r)
		c := cover{
			from: m.shareBefore(r.members[0].meta.Smallest),
			to:   m.shareBefore(r.members[len(r.members)-1].meta.Upper()),
		}
		if n > 0 && c.to > c.from {
			c.fresh = 1 - min(n/(keys*(c.to-c.from)), 1)
			covers, cuts = append(covers, c), append(cuts, c.from, c.to)
		}
	}
	slices.Sort(cuts)
	fresh := 0.0
	for i := 1; i < len(cuts); i++ {
		from, to := cuts[i-1], cuts[i]
		n := keys * (to - from)
		for _, c := range covers {
			if c.from <= from && to <= c.to {
				n *= c.fresh
			}
		}
		fresh += n
		m.pieces = append(m.pieces, piece{to, fresh})
	}
}

// freshBefore returns the number of fresh keys among the first share of the member's keys.
func (m *member) freshBefore(share float64) float64 {
	var from piece
	for _, p := range m.pieces {
		if share < p.to {
			return from.fresh + (p.fresh-from.fresh)*(share-from.to)/(p.to-from.to)
		}
		from = p
	}
	return from.fresh
}
