package compaction

import (
	"slices"

	"github.com/bloomkv/bloomkv/internal/manifest"
)

// Policies and Manual build their plans with the methods of Shape in this file. A level below level 0 has one run: what
// is merged into it overlaps only the tables that are among the inputs.

// Allows reports whether a plan can be carried out beside those that run: it takes none of their tables, and its
// outputs overlap none of theirs. While a plan that runs begins the run of a level, no other writes there.
func (v *Shape) Allows(p *Plan) bool {
	for _, in := range p.Inputs {
		if slices.ContainsFunc(in.Tables, v.isTaken) {
			return false
		}
	}
	if p.To == 0 || len(v.rooms) == 0 { // in level 0 each plan writes a run of its own
		return true
	}
	b := boundsOf(p.Inputs)
	return !slices.ContainsFunc(v.rooms, func(r room) bool {
		return r.level == p.To && (len(v.Levels[p.To]) == 0 || !b.EndsBefore(r.b.Lo) && !r.b.EndsBefore(b.Lo))
	})
}

// isTaken reports whether a plan that runs has a table.
func (v *Shape) isTaken(t *manifest.Table) bool {
	if v.taken == nil {
		v.taken = map[uint64]bool{}
		for _, p := range v.Running {
			v.take(p)
		}
	}
	return v.taken[t.Number]
}

func (v *Shape) take(p *Plan) {
	for _, in := range p.Inputs {
		for _, t := range in.Tables {
			v.taken[t.Number] = true
		}
	}
	v.rooms = append(v.rooms, room{p.To, boundsOf(p.Inputs)})
}

// allowed returns p if it is allowed, or nil. Then less urgent plans that p could not run beside are not allowed
// either, so that p gets its turn.
func (v *Shape) allowed(p *Plan) *Plan {
	if p == nil || v.Allows(p) {
		return p
	}
	v.take(p)
	return nil
}

// Reserve counts p, which waits for plans that run, as one of them, so that it gets its turn. Its tables of level 0 may
// be merged with each other meanwhile. It must be called before the shape is used.
func (v *Shape) Reserve(p *Plan) {
	below := Plan{To: p.To}
	for _, in := range p.Inputs {
		if in.Level > 0 {
			below.Inputs = append(below.Inputs, in)
		}
	}
	if len(below.Inputs) > 0 {
		v.Running = append(slices.Clip(v.Running), &below)
	}
}

// level0Runs returns the runs of level 0, newest first.
func (v *Shape) level0Runs() (in []Input) {
	for _, r := range v.Levels[0] {
		in = append(in, Input{0, r.ID, r.Tables})
	}
	return in
}

// overlapping returns the tables of a level that share a key with b, by run.
func (v *Shape) overlapping(level int, b manifest.Bounds) []Input {
	var in []Input
	for _, r := range v.Levels[level] {
		if tables := r.Touching(b); len(tables) > 0 {
			in = append(in, Input{level, r.ID, tables})
		}
	}
	return in
}

// down merges tables, of one run or of several, into a level below theirs, or moves them there.
func (v *Shape) down(to int, in ...Input) *Plan {
	below := v.overlapping(to, boundsOf(in))
	move := len(below) == 0 && len(in) == 1 && v.movable(in[0].Tables, to)
	return &Plan{To: to, Inputs: slices.Concat(in, below), Move: move}
}

// mergeLevel0 merges level 0 into the base level, or into a level above that is not empty. It moves the oldest run
// as it is if that overlaps nothing there, as after sequential writes.
func (v *Shape) mergeLevel0(base int) *Plan {
	to := v.lowered(base)
	runs := v.level0Runs()
	if oldest := runs[len(runs)-1]; v.fits(to, oldest.Tables) {
		return &Plan{To: to, Inputs: []Input{oldest}, Move: true}
	}
	return &Plan{To: to, Inputs: append(runs, v.overlapping(to, boundsOf(runs))...)}
}

// lowered returns the level that level 0 is merged into. A tree that shrank has tables above the base level. They
// are newer than those of the base level, so level 0 is merged into them.
func (v *Shape) lowered(base int) int {
	for l := 1; l < base; l++ {
		if len(v.Levels[l]) > 0 {
			return l
		}
	}
	return base
}

// movable reports whether tables may move to a level as they are. A tombstone has nothing left to hide in the last
// level, so it is dropped on the way there. A table with an outdated filter is rewritten once, since the output's
// filter is of the present plan.
func (v *Shape) movable(tables []*manifest.Table, to int) bool {
	return !slices.ContainsFunc(tables, func(t *manifest.Table) bool {
		return to == last && hasTombstone(t) || v.outdated(to, t)
	})
}

// fits reports whether tables may move into gaps of a level.
func (v *Shape) fits(to int, tables []*manifest.Table) bool {
	return v.movable(tables, to) && !slices.ContainsFunc(tables, func(t *manifest.Table) bool {
		return len(v.overlapping(to, t.Bounds())) > 0
	})
}

func (v *Shape) outdated(level int, t *manifest.Table) bool {
	return v.Facts != nil && v.Facts.Outdated(level, t)
}

// rangeDels returns the known range tombstones of tables of one run.
func (v *Shape) rangeDels(tables []*manifest.Table) (known runDels) {
	for _, t := range tables {
		if t.RangeDeletes > 0 && v.Facts != nil {
			if dels := v.Facts.RangeDels(t); dels != nil {
				known = append(known, tableDels{t, dels})
			}
		}
	}
	return known
}

// stale returns the share of the keys of the oldest run that newer tables have too, or 0 if that is not known.
func (v *Shape) stale() float64 {
	if v.Facts == nil {
		return 0
	}
	return v.Facts.Stale()
}

func hasTombstone(t *manifest.Table) bool { return t.Deletes > 0 || t.RangeDeletes > 0 }
