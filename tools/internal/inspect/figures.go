package inspect

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/forecast"
	"github.com/bloomkv/bloomkv/internal/words"
)

// addTo adds the facts of the tree to s.
func (t *tree) addTo(s *Store) {
	s.Overlap = t.overlap()
	t.measure()
	s.Levels, s.Tables, s.Flags = []Level{}, []Table{}, []Flag{}
	demands, everywhere := make([]demand, len(t.runs)), 0.0
	for i, r := range t.runs {
		if n := len(s.Levels); n == 0 || s.Levels[n-1].Level != r.level {
			s.Levels = append(s.Levels, Level{Level: r.level})
		}
		l := &s.Levels[len(s.Levels)-1].Figures
		l.Runs++
		if t.plan != nil {
			l.Promised += t.plan.now.Levels[r.level].Rate
		}
		var waste filterplan.Mean
		for _, m := range r.members {
			l.add(m.figures())
			s.Memory.add(m)
			if t.plan != nil {
				t.plan.count(m)
			}
			waste.Add(m.meta.Entries, m.place.rate())
			demands[i].keys += float64(m.keys())
			demands[i].share += m.place.To - m.place.From
			demands[i].ribbon = demands[i].ribbon || m.ribbon()
			s.Tables = append(s.Tables, m.facts)
		}
		everywhere += waste.Value()
	}
	all := &s.Tree
	for i := range s.Levels {
		l := &s.Levels[i].Figures
		if a := l.Live; a != nil && a.FalsePositives+a.FilterNegatives > 0 {
			l.Measured = float64(l.Runs) * float64(a.FalsePositives) / float64(a.FalsePositives+a.FilterNegatives)
		}
		all.add(l)
	}
	if p := t.plan; p != nil {
		s.Plan = p.facts
		s.Promise = p.promise
		all.Promised = filterplan.Promised(p.promise.Writing.FPR, everywhere)
	}
	t.compare(s, demands)
	t.leaveParts(&s.Memory)
	s.Memory.Sum = s.Memory.Filters + s.Memory.PrefixFilters + s.Memory.Indexes + s.Memory.RangeDeletes +
		s.Memory.Tables
	t.flag(s)
}

// compare compares the filters with others of the same memory: the best ones, and those with equally many bits for
// every key.
func (t *tree) compare(s *Store, demands []demand) {
	all := &s.Tree
	all.BitsPerKey = bitsPerKey(all.FilterBytes, all.Keys)
	rates := optimum(demands, 8*float64(all.FilterBytes))
	for i := range s.Levels {
		l := &s.Levels[i]
		l.BitsPerKey = bitsPerKey(l.FilterBytes, l.Keys)
		for k, r := range t.runs {
			if r.level == l.Level {
				l.Optimum += demands[k].share * rates[k]
				l.Even += demands[k].share * forecast.LadderOf(demands[k].ribbon).Rate(all.BitsPerKey)
			}
		}
		all.Optimum += l.Optimum
		all.Even += l.Even
	}
	if all.Optimum <= all.Predicted {
		return
	}
	all.Optimum = all.Predicted // filters of few keys are better than the best of many
	for i := range s.Levels {
		s.Levels[i].Optimum = s.Levels[i].Predicted
	}
}

// ribbon reports whether the member's filter has a Ribbon unit.
func (m *member) ribbon() bool {
	return slices.ContainsFunc(m.facts.Units, func(u Unit) bool { return u.Columns > 0 })
}

// figures returns those of the member alone.
func (m *member) figures() *Figures {
	f := &Figures{
		Tables: 1, Bytes: m.meta.Size, Entries: m.meta.Entries, Keys: m.keys(), FilterDisk: m.facts.FilterBytes,
		FilterBytes: m.place.FilterBytes, Predicted: m.place.Wasted, Live: m.facts.Live,
	}
	if m.place.InFile {
		f.Pages = (m.place.To - m.place.From) * m.place.FPR * (1 + m.form.MorePages)
	}
	return f
}

// add adds the sums of a table or of a level.
func (f *Figures) add(l *Figures) {
	f.Runs += l.Runs
	f.Tables += l.Tables
	f.Bytes += l.Bytes
	f.Entries += l.Entries
	f.Keys += l.Keys
	f.FilterDisk += l.FilterDisk
	f.FilterBytes += l.FilterBytes
	f.Predicted += l.Predicted
	f.Pages += l.Pages
	f.Promised += l.Promised
	f.Measured += l.Measured
	if l.Live != nil {
		if f.Live == nil {
			f.Live = &Live{}
		}
		f.Live.FilterNegatives += l.Live.FilterNegatives
		f.Live.TruePositives += l.Live.TruePositives
		f.Live.FalsePositives += l.Live.FalsePositives
		f.Live.Unfiltered += l.Live.Unfiltered
		f.Live.Rate = f.Live.FPR()
	}
}

