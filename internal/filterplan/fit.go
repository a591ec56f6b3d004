package filterplan

import (
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
)

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

// A Filter is the filter of a table, which has to fit into memory with others.
type Filter struct {
	Level   int
	Entries uint64            // of the table
	InFile  uint64            // bytes of its filter blocks
	Known   bool              // the header was read
	Header  bloomblock.Header // if Known; without units if there is no filter, or if it is damaged
	Loaded  int64             // bytes in memory, if Header has no units
}

// Fit returns how many units of each filter are kept so that all filters take at most memory, in bytes. Filters may
// not fit because they were built for fewer keys than there are now, or because level 0, whose filters are larger, has
// many keys. Fit first leaves out the last of three units, of one filter after the other, then the second units, and
// finally whole filters. The filters come in the order in which they lose units: the oldest run first. Fit reports
// whether it left out anything.
func (p *Plan) Fit(filters []Filter, memory int64) (kept []int, cut bool) {
	kept = make([]int, len(filters))
	sum := int64(0)
	for i, f := range filters {
		at := &p.Levels[f.Level]
		switch kept[i] = bloomblock.MaxUnits; {
		case !f.Known: // counted as if it were built for the level
			sum += min(at.Bytes(f.Entries, 1), int64(f.InFile)) //nolint:gosec // below the size of a file, as below
		case len(f.Header.Units) == 0:
			sum += f.Loaded
		default:
			kept[i] = f.Header.UnitsFor(at.Rate)
			sum += int64(f.Header.PrefixSize(kept[i]) - bloomblock.HeaderSize) //nolint:gosec // as above
		}
	}
	for keep := bloomblock.MaxUnits - 1; keep >= 0; keep-- {
		for i, f := range filters {
			if sum <= memory {
				return kept, cut
			}
			if units := f.Header.Units; len(units) > 0 && kept[i] > keep {
				sum -= int64(units[keep].Bytes()) //nolint:gosec // as above
				kept[i], cut = keep, true
			}
		}
	}
	return kept, cut
}

// Off reports whether a table on a level, whose filter promises a rate, follows none of the plans.
func Off(good []*Plan, level int, rate float64) bool {
	return !slices.ContainsFunc(good, func(p *Plan) bool { return p.Has(level, rate) })
}
