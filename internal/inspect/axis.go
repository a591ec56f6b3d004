package inspect

import (
	"bytes"
	"slices"
)

// measure finds the place of each table among the keys of the store, and what lookups of absent keys waste there.
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
	if total == 0 { // nothing but range deletes
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
		if m.meta.Entries > 0 { // else it is not searched
			p.Wasted = (p.To - p.From) * p.FPR
		}
	}
}

// rank is how many of the run's fresh keys are in front of key; nil is the end.
func (r *memberRun) rank(key []byte) float64 {
	i, n := 0, len(r.members)
	for i < n {
		if mid := int(uint(i+n) >> 1); key == nil || r.members[mid].meta.EndsBefore(key) {
			i = mid + 1
		} else {
			n = mid
		}
	}
	if i == len(r.members) {
		return r.before[i]
	}
	m := r.members[i]
	return r.before[i] + m.freshBefore(m.shareBefore(key))
}

// shareBefore is which share of the member's keys are in front of key; nil is the end. They are taken to lie as its data does, which
// its index tells to half a block; without an index, half of them are in front of each key between its bounds.
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

// A piece is a stretch of a member's keys that lie within the bounds of the same older runs.
type piece struct {
	to    float64 // share of the keys up to its end
	fresh float64 // of these, how many no older run has
}

// spread finds where those keys of the member lie that no older run has. What it has in common with one lies within that one's bounds,
// evenly, and no matter what it has in common with another.
func (m *member) spread(older []*memberRun, common func(r *memberRun) float64) {
	type cover struct{ from, to, fresh float64 } // fresh is the share of the keys there
	var covers []cover
	keys, cuts := float64(m.keys()), []float64{0, 1}
	for _, r := range older {
		n := common(r)
		c := cover{from: m.shareBefore(r.members[0].meta.Smallest), to: m.shareBefore(r.members[len(r.members)-1].meta.Upper())}
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

// freshBefore is how many fresh keys are among the first share of the member's keys.
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