// leaveParts leaves the parts of indexes on disk for which memory has no space while memtables are full.
func (t *tree) leaveParts(f *Memory) {
	if t.plan == nil {
		return
	}
	filters := int64(f.Filters + f.PrefixFilters) //nolint:gosec // sizes, as below
	free := forecast.Writing.Free(t.budget)
	space := filterplan.PartsSpace(max(free-t.fixed-filters, 0), free)
	if more := int64(f.Indexes) - t.tops - space; more > 0 { //nolint:gosec // as above
		f.Indexes -= uint64(more)
		f.IndexesOnDisk = uint64(more)
	}
}

func (f *Memory) add(m *member) {
	f.Filters += m.place.FilterBytes
	f.PrefixFilters += m.prefix
	f.Indexes += uint64(m.index)                  //nolint:gosec // a size, as below
	f.RangeDeletes += uint64(m.dels)              //nolint:gosec // as above
	f.Tables += uint64(m.meta.DescriptionBytes()) //nolint:gosec // as above
	f.SamplesOnDisk += m.unread
	if disk := m.facts.FilterBytes; disk > m.place.FilterBytes {
		f.FiltersOnDisk += disk - m.place.FilterBytes - min(bloomblock.HeaderSize, disk-m.place.FilterBytes)
	}
}

// wastesBy is the factor by which predicted wasted reads may exceed those that were asked, or are promised.
const wastesBy = 1.15

// mostWasted returns the wasted reads that the store may have: those that were asked, or that are promised with less
// memory.
func (s *Store) mostWasted() (most float64, by string) {
	p := s.Promise
	if p == nil {
		return 0, ""
	}
	if !p.short() && s.Plan.Limit == 0 && p.Asked < 1 {
		return p.Asked, "asked" // whatever filters the tables have
	}
	return s.Tree.Promised, "promised"
}

// flag adds the problems of the tree to s.
func (t *tree) flag(s *Store) {
	add := func(name FlagName, file, format string, args ...any) {
		s.Flags = append(s.Flags, Flag{name, file, fmt.Sprintf(format, args...)})
	}
	if p := s.Promise; p.short() {
		add(MemoryShort, "", "a MemoryBudget of %s is too little for the filters that a rate of %.3g takes: while the "+
			"store is written to, a lookup of an absent key searches up to %.3g tables in vain and asks %.3g pages of "+
			"filters in files; while it is idle, %.3g and %.3g; %s would hold all filters",
			words.MiB(p.MemoryBudget), p.Asked, p.Writing.FPR, p.Writing.Pages, p.Idle.FPR, p.Idle.Pages,
			words.MiB(p.Writing.Budget))
	}
	if p := s.Promise; p != nil {
		most, by := s.mostWasted()
		if s.Tree.Predicted > wastesBy*most {
			add(WastesMore, "", "with these filters a lookup of an absent key wastes %.3g reads, %.3g times as many "+
				"as %s", s.Tree.Predicted, s.Tree.Predicted/most, by)
		}
	}
	for _, m := range t.members {
		f := &m.facts
		switch {
		case f.unread:
			add(TableDamaged, f.File, "it could not be read: %s", f.Damage.Error)
		case f.damage() != nil:
			add(FilterDamaged, f.File, "%v", f.damage())
		case f.FilterBytes == 0 && f.Entries > 0 && s.Tree.FilterDisk > 0:
			add(NoFilter, f.File, "it has no filter, so every lookup between its bounds reads it")
		}
		if p := t.plan; p != nil && f.FilterBytes > 0 && !f.filterDamaged && !f.unread && !p.follows(m) &&
			f.FPRPromised > p.now.Levels[m.level].Rate {
			add(FilterWorse, f.File, "its filter promises %.3g, but a run on level %d may have %.3g: it was built "+
				"for another promise",
				f.FPRPromised, m.level, p.now.Levels[m.level].Rate)
		}
	}
}

// A demand is what a run asks of the memory for filters.
type demand struct {
	keys   float64
	share  float64 // of absent keys for which its tables are asked
	ribbon bool    // its filters have Ribbon units, except in small tables
}

// optimum returns the rate of the filters of each run that minimizes the sum of shares times rates within the given
// number of bits. It assigns each bit to the run that gains most per key. The rates become proportional to keys
// (Dayan, Athanassoulis, Idreos, "Monkey: Optimal Navigable Key-Value Store", SIGMOD 2017), with filters that can be
// built. If the last step does not fit for a whole run, it is applied to some of its tables.
func optimum(runs []demand, bits float64) []float64 {
	type step struct {
		run        int
		bits, rate float64 // additional bits, and reduction of the rate
		gain       float64 // per bit
	}
	var steps []step
	rates := make([]float64, len(runs))
	for i, r := range runs {
		rates[i] = 1
		rungs := forecast.LadderOf(r.ribbon)
		for k := 1; k < len(rungs) && r.keys > 0; k++ {
			a, b := rungs[k-1], rungs[k]
			s := step{run: i, bits: r.keys * (b.BitsPerKey - a.BitsPerKey), rate: a.Rate - b.Rate}
			s.gain = r.share * s.rate / s.bits
			steps = append(steps, s)
		}
	}
	// the steps of a run stay in order
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(b.gain, a.gain) })
	for _, s := range steps {
		part := min(bits/s.bits, 1)
		rates[s.run] -= part * s.rate
		if bits -= part * s.bits; part < 1 {
			break
		}
	}
	return rates
}
