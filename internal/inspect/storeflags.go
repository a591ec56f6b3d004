package inspect

import "fmt"

// wastesBy is how far above the promise predicted wasted reads may be.
const wastesBy = 1.15

// flag says what is not as it should be.
func (t *tree) flag(s *Store) {
	say := func(name FlagName, file, format string, args ...any) {
		s.Flags = append(s.Flags, Flag{name, file, fmt.Sprintf(format, args...)})
	}
	if p := s.Plan; p != nil && s.Tree.Predicted > wastesBy*s.Tree.Promised {
		say(WastesMore, "", "lookups of absent keys waste %.3g reads by what the filters are, %.3g times as many as promised",
			s.Tree.Predicted, s.Tree.Predicted/s.Tree.Promised)
	}
	for _, m := range t.members {
		f := &m.facts
		switch {
		case f.unread:
			say(TableDamaged, f.File, "it could not be read: %s", f.Damage.Error)
		case f.damage() != nil:
			say(FilterDamaged, f.File, "%v", f.damage())
		case f.FilterBytes == 0 && f.Entries > 0 && s.Tree.FilterDisk > 0:
			say(NoFilter, f.File, "it has no filter, and is read by each lookup between its bounds")
		}
		if p := s.Plan; p != nil && f.FilterBytes > 0 && !f.filterDamaged && !f.unread && f.FPRPromised > p.Levels[m.level].FPR {
			say(FilterWorse, f.File, "its filter promises %.3g, and a run on level %d may have %.3g: it was built for another promise",
				f.FPRPromised, m.level, p.Levels[m.level].FPR)
		}
	}
}
