// Package compaction decides which tables to merge, and merges them. Pick and Manual are pure: a version in, a plan out. Flush
// and Run turn sorted versions and range tombstones into tables. Goroutines, locks and the manifest are the caller's.
package compaction

import (
	"slices"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// Options are the shape of the tree, and what is known beside it. Levels count from the last one, which is fixed: the
// targets of the levels above derive from its actual bytes, and the base level, which level 0 is merged into, moves up as
// data grows.
type Options struct {
	Trigger       int    // runs of level 0 that start a compaction
	Ratio         int    // bytes of a level for each byte of the level above
	BaseLevelSize uint64 // bytes up to which the last level is the only one below level 0

	// Snapshots that readers hold, ascending: what they need is not worth a compaction that is about dropping it.
	Snapshots []ikey.Seq
	Facts     TableFacts // nil means that nothing is known
}

// TableFacts are facts about tables that the manifest does not have. The methods read no file.
type TableFacts interface {
	// RangeDels returns the range tombstones of a table that has some, or nil if they are not in memory. Then they do not
	// justify a compaction of their own.
	RangeDels(t *manifest.Table) rangedel.List
	// Outdated reports whether the table's filter differs from one that would be built for the level now. Such a table is
	// rewritten instead of being moved to the level, and a Manual rewrites it instead of leaving it there.
	Outdated(level int, t *manifest.Table) bool
}

func (o *Options) outdated(level int, t *manifest.Table) bool {
	return o.Facts != nil && o.Facts.Outdated(level, t)
}

const last = manifest.NumLevels - 1

// A Plan is one compaction: the inputs, newest data first, become tables of the level To. All tables of that level which
// share a key with the stretch from the first to the last input are among them. Where Move is true the tables change their
// level as they are.
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
func (p *Plan) Bytes() uint64 { return bytesOf(p.Inputs) }

func bytesOf(inputs []Input) (n uint64) {
	for _, in := range inputs {
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
// a filter probe; the others by bytes above their target. Ingested tables that only need to be moved come first, which
// costs nothing; what is worth dropping comes last, see pickEarly.
func Pick(v *manifest.Version, o Options) *Plan {
	base, targets := Targets(v, o)
	if p := o.pickIngested(v, base); p != nil {
		return p
	}
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
		return pickEarly(v, o, base)
	case level == 0:
		return o.pickNewest(v, base)
	default:
		return o.pickTable(v, level)
	}
}

// pickIngested moves the oldest run of level 0, if it was ingested, as far down as it overlaps nothing, if that is the base
// level at least. Loading sorted data into its own stretch of keys costs no compaction then.
func (o *Options) pickIngested(v *manifest.Version, base int) *Plan {
	if len(v.Levels[0]) == 0 {
		return nil
	}
	oldest := v.Levels[0][len(v.Levels[0])-1]
	if slices.ContainsFunc(oldest.Tables, func(t *manifest.Table) bool { return t.Flags&manifest.SeqOverridden == 0 }) {
		return nil
	}
	to := 0
	for to < last && o.fits(v, to+1, oldest.Tables) {
		to++
	}
	if to < base {
		return nil
	}
	return &Plan{To: to, Inputs: []Input{{0, oldest.ID, oldest.Tables}}, Move: true}
}

// pickNewest merges level 0 into the base level. The oldest run moves down as it is where it overlaps nothing there, which
// is what sequential writes look like.
func (o *Options) pickNewest(v *manifest.Version, base int) *Plan {
	runs := v.Levels[0]
	base = lowered(v, base)
	oldest := runs[len(runs)-1]
	if o.fits(v, base, oldest.Tables) {
		return &Plan{To: base, Inputs: []Input{{0, oldest.ID, oldest.Tables}}, Move: true}
	}
	p := &Plan{To: base}
	for _, r := range runs {
		p.Inputs = append(p.Inputs, Input{0, r.ID, r.Tables})
	}
	p.Inputs = append(p.Inputs, closed(v, base, boundsOf(p.Inputs))...)
	return p
}

// lowered is the level that level 0 is merged into: what the shrinking of the tree left above the base is newer than the
// base, and goes first.
func lowered(v *manifest.Version, base int) int {
	for l := 1; l < base; l++ {
		if len(v.Levels[l]) > 0 {
			return l
		}
	}
	return base
}

// pickTable merges one table of a level into the next: the one that overlaps the fewest bytes there for its size.
func (o *Options) pickTable(v *manifest.Version, level int) *Plan {
	var best *Plan
	var bestCost float64
	runs := v.Levels[level]
	oldest := runs[len(runs)-1] // a table goes down only under what is newer than it
	for _, t := range oldest.Tables {
		p := o.down(v, level+1, Input{level, oldest.ID, []*manifest.Table{t}})
		if cost := float64(p.Bytes()) / float64(max(t.Size, 1)); best == nil || cost < bestCost {
			best, bestCost = p, cost
		}
	}
	return best
}

// down merges tables, of one run or of several, into a level below theirs, or moves them there.
func (o *Options) down(v *manifest.Version, to int, in ...Input) *Plan {
	below := closed(v, to, boundsOf(in))
	return &Plan{To: to, Inputs: slices.Concat(in, below), Move: len(below) == 0 && len(in) == 1 && o.movable(in[0].Tables, to)}
}

// movable says whether tables may go to a level as they are: in the last one nothing is left for a tombstone to hide, and a
// filter of another plan is built again on the way. It is then of the plan, so that no table is written anew twice for that.
func (o *Options) movable(tables []*manifest.Table, to int) bool {
	return !slices.ContainsFunc(tables, func(t *manifest.Table) bool { return to == last && hasTombstone(t) || o.outdated(to, t) })
}

// fits says whether tables may move into gaps of a level.
func (o *Options) fits(v *manifest.Version, to int, tables []*manifest.Table) bool {
	return o.movable(tables, to) && !slices.ContainsFunc(tables, func(t *manifest.Table) bool {
		return len(overlapping(v, to, t.Bounds())) > 0
	})
}

func hasTombstone(t *manifest.Table) bool { return t.Deletes > 0 || t.RangeDeletes > 0 }

// overlapping is the tables of a level that share a key with b, by run.
func overlapping(v *manifest.Version, level int, b manifest.Bounds) []Input {
	var in []Input
	for _, r := range v.Levels[level] {
		if tables := r.Touching(b); len(tables) > 0 {
			in = append(in, Input{level, r.ID, tables})
		}
	}
	return in
}

// closed is the tables of a level that share a key with b, and where the level has several runs those that share one with
// these, and so on: what they are merged into overlaps no other table of the level.
func closed(v *manifest.Version, level int, b manifest.Bounds) []Input {
	in := overlapping(v, level, b)
	for n := 0; len(v.Levels[level]) > 1 && len(in) > 0 && n != count(in); {
		n = count(in)
		in = overlapping(v, level, b.Union(boundsOf(in)))
	}
	return in
}

func count(inputs []Input) (n int) {
	for _, in := range inputs {
		n += len(in.Tables)
	}
	return n
}

// bounds is the stretch from the first to the last key of tables, of which there is at least one.
func bounds(tables []*manifest.Table) manifest.Bounds {
	b := tables[0].Bounds()
	for _, t := range tables[1:] {
		b = b.Union(t.Bounds())
	}
	return b
}

// boundsOf is the stretch from the first to the last key of inputs, of which there is at least one.
func boundsOf(inputs []Input) manifest.Bounds {
	b := bounds(inputs[0].Tables)
	for _, in := range inputs[1:] {
		b = b.Union(bounds(in.Tables))
	}
	return b
}
