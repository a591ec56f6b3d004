package filterplan

import "slices"

// A Run is the size of one run of a tree.
type Run struct {
	Level  int
	Keys   uint64 // entries of its tables
	Tables int
}

// ForRuns returns the step of the best plan whose filters of all runs take at most f.Memory, as Within does.
func (f Planner) ForRuns(runs []Run) (step int, fits bool) {
	return f.Within(func(p *Plan) (sum int64) {
		for _, r := range runs {
			sum += p.Levels[BuildLevel(r.Level)].Bytes(r.Keys, r.Tables)
		}
		return sum
	})
}

// Off reports whether a table on a level, whose filter promises a rate, follows none of the plans.
func Off(good []*Plan, level int, rate float64) bool {
	return !slices.ContainsFunc(good, func(p *Plan) bool { return p.Has(level, rate) })
}
