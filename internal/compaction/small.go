package compaction

import (
	"slices"

	"github.com/bloomkv/bloomkv/internal/manifest"
)

// Without the rule of this file, a store that flushes little and often would keep a table for each flush, or rewrite
// large tables for each. Neighbors are merged if the largest is at most as large as the others together. The runs of
// level 0 are neighbors in time, and the tables that they would be merged into are the oldest one. Small tables of one
// run are neighbors by their keys. What is rewritten becomes at least twice as large, so until it is n times as large
// it is rewritten at most log2(n) times. docs/decisions.md has the figures.

// Level 0 is also merged further once looks of seeks into its runs have paid for it. If a look paid for as much merging
// as takes the same time, at most twice the time would be spent that is spent if the number of seeks is known before
// (as with skis that one rents or buys: Karlin, Manasse, Rudolph, Sleator 1988). LevelDB counts the seeks that a table
// has cost.

// A look pays for merging seekBytes. It takes as long as merging 250 bytes if all is in memory, 2 µs, and 50 KB if it
// reads a block from a disk, 100 µs; this lies in the middle.
const seekBytes = 4 << 10

// While nobody writes, or once seeks have paid, the largest may have idleTimes the size of the others together.
const idleTimes = 3

// If newer tables have this share of the keys of the last level, level 0 is merged into it, although it is smaller: the
// entries below that nobody reads any more take space.
const muchStale = 0.25

// staleRuns is the part of Trigger that starts a compaction of level 0 if newer tables have all keys of the oldest run.
// If they have less of them, it takes more runs.
const staleRuns = 3.0 / 8

// tinyPart is the part of the next older run below which a run is tiny.
const tinyPart = 8

// smallPart is the part of TableSize below which a table is small.
const smallPart = 8

// neighbors returns the range [from, to) of the neighbors to merge: all, or some on one side of the largest. They are
// merged if the largest has at most times the size of the others together. The range is empty if none should be merged.
func neighbors(sizes []uint64, times uint64) (from, to int) {
	if len(sizes) < 2 {
		return 0, 0
	}
	largest, sum := 0, uint64(0)
	for i, size := range sizes {
		sum += size
		if size > sizes[largest] {
			largest = i
		}
	}
	if sizes[largest] <= times*(sum-sizes[largest]) {
		return 0, len(sizes)
	}
	if from, to = neighbors(sizes[:largest], times); from < to {
		return from, to
	}
	from, to = neighbors(sizes[largest+1:], times)
	return largest + 1 + from, largest + 1 + to
}

// trigger returns the number of runs of level 0 that starts a compaction now.
func (l Leveled) trigger(v *Shape, base int) int {
	n, least := len(v.Levels[0]), staleRuns*float64(l.Trigger)
	switch {
	case v.Idle && len(v.Running) == 0:
		return 1
	case n < l.Trigger && float64(n) >= least && v.lowered(base) == last && float64(n)*v.stale() >= least:
		return n
	default:
		return l.Trigger
	}
}

// sparesSeeks returns the compaction of level 0 that would be due in an idle store without stale keys, if seeks in its
// runs have paid for it, or nil.
func (l Leveled) sparesSeeks(v *Shape, base int) *Plan {
	if v.Sought == 0 {
		return nil
	}
	idle := *v
	idle.Idle = true
	if v.Facts != nil {
		idle.Facts = noneStale{v.Facts}
	}
	l.Trigger = l.trigger(&idle, base)
	if p := l.level0(&idle, base); p != nil && (p.Move || p.Bytes() <= v.Sought*seekBytes) {
		return p
	}
	return nil
}

// noneStale are facts without stale keys. To drop these would rewrite the last level, which spares a seek little.
type noneStale struct{ TableFacts }

func (noneStale) Stale() float64 { return 0 }

// level0 returns the compaction of level 0 that is due and allowed, or nil. If that has to wait for others, and one
// more run would slow writers, the newest runs are merged with each other.
func (l Leveled) level0(v *Shape, base int) *Plan {
	runs := v.level0Runs()
	n := len(runs)
	if n < l.Trigger {
		return nil
	}
	sizes := make([]uint64, n, n+1)
	for i, r := range v.Levels[0] {
		sizes[i] = r.Bytes()
	}
	var whole *Plan
	free := slices.IndexFunc(runs, func(in Input) bool { return slices.ContainsFunc(in.Tables, v.isTaken) })
	if free < 0 {
		free, whole = n, l.wholeLevel0(v, base, runs, sizes)
		if whole == nil || v.Allows(whole) {
			return whole
		}
	}
	moves := slices.ContainsFunc(v.Running, func(p *Plan) bool { return p.Move }) // which is soon over
	if from, end := neighbors(sizes[:free], 1); from < end && n >= l.Slow && !moves {
		return &Plan{To: 0, Inputs: runs[from:end]}
	}
	return v.allowed(whole)
}

