package inspect

import "fmt"

// wastesBy is the factor by which predicted wasted reads may exceed the promise.
const wastesBy = 1.15

// flag adds the problems of the tree to s.
func (t *tree) flag(s *Store) {
	add := func(name FlagName, file, format string, args ...any) {
		s.Flags = append(s.Flags, Flag{name, file, fmt.Sprintf(format, args...)})
	}
	if t.plan != nil && s.Tree.Predicted > wastesBy*s.Tree.Promised {
		add(WastesMore, "", "with these filters a lookup of an absent key wastes %.3g reads, %.3g times as many as "+
			"promised",
			s.Tree.Predicted, s.Tree.Predicted/s.Tree.Promised)
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
