package compaction

import (
	"sort"

	"github.com/bloomkv/bloomkv/internal/manifest"
)

// Without the rule of this file, a store that flushes little and often would keep a table for each flush, or rewrite
// large tables for each. Neighbors are merged if the largest is at most cheap times as large as the others together.
// The runs of level 0 are neighbors in time, and the tables that they would be merged into are the oldest one. Small
// tables of one run are neighbors by their keys. What is rewritten becomes at least a third larger, so until it is n
// times as large it is rewritten O(log n) times. docs/decisions.md has the figures.

// cheap is the largest number of bytes that are rewritten for each byte that joins them.
const cheap = 3

// smallPart is the part of TableSize below which a table is small.
const smallPart = 8

// neighbors returns the range [from, to) of the neighbors to merge: all, or some on one side of the largest. It returns
// an empty range if none should be merged.
func neighbors(sizes []uint64) (from, to int) {
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
	if sizes[largest] <= cheap*(sum-sizes[largest]) {
		return 0, len(sizes)
	}
	if from, to = neighbors(sizes[:largest]); from < to {
		return from, to
	}
	from, to = neighbors(sizes[largest+1:])
	return largest + 1 + from, largest + 1 + to
}

// level0 returns the compaction of level 0 that is due, or nil. It moves the oldest run as it is if that is not small
// and overlaps nothing below, as after sequential writes. If no neighbors are to be merged, there may be as many runs
// as slow no writer; then all are merged down.
func (l Leveled) level0(v *Shape, base int) *Plan {
	runs := v.level0Runs()
	n := len(runs)
	if n < l.Trigger {
		return nil
	}
	to := v.lowered(base)
	if oldest := runs[n-1]; v.Levels[0][n-1].Bytes() >= l.TableSize/smallPart && v.fits(to, oldest.Tables) {
		return &Plan{To: to, Inputs: []Input{oldest}, Move: true}
	}
	sizes := make([]uint64, n+1)
	for i, r := range v.Levels[0] {
		sizes[i] = r.Bytes()
	}
	sizes[n] = bytesOf(l.mergedWith(v, to, runs))
	from, end := neighbors(sizes)
	switch {
	case from == end && n < l.Slow:
		return nil
	case from == end:
		return v.mergeLevel0(base)
	case end <= n:
		return &Plan{To: 0, Inputs: runs[from:end]}
	default:
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
	from := sort.Search(len(r.Tables), func(i int) bool { return !r.Tables[i].EndsBefore(b.Lo) })
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
// runs start a compaction of level 0.
func (l Leveled) join(v *Shape) *Plan {
	for level, runs := range v.Levels {
		for _, r := range runs {
			for i := 0; i < len(r.Tables); i++ {
				if !l.small(r.Tables[i]) {
					continue
				}
				sizes := l.stretch(v, level, r.Tables[i:])
				if from, to := neighbors(sizes); len(sizes) >= l.Trigger && from < to {
					return &Plan{To: level, Inputs: []Input{{level, r.ID, r.Tables[i+from : i+to : i+to]}}}
				}
				i += len(sizes) - 1
			}
		}
	}
	return nil
}

// stretch returns the sizes of the first tables, of which one or more are small, as many as one table can hold that is
// not cut for the next level.
func (l Leveled) stretch(v *Shape, level int, tables []*manifest.Table) (sizes []uint64) {
	b, sum := tables[0].Bounds(), uint64(0)
	for _, t := range tables {
		b, sum = b.Union(t.Bounds()), sum+t.Size
		if !l.small(t) || sum > l.TableSize ||
			level < last && len(sizes) > 0 && bytesOf(v.overlapping(level+1, b)) > maxOverlap*l.TableSize {
			break
		}
		sizes = append(sizes, t.Size)
	}
	return sizes
}
