package bloomkv

import (
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// replan makes the plans that fit Options.FilterMemory, if that is set, for a state that is about to be, or has just become, the
// current one. Filters drop the units that are too many, and further ones are loaded in the background. Where even the last units
// of older filters are too many, tables go without, those of the last level first. editMu is held, or nobody else knows the store
// yet. The error, which leaves all as it is but for plans, says that no filters of so many keys fit.
func (db *DB) replan(s *state) error {
	if db.opts.FilterMemory == 0 {
		return nil
	}
	planner := db.opts.planner()
	sizes, keys := make([]filterSizes, len(s.runs)), uint64(0)
	for i, r := range s.runs {
		sizes[i] = sizesOf(r)
		keys += sizes[i].keys
	}
	build, fits := planner.within(func(p *filterPlan) (sum int64) {
		for i, r := range s.runs {
			sum += p.level[buildLevel(r.level)].bytes(sizes[i].keys)
		}
		return sum
	})
	load, _ := planner.within(func(p *filterPlan) (sum int64) {
		for i, r := range s.runs {
			sum += sizes[i].bytes(&p.level[r.level])
		}
		return sum
	})
	db.plans.Store(&filterPlans{build, load})
	s.tables(func(_ int, t *table) { db.trim(t) })
	for level := bottom; level >= 0 && db.share.held.filters.Load() > db.opts.FilterMemory; level-- {
		for _, t := range levelTables(s, level) {
			if db.share.held.filters.Load() > db.opts.FilterMemory {
				db.res.shedTable(db, t, false)
			}
		}
	}
	db.share.offer()
	if !fits {
		return planner.tooLittle(keys)
	}
	return nil
}

// bytes is what filters of so many keys take that are built for the level.
func (l *levelPlan) bytes(keys uint64) int64 {
	return int64(float64(keys) * l.params.BitsPerKey() / 8)
}

// filterSizes is what the filters of a run take, at any rate: a dozen plans are priced by it, and tables may be many.
type filterSizes struct {
	keys    uint64
	headers []bloomblock.Header // of filters with units of equal rates: one, with their sizes added up

	unread     uint64 // keys of tables whose filters were not read yet
	unreadDisk uint64 // bytes of these
}

func sizesOf(r *run) (s filterSizes) {
	for _, t := range r.tables {
		s.keys += t.meta.Entries
		h, known := t.reader.FilterHeader()
		if !known {
			s.unread += t.meta.Entries
			s.unreadDisk += t.meta.FilterLen
			continue
		}
		i := slices.IndexFunc(s.headers, func(o bloomblock.Header) bool {
			return slices.EqualFunc(o.Units, h.Units, func(a, b bloomblock.UnitHeader) bool { return a.Rate == b.Rate })
		})
		if i < 0 {
			s.headers = append(s.headers, bloomblock.Header{Units: slices.Clone(h.Units)})
			continue
		}
		for k := range h.Units {
			s.headers[i].Units[k].Blocks += h.Units[k].Blocks
		}
	}
	return s
}

// bytes is what they take in memory at the level; what was not read yet is counted as if it were built for it.
func (s *filterSizes) bytes(l *levelPlan) int64 {
	sum := min(l.bytes(s.unread), int64(s.unreadDisk)) //nolint:gosec // far below 2⁶³, as below
	for _, h := range s.headers {
		sum += int64(h.PrefixSize(h.UnitsFor(l.rate)) - bloomblock.HeaderSize) //nolint:gosec // as above
	}
	return sum
}
