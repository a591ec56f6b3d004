package compaction

import (
	"bytes"
	"slices"
	"sort"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// Compactions that pay by the data they drop. A tree can be in shape and still consist mostly of deleted data: a
// queue leaves its consumed entries behind, a range delete hides whole tables. These compactions run when nothing
// else is urgent. Each makes lasting progress, so that none is picked twice in vain: a table moves down a level, or
// the last level loses what no reader needs.

// maxStep is about how many bytes one plan takes from a level, and from the level below, if there is no hurry, so
// that more urgent compactions get their turn in between.
const maxStep = 256 << 20

// dropsFromLevel0 reports whether range tombstones in level 0 delete tables further down that together are larger
// than what has to be read to merge level 0 into the level to.
func (v *Shape) dropsFromLevel0(to int) bool {
	c := v.coverAbove(1, manifest.Bounds{})
	if len(c) == 0 {
		return false
	}
	runs := v.level0Runs()
	b := boundsOf(runs)
	return v.covered(0, c, b) > bytesOf(runs)+v.uncovered(v.overlapping(to, b), c)
}

// pickDrop returns a compaction of one of the levels below level 0 that pays by the data it drops, or nil.
func (v *Shape) pickDrop() *Plan {
	for l := 1; l < last; l++ {
		for _, r := range v.Levels[l] {
			for _, t := range r.Tables {
				if v.dense(l, t) {
					return v.down(l+1, Input{l, r.ID, []*manifest.Table{t}})
				}
			}
		}
	}
	return v.rewriteLast(manifest.Bounds{}, func(t *manifest.Table) bool { return leftover(t) && v.settled(t) })
}

// dense reports whether a table between the first and the last level has enough tombstones to be merged down.
//
// Point tombstones count if they are more than half of its versions and at least half as many as the versions below
// it: until then iterators have to step over them. Range tombstones count if there is one for every two tables
// below, or if they delete tables that together are larger than what has to be read. If a snapshot may need what
// they hide, there is nothing to gain yet.
func (v *Shape) dense(level int, t *manifest.Table) bool {
	points := t.Deletes > t.Entries-t.Deletes
	if !points && t.RangeDeletes == 0 {
		return false
	}
	below := v.overlapping(level+1, t.Bounds())
	if v.settled(t) {
		var entries, tables uint64
		for _, in := range below {
			for _, t := range in.Tables {
				entries += t.Entries
				tables++
			}
		}
		ranges := t.RangeDeletes > 0 && t.RangeDeletes >= tables/2
		if ranges || points && t.Deletes >= entries/2 {
			return true
		}
	}
	known := v.rangeDels([]*manifest.Table{t})
	if len(known) == 0 {
		return false
	}
	c := cover{known}
	return v.covered(level, c, t.Bounds()) > t.Size+v.uncovered(below, c)
}

// rewriteLast rewrites neighboring tables of the last level, the first within b that are wanted, or returns nil.
// They must be neighbors, since the outputs may span everything between the inputs.
func (v *Shape) rewriteLast(b manifest.Bounds, wanted func(*manifest.Table) bool) *Plan {
	for _, in := range v.overlapping(last, b) {
		from := slices.IndexFunc(in.Tables, wanted)
		if from < 0 {
			continue
		}
		to, size := from+1, in.Tables[from].Size
		for ; to < len(in.Tables) && wanted(in.Tables[to]) && size < maxStep; to++ {
			size += in.Tables[to].Size
		}
		in.Tables = in.Tables[from:to:to]
		return &Plan{To: last, Inputs: []Input{in}}
	}
	return nil
}

// leftover reports whether a table of the last level holds data that only snapshots need: a tombstone has nothing
// to hide there.
func leftover(t *manifest.Table) bool { return hasTombstone(t) || t.Flags&manifest.Superseded != 0 }

// settled reports whether every snapshot sees either all versions in t or none.
func (v *Shape) settled(t *manifest.Table) bool { return t.MaxSeq <= intervals(v.Snapshots).first() }

// covered returns the bytes of tables below a level that c deletes as a whole.
func (v *Shape) covered(level int, c cover, b manifest.Bounds) (n uint64) {
	for l := level + 1; l <= last; l++ {
		in := v.overlapping(l, b)
		n += bytesOf(in) - v.uncovered(in, c)
	}
	return n
}

// uncovered returns the bytes of those inputs that c does not delete as a whole.
func (v *Shape) uncovered(inputs []Input, c cover) (n uint64) {
	for _, in := range inputs {
		for _, t := range in.Tables {
			if !c.whole(t, v.Snapshots) {
				n += t.Size
			}
		}
	}
	return n
}

// A cover holds the range tombstones of some runs. They may delete whole tables of older runs. It shares the indexes
// that the tables have: a tree may have very many range tombstones, and each choice looks at them.
type cover []runDels

// runDels are range tombstones of a run, by table, ascending.
type runDels []tableDels

// tableDels are the range tombstones of a table, which lie within its bounds.
type tableDels struct {
	table *manifest.Table
	dels  *rangedel.Index
}

// at returns the range tombstones of the table whose bounds may hold key, or nil.
func (r runDels) at(key []byte) *rangedel.Index {
	i := sort.Search(len(r), func(i int) bool { return !r[i].table.EndsBefore(key) })
	if i == len(r) {
		return nil
	}
	return r[i].dels
}

// Hide tells p the range tombstones of levels above its inputs. Inputs that these delete as a whole are dropped unread.
// The range tombstones cannot come down to such a table, and be dropped themselves, while the table is an input.
func (v *Shape) Hide(p *Plan) {
	b := boundsOf(p.Inputs) // p keeps them in memory while it runs
	p.above = map[int]cover{}
	for _, in := range p.Inputs {
		p.above[in.Level] = v.coverAbove(in.Level, b)
	}
}

// coverAbove returns the known range tombstones of the levels above the given one, of tables with a part in b.
func (v *Shape) coverAbove(level int, b manifest.Bounds) (c cover) {
	for l := range level {
		c = v.coverBy(c, l, b)
	}
	return c
}

// coverBy returns c with the known range tombstones of a level, of tables with a part in b.
func (v *Shape) coverBy(c cover, level int, b manifest.Bounds) cover {
	for _, r := range v.Levels[level] {
		if known := v.rangeDels(r.Touching(b)); len(known) > 0 {
			c = append(c, known)
		}
	}
	return c
}

// whole reports whether tombstones delete everything in t, its own range tombstones included, for every reader:
// over each key within the bounds of t lies a tombstone that is newer than all of t, and no snapshot was taken
// between any version in t and that tombstone.
func (c cover) whole(t *manifest.Table, snapshots intervals) bool {
	top := snapshots.top(t.MinSeq)
	for from := t.Smallest; ; {
		end, ok := c.stretch(from, t.MaxSeq, top)
		if !ok || end == nil || t.EndsBefore(end) {
			return ok
		}
		from = end
	}
}

// stretch returns the end of the range that starts at from and is covered by tombstones newer than seq that a
// reader at top sees; a nil end is infinite. It looks at one tombstone of each run, so the keys after end may be
// covered too.
func (c cover) stretch(from []byte, seq, top ikey.Seq) (end []byte, ok bool) {
	for _, r := range c {
		_, hi, newest := r.at(from).Stretch(from, top)
		if newest <= seq {
			continue
		}
		if hi == nil {
			return nil, true
		}
		if !ok || bytes.Compare(hi, end) > 0 {
			end, ok = hi, true
		}
	}
	return end, ok
}
