package inspect

import (
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// addTo adds the facts of the tree to s.
func (t *tree) addTo(s *Store) {
	s.Plan = t.plan
	s.Overlap = t.overlap()
	t.measure()
	s.Levels, s.Tables, s.Flags = []Level{}, []Table{}, []Flag{}
	demands := make([]demand, len(t.runs))
	for i, r := range t.runs {
		if n := len(s.Levels); n == 0 || s.Levels[n-1].Level != r.level {
			s.Levels = append(s.Levels, Level{Level: r.level})
		}
		l := &s.Levels[len(s.Levels)-1].Figures
		l.Runs++
		if t.plan != nil {
			l.Promised += t.plan.Levels[r.level].FPR
		}
		for _, m := range r.members {
			l.add(m)
			s.Memory.add(m)
			if t.plan != nil {
				t.plan.count(m)
			}
			demands[i].keys += float64(m.keys())
			demands[i].share += m.place.To - m.place.From
			demands[i].ribbon = demands[i].ribbon || m.ribbon()
			s.Tables = append(s.Tables, m.facts)
		}
	}
	all := &s.Tree
	for i := range s.Levels {
		all.merge(&s.Levels[i].Figures)
	}
	if t.plan != nil && t.plan.FPR < 1 { // else each run costs a read
		all.Promised = t.plan.FPR
	}
	all.BitsPerKey = bitsPerKey(all.FilterBytes, all.Keys)
	rates := optimum(demands, 8*float64(all.FilterBytes))
	for i := range s.Levels {
		l := &s.Levels[i]
		l.BitsPerKey = bitsPerKey(l.FilterBytes, l.Keys)
		for k, r := range t.runs {
			if r.level == l.Level {
				l.Optimum += demands[k].share * rates[k]
				l.Even += demands[k].share * bloomblock.LadderOf(demands[k].ribbon).Rate(all.BitsPerKey)
			}
		}
		all.Optimum += l.Optimum
		all.Even += l.Even
	}
	s.Memory.Sum = s.Memory.Filters + s.Memory.PrefixFilters + s.Memory.Indexes + s.Memory.RangeDeletes +
		s.Memory.Fences
	t.flag(s)
}

// ribbon reports whether the member's filter has a Ribbon unit.
func (m *member) ribbon() bool {
	return slices.ContainsFunc(m.facts.Units, func(u Unit) bool { return u.Columns > 0 })
}

func (f *Figures) add(m *member) {
	f.Tables++
	f.Bytes += m.meta.Size
	f.Entries += m.meta.Entries
	f.Keys += m.keys()
	f.FilterDisk += m.facts.FilterBytes
	f.FilterBytes += m.place.FilterBytes
	f.Predicted += m.place.Wasted
	f.live(m.facts.Live)
}

// live adds the answers of filters.
func (f *Figures) live(l *Live) {
	if l == nil {
		return
	}
	if f.Live == nil {
		f.Live = &Live{}
	}
	f.Live.FilterNegatives += l.FilterNegatives
	f.Live.TruePositives += l.TruePositives
	f.Live.FalsePositives += l.FalsePositives
	f.Live.Unfiltered += l.Unfiltered
	f.Live.Rate = f.Live.FPR()
}

// merge adds the sums of a level.
func (f *Figures) merge(l *Figures) {
	f.Runs += l.Runs
	f.Tables += l.Tables
	f.Bytes += l.Bytes
	f.Entries += l.Entries
	f.Keys += l.Keys
	f.FilterDisk += l.FilterDisk
	f.FilterBytes += l.FilterBytes
	f.Predicted += l.Predicted
	f.Promised += l.Promised
	f.live(l.Live)
}

func (f *Memory) add(m *member) {
	const heads = 2 * 8 // of the bounds
	f.Filters += m.place.FilterBytes
	f.PrefixFilters += m.prefix
	f.Indexes += uint64(m.index)     //nolint:gosec // a size, as below
	f.RangeDeletes += uint64(m.dels) //nolint:gosec // as above
	f.Fences += heads + uint64(len(m.meta.Smallest)+len(m.meta.Largest))
	f.SamplesOnDisk += m.unread
	if disk := m.facts.FilterBytes; disk > m.place.FilterBytes {
		f.FiltersOnDisk += disk - m.place.FilterBytes - min(bloomblock.HeaderSize, disk-m.place.FilterBytes)
	}
}