// wholeLevel0 returns the compaction of level 0 that is due if no other is running there, or nil. It moves the oldest
// run as it is if that is not small and overlaps nothing below, as after sequential writes. If no neighbors are to be
// merged, each run is larger than all newer ones together, and there may be as many as slow no writer; then the newer
// half becomes one. What goes down leaves the newest runs behind if they are tiny: one table over all keys, as Close
// flushes it, would have the compaction carried out in one slice.
func (l Leveled) wholeLevel0(v *Shape, base int, runs []Input, sizes []uint64) *Plan {
	to, n := v.lowered(base), len(runs)
	if oldest := runs[n-1]; sizes[n-1] >= l.TableSize/smallPart && v.fits(to, oldest.Tables) {
		return &Plan{To: to, Inputs: []Input{oldest}, Move: true}
	}
	times := uint64(1)
	if v.Idle {
		times = idleTimes
	}
	from, end := neighbors(append(sizes, bytesOf(l.mergedWith(v, to, runs))), times)
	if end <= n && to == last && v.stale() >= muchStale {
		from, end = 0, n+1
	}
	switch {
	case from == end && n < l.Slow:
		return nil
	case from == end:
		return &Plan{To: 0, Inputs: runs[:n/2]}
	case end <= n:
		return &Plan{To: 0, Inputs: runs[from:end]}
	default:
		for from < n-1 && sizes[from]*tinyPart < sizes[from+1] {
			from++
		}
		return &Plan{To: to, Inputs: append(runs[from:], l.mergedWith(v, to, runs[from:])...)}
	}
}

// mergedWith returns the tables of a level that runs of level 0 are merged with: those that share a key with the range
// of the runs. If no table does, they are the small tables next to the range, at most one on each side.
func (l Leveled) mergedWith(v *Shape, to int, runs []Input) []Input {
	b := boundsOf(runs)
	if in := v.overlapping(to, b); len(in) > 0 || len(v.Levels[to]) == 0 {
		return in
	}
	r := v.Levels[to][0]
	from := r.Search(b.Lo)
	end := from
	if from > 0 && l.small(r.Tables[from-1]) {
		from--
	}
	if end < len(r.Tables) && l.small(r.Tables[end]) {
		end++
	}
	if from == end {
		return nil
	}
	return []Input{{to, r.ID, r.Tables[from:end:end]}}
}

// small reports whether a table is far below TableSize.
func (l Leveled) small(t *manifest.Table) bool { return t.Size < l.TableSize/smallPart }

// join returns a compaction that merges small neighboring tables of a run into one, or nil. It wants as many of them as
// runs start a compaction of level 0. Tables that range tombstones above delete as a whole are left for these.
func (l Leveled) join(v *Shape) *Plan {
	var deleted cover // by range tombstones above the level
	for level, runs := range v.Levels {
		for _, r := range runs {
			for i := 0; i < len(r.Tables); i++ {
				if !l.small(r.Tables[i]) || deleted.whole(r.Tables[i], v.Snapshots) {
					continue
				}
				sizes := l.stretch(v, level, r.Tables[i:], deleted)
				if from, to := neighbors(sizes, 1); len(sizes) >= l.Trigger && from < to {
					return &Plan{To: level, Inputs: []Input{{level, r.ID, r.Tables[i+from : i+to : i+to]}}}
				}
				i += len(sizes) - 1
			}
		}
		deleted = v.coverBy(deleted, level, manifest.Bounds{})
	}
	return nil
}

// stretch returns the sizes of the first tables, of which one or more are small, as many as one table can hold that is
// not cut for the next level.
func (l Leveled) stretch(v *Shape, level int, tables []*manifest.Table, deleted cover) (sizes []uint64) {
	b, sum, keys := tables[0].Bounds(), uint64(0), uint64(0)
	for _, t := range tables {
		b, sum, keys = b.Union(t.Bounds()), sum+t.Size, keys+t.Entries
		if !l.small(t) || deleted.whole(t, v.Snapshots) || sum > l.TableSize || len(sizes) > 0 && (keys > maxKeys ||
			level < last && bytesOf(v.overlapping(level+1, b)) > maxOverlap*l.TableSize) {
			break
		}
		sizes = append(sizes, t.Size)
	}
	return sizes
}

// joins reports whether a plan merges tables of one run that together are no larger than one table, as the plans of
// join. They become one table, which ends neither at a cut nor for what its last block has before it is compressed:
// tables that stay small would be joined again and again.
func (p *Plan) joins(tableSize uint64) bool {
	return len(p.Inputs) == 1 && p.Inputs[0].Level == p.To && p.Bytes() <= tableSize
}
