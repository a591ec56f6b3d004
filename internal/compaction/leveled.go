package compaction

import (
	"math"
	"slices"

	"github.com/bloomkv/bloomkv/internal/manifest"
)

// Leveled is the policy that keeps one run on each level except level 0, which gets a run from each flush.
//
// Levels count from the last one, which is fixed: the targets of the levels above derive from its actual size, and
// the base level, which level 0 is merged into, moves up as data grows.
type Leveled struct {
	Trigger int // runs of level 0, and small neighboring tables, that start a compaction
	Slow    int // runs of level 0 above which each further run slows writers more
	Stop    int // runs of level 0 at which writers wait

	Ratio         int    // bytes of a level for each byte of the level above
	TableSize     uint64 // bytes of a full table
	BaseLevelSize uint64 // bytes up to which the last level is the only one below level 0
}

// Pressure slows and stops writers by the number of runs in level 0.
func (l Leveled) Pressure(v *manifest.Version) Pressure {
	n := len(v.Levels[0])
	return Pressure{Slow: max(n-l.Slow, 0), Stop: n >= l.Stop}
}

// Backlog returns the runs of level 0 and the bytes above each level's target.
func (l Leveled) Backlog(v *manifest.Version) Backlog {
	base, targets := l.targets(v)
	b := Backlog{Base: base, Targets: targets}
	if l.level0(&Shape{Version: v}, base) != nil {
		b.Runs, b.Bytes = len(v.Levels[0])-l.Trigger+1, v.Bytes(0)
	}
	for i := 1; i < last; i++ {
		b.Bytes += v.Bytes(i) - min(v.Bytes(i), targets[i])
	}
	return b
}

// targets returns the base level, and the bytes that each level between level 0 and the last one should hold at
// most. Levels above the base level should be empty.
func (l Leveled) targets(v *manifest.Version) (base int, targets [manifest.NumLevels]uint64) {
	base = last
	for size := v.Bytes(last); size > l.BaseLevelSize && base > 1; base-- {
		size /= uint64(l.Ratio) //nolint:gosec // 2 to 100
		targets[base-1] = max(size, 1)
	}
	return base, targets
}

// Pick returns the most urgent compaction that can be carried out beside those that run, or nil. Level 0 is judged by
// its number of runs, as each costs every lookup a filter probe; the others by their bytes above the target. Once level
// 0 slows writers it comes before the others, which may be many times above their targets and stop nobody. Moving an
// ingested run comes first, as it costs nothing. What seeks have paid for comes after what is due, and compactions that
// join small tables or only drop data come last.
func (l Leveled) Pick(v Shape) *Plan {
	base, targets := l.targets(v.Version)
	if p := v.allowed(l.moveIngested(&v, base)); p != nil {
		return p
	}
	upper := l // for level 0 alone
	upper.Trigger = l.trigger(&v, base)
	due := [last]float64{float64(len(v.Levels[0])) / float64(upper.Trigger)}
	for i := 1; i < last; i++ {
		due[i] = float64(v.Bytes(i)) / float64(max(targets[i], 1))
	}
	if len(v.Levels[0]) >= l.Slow {
		due[0] = math.Inf(1)
	}
	for {
		level := 0
		for i := range due {
			if due[i] > due[level] {
				level = i
			}
		}
		switch {
		case due[level] < 1:
			return l.pays(&v, base)
		case level > 0:
			if p := v.mergeTable(level); p != nil {
				return p
			}
		default:
			if p := upper.level0(&v, base); p != nil {
				return p
			}
		}
		due[level] = 0
	}
}

// pays returns a compaction that is not urgent but pays, or nil.
func (l Leveled) pays(v *Shape, base int) *Plan {
	if p := l.sparesSeeks(v, base); p != nil {
		return p
	}
	if v.dropsFromLevel0(v.lowered(base)) {
		if p := v.allowed(v.mergeLevel0(base)); p != nil {
			return p
		}
	}
	if p := v.allowed(l.join(v)); p != nil {
		return p
	}
	return v.allowed(v.pickDrop())
}

// moveIngested moves the oldest run of level 0, if it was ingested and is not small, as far down as it overlaps
// nothing, if that is at least the base level. So loading sorted data into a range of keys of its own costs no
// compaction.
func (l Leveled) moveIngested(v *Shape, base int) *Plan {
	runs := v.Levels[0]
	if len(runs) == 0 {
		return nil
	}
	oldest := runs[len(runs)-1]
	if slices.ContainsFunc(oldest.Tables, func(t *manifest.Table) bool { return t.Flags&manifest.SeqOverridden == 0 }) {
		return nil
	}
	to := 0
	for to < last && v.fits(to+1, oldest.Tables) {
		to++
	}
	if to < base || oldest.Bytes() < l.TableSize/smallPart {
		return nil
	}
	return &Plan{To: to, Inputs: []Input{{0, oldest.ID, oldest.Tables}}, Move: true}
}

// mergeTable merges one table of a level into the next one: the table that overlaps the fewest bytes there for its
// size, of those that are allowed. Tables that range tombstones above delete as a whole wait for these, with which they
// are dropped unread.
func (v *Shape) mergeTable(level int) *Plan {
	var best *Plan
	var bestCost float64
	run, deleted := v.Levels[level][0], v.coverAbove(level, manifest.Bounds{})
	for _, t := range run.Tables {
		if deleted.whole(t, v.Snapshots) {
			continue
		}
		p := v.down(level+1, Input{level, run.ID, []*manifest.Table{t}})
		cost := float64(p.Bytes()) / float64(max(t.Size, 1))
		if (best == nil || cost < bestCost) && v.Allows(p) {
			best, bestCost = p, cost
		}
	}
	return best
}
