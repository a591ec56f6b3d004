package compaction

import (
	"bytes"
	"slices"

	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// Compactions that are about dropping data. A tree can be in shape and hold mostly what is deleted: a queue leaves its dead
// behind it, a range delete hides whole tables. Such compactions take place when nothing else is urgent, and each makes
// progress that lasts: a table goes a level down, or leaves the last level's dead behind, so that none is picked twice in vain.

// pickEarly is a compaction that pays by what it drops, or nil.
func pickEarly(v *manifest.Version, o Options, base int) *Plan {
	if len(v.Levels[0]) > 0 && o.coversMuch(v, lowered(v, base)) {
		return o.pickNewest(v, base)
	}
	for l := 1; l < last; l++ {
		if runs := v.Levels[l]; len(runs) > 0 {
			oldest := runs[len(runs)-1]
			for _, t := range oldest.Tables {
				if o.dense(v, l, t) {
					return o.down(v, l+1, Input{l, oldest.ID, []*manifest.Table{t}})
				}
			}
		}
	}
	return pickLeftovers(v, manifest.Bounds{}, func(t *manifest.Table) bool { return leftover(t) && o.settled(t) })
}

// coversMuch says whether range tombstones in level 0 delete tables further down which are larger together than what has to
// be read to merge level 0 into the level base.
func (o *Options) coversMuch(v *manifest.Version, base int) bool {
	var c cover
	var runs []Input
	for _, r := range v.Levels[0] {
		runs = append(runs, Input{0, r.ID, r.Tables})
		if l := o.rangeDels(r.Tables); len(l) > 0 {
			c = append(c, l)
		}
	}
	if len(c) == 0 {
		return false
	}
	b := boundsOf(runs)
	return o.covered(v, 0, c, b) > bytesOf(runs)+o.uncovered(closed(v, base, b), c)
}

// dense says whether a table of a level between the first and the last is better merged down now. By its point tombstones:
// where they are more than half of its versions, and may be for half of those they are merged with. What reads in order
// walks over them until then. By its range tombstones: where there is one for two tables below, or where they delete tables
// that are larger together than what has to be read. Where a snapshot may need what they hide there is nothing to gain yet.
func (o *Options) dense(v *manifest.Version, level int, t *manifest.Table) bool {
	points := t.Deletes > t.Entries-t.Deletes
	if !points && t.RangeDeletes == 0 {
		return false
	}
	below := closed(v, level+1, t.Bounds())
	if o.settled(t) {
		var entries uint64
		for _, in := range below {
			for _, t := range in.Tables {
				entries += t.Entries
			}
		}
		if points && t.Deletes >= entries/2 || t.RangeDeletes > 0 && t.RangeDeletes >= uint64(count(below))/2 { //nolint:gosec // a length
			return true
		}
	}
	l := o.rangeDels([]*manifest.Table{t})
	if len(l) == 0 {
		return false
	}
	c := cover{l}
	return o.covered(v, level, c, t.Bounds()) > t.Size+o.uncovered(below, c)
}

// leftover says whether a table of the last level holds what only snapshots need: a tombstone has nothing to hide there.
func leftover(t *manifest.Table) bool { return hasTombstone(t) || t.Flags&manifest.Superseded != 0 }

// settled says whether no snapshot tells apart anything that t holds.
func (o *Options) settled(t *manifest.Table) bool { return t.MaxSeq <= stripes(o.Snapshots).first() }

// rangeDels are the known range tombstones of tables of one run.
func (o *Options) rangeDels(tables []*manifest.Table) (l rangedel.List) {
	for _, t := range tables {
		if t.RangeDeletes > 0 && o.Facts != nil {
			l = append(l, o.Facts.RangeDels(t)...)
		}
	}
	return l
}

// covered is the bytes of tables below a level that c deletes as a whole.
func (o *Options) covered(v *manifest.Version, level int, c cover, b manifest.Bounds) (n uint64) {
	for l := level + 1; l <= last; l++ {
		in := overlapping(v, l, b)
		n += bytesOf(in) - o.uncovered(in, c)
	}
	return n
}

// uncovered is the bytes of those inputs that c does not delete as a whole.
func (o *Options) uncovered(inputs []Input, c cover) (n uint64) {
	for _, in := range inputs {
		for _, t := range in.Tables {
			if !c.whole(t, o.Snapshots) {
				n += t.Size
			}
		}
	}
	return n
}

// pickLeftovers rewrites neighbours in the last level, the first within b that are wanted, or is nil. Neighbours only: what is
// written may span all between its inputs.
func pickLeftovers(v *manifest.Version, b manifest.Bounds, wanted func(*manifest.Table) bool) *Plan {
	var best []*manifest.Table
	for _, r := range v.Levels[last] {
		tables := r.Touching(b)
		from := slices.IndexFunc(tables, wanted)
		if from < 0 {
			continue
		}
		to, size := from+1, tables[from].Size
		for ; to < len(tables) && wanted(tables[to]) && size < maxAsked; to++ {
			size += tables[to].Size
		}
		if best == nil || bytes.Compare(tables[from].Smallest, best[0].Smallest) < 0 {
			best = tables[from:to:to]
		}
	}
	if best == nil {
		return nil
	}
	return &Plan{To: last, Inputs: closed(v, last, bounds(best))}
}
