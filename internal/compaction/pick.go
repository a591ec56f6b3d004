// Package compaction decides which tables to merge, and merges them. Pick is pure: a version in, a plan out. Write turns
// sorted versions into tables; a flush is a Write of one memtable. Goroutines, locks and the manifest are the caller's.
package compaction

import (
	"bytes"
	"slices"

	"github.com/bloomkv/bloomkv/internal/manifest"
)

// Options are the shape of the tree. Levels count from the last one, which is fixed: the targets of the levels above
// derive from its actual bytes, and the base level, which level 0 is merged into, moves up as data grows.
type Options struct {
	Trigger       int    // runs of level 0 that start a compaction
	Ratio         int    // bytes of a level for each byte of the level above
	BaseLevelSize uint64 // bytes up to which the last level is the only one below level 0
}

const last = manifest.NumLevels - 1

// A Plan is one compaction: the inputs, newest data first, become tables of the level To. Where Move is true the tables
// change their level as they are.
type Plan struct {
	To     int
	Inputs []Input
	Move   bool
}

// An Input is tables of one run.
type Input struct {
	Level  int
	Run    uint64
	Tables []*manifest.Table
}

// Bytes is the size of all inputs.
func (p *Plan) Bytes() uint64 {
	var n uint64
	for _, in := range p.Inputs {
		for _, t := range in.Tables {
			n += t.Size
		}
	}
	return n
}

// Targets are the bytes each level should hold at most, and the base level. Levels above the base should be empty.
func Targets(v *manifest.Version, o Options) (base int, targets [manifest.NumLevels]uint64) {
	base = last
	targets[last] = ^uint64(0)
	for size := v.Bytes(last); size > o.BaseLevelSize && base > 1; base-- {
		size /= uint64(o.Ratio) //nolint:gosec // 2 to 100
		targets[base-1] = max(size, 1)
	}
	return base, targets
}

// Pick is the most urgent compaction, or nil when the tree is in shape. Level 0 counts by runs, as each costs every lookup
// a filter probe; the others by bytes above their target.
func Pick(v *manifest.Version, o Options) *Plan {
	base, targets := Targets(v, o)
	level, worst := -1, 1.0
	if n := len(v.Levels[0]); n >= o.Trigger {
		level, worst = 0, float64(n)/float64(o.Trigger)
	}
	for l := 1; l < last; l++ {
		if len(v.Levels[l]) == 0 {
			continue
		}
		score := float64(v.Bytes(l)) / float64(max(targets[l], 1))
		if len(v.Levels[l]) > 1 {
			score = max(score, 2)
		}
		if score > worst || level < 0 && score >= worst {
			level, worst = l, score
		}
	}
	switch {
	case level < 0:
		return nil
	case level == 0:
		return pickNewest(v, base)
	default:
		return pickTable(v, level)
	}
}

// pickNewest merges level 0 into the base level. The oldest run moves down as it is where it overlaps nothing there, which
// is what sequential writes look like.
func pickNewest(v *manifest.Version, base int) *Plan {
	runs := v.Levels[0]
	for l := 1; l < base; l++ { // what the shrinking of the tree left above the base is newer than the base: it goes first
		if len(v.Levels[l]) > 0 {
			base = l
		}
	}
	oldest := runs[len(runs)-1]
	lo, hi := bounds(oldest.Tables)
	if len(overlapping(v, base, lo, hi)) == 0 && movable(oldest.Tables, base) {
		return &Plan{To: base, Inputs: []Input{{0, oldest.ID, oldest.Tables}}, Move: true}
	}
	p := &Plan{To: base}
	var all []*manifest.Table
	for _, r := range runs {
		p.Inputs = append(p.Inputs, Input{0, r.ID, r.Tables})
		all = append(all, r.Tables...)
	}
	lo, hi = bounds(all)
	p.Inputs = append(p.Inputs, overlapping(v, base, lo, hi)...)
	return p
}

// pickTable merges one table of a level into the next: the one that overlaps the fewest bytes there for its size.
func pickTable(v *manifest.Version, level int) *Plan {
	var best *Plan
	var bestCost float64
	runs := v.Levels[level]
	oldest := runs[len(runs)-1] // a table goes down only under what is newer than it
	for _, t := range oldest.Tables {
		below := overlapping(v, level+1, t.Smallest, t.Largest)
		p := &Plan{To: level + 1, Inputs: append([]Input{{level, oldest.ID, []*manifest.Table{t}}}, below...)}
		p.Move = len(below) == 0 && movable(p.Inputs[0].Tables, level+1)
		if cost := float64(p.Bytes()) / float64(max(t.Size, 1)); best == nil || cost < bestCost {
			best, bestCost = p, cost
		}
	}
	return best
}

// PickRange merges what a level holds of the range into the next level, or level 0 into the base level. It is nil where
// there is nothing to do. nil bounds are infinite; both are inclusive.
func PickRange(v *manifest.Version, o Options, level int, lo, hi []byte) *Plan {
	in := overlapping(v, level, lo, hi)
	if len(in) == 0 {
		return nil
	}
	if level == 0 {
		base, _ := Targets(v, o)
		p := pickNewest(v, base)
		return p
	}
	if level == last {
		// Neighbours only: the outputs may span all between their inputs. Others come with the next plan.
		tables := in[0].Tables
		dead := func(t *manifest.Table) bool { return t.Deletes > 0 }
		from := slices.IndexFunc(tables, dead)
		if from < 0 {
			return nil
		}
		to := from + 1
		for to < len(tables) && dead(tables[to]) {
			to++
		}
		return &Plan{To: last, Inputs: []Input{{last, in[0].Run, tables[from:to:to]}}}
	}
	var all []*manifest.Table
	for _, input := range in {
		all = append(all, input.Tables...)
	}
	lo, hi = bounds(all)
	in = overlapping(v, level, lo, hi)
	below := overlapping(v, level+1, lo, hi)
	return &Plan{To: level + 1, Inputs: append(in, below...), Move: len(below) == 0 && len(in) == 1 && movable(all, level+1)}
}

// movable says whether tables may go to a level as they are: in the last one nothing is left for a tombstone to hide.
func movable(tables []*manifest.Table, to int) bool {
	return to != last || !slices.ContainsFunc(tables, func(t *manifest.Table) bool { return t.Deletes > 0 })
}

// overlapping is the tables of a level that share a key with the range, by run.
func overlapping(v *manifest.Version, level int, lo, hi []byte) []Input {
	var in []Input
	for _, r := range v.Levels[level] {
		if tables := r.Overlapping(lo, hi); len(tables) > 0 {
			in = append(in, Input{level, r.ID, tables})
		}
	}
	return in
}

// bounds is the smallest and the largest key of tables.
func bounds(tables []*manifest.Table) (lo, hi []byte) {
	lo, hi = tables[0].Smallest, tables[0].Largest
	for _, t := range tables[1:] {
		if bytes.Compare(t.Smallest, lo) < 0 {
			lo = t.Smallest
		}
		if bytes.Compare(t.Largest, hi) > 0 {
			hi = t.Largest
		}
	}
	return lo, hi
}
