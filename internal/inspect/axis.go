package inspect

import "bytes"

// measure finds the place of each table among the keys of the store, and what lookups of absent keys waste there.
func (t *tree) measure() {
	total := 0.0
	for _, r := range t.runs {
		r.before = make([]float64, 1, len(r.members)+1)
		sum := 0.0
		for _, m := range r.members {
			sum += m.fresh
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
			if upper := m.meta.Upper(); upper != nil {
				high += r.rank(upper)
			} else {
				high += r.before[len(r.members)]
			}
		}
		p := &m.place
		p.From = min(low/total, 1)
		p.To = min(max(high/total, p.From), 1)
		if m.meta.Entries > 0 { // else it is not searched
			p.Wasted = (p.To - p.From) * p.FPR
		}
	}
}

// rank is how many of the run's fresh keys are in front of key. Within a table they are taken to lie as its data does, which its
// index tells to half a block; of a table without one, half of them are in front of each key between its bounds.
func (r *memberRun) rank(key []byte) float64 {
	i, n := 0, len(r.members)
	for i < n {
		if mid := int(uint(i+n) >> 1); r.members[mid].meta.EndsBefore(key) {
			i = mid + 1
		} else {
			n = mid
		}
	}
	if i == len(r.members) {
		return r.before[i]
	}
	m := r.members[i]
	if bytes.Compare(key, m.meta.Smallest) <= 0 {
		return r.before[i]
	}
	share := 0.5
	if m.reader != nil {
		if s, err := m.reader.ShareBefore(key); err == nil {
			share = s
		}
	}
	return r.before[i] + m.fresh*share
}
