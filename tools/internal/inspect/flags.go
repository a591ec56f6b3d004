package inspect

import (
	"fmt"

	"github.com/bloomkv/bloomkv/internal/words"
)

// wastesBy is the factor by which predicted wasted reads may exceed those that were asked, or are promised.
const wastesBy = 1.15

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
		most, by := s.Tree.Promised, "promised"
		if !p.short() && s.Plan.Limit == 0 && p.Asked < 1 {
			most, by = p.Asked, "asked" // whatever filters the tables have
		}
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
