package compaction

import (
	"bytes"
	"slices"
	"sort"

	"github.com/bloomkv/bloomkv/internal/manifest"
)

// A compaction of gigabytes would take as much space again until it ends. Therefore it is carried out in slices of the
// keys, one after another: each is an edit of its own, after which its inputs are removed. A slice ends where no input
// has keys on both sides. So that there are such places, tables of level 0 and of the level that it is merged into end
// at the same keys, the cuts.

// Cuts divide the level that level 0 is merged into. Between two of them are an eighth of its bytes or more, but less
// than twice as many; and, together with a full level 0, the bytes of leastCut full tables or more.
const leastCut, cutShare = 4, 8

// Slices divides a plan into those that are carried out for it one after another, in the order of their keys, each with
// an input of size bytes or more, if it can be divided so. Tables of the output level that share no key with other
// inputs, if they make a slice, are left as they are. A plan within one level is not divided: runs of level 0 are
// ordered by sequence numbers (I15), which one with the first slices of others would not be; and small tables of
// another level are to become one.
func (p *Plan) Slices(size uint64) (list []*Plan) {
	if p.Move || p.Inputs[0].Level == p.To {
		return []*Plan{p}
	}
	var tables []*manifest.Table
	for _, in := range p.Inputs {
		tables = append(tables, in.Tables...)
	}
	slices.SortFunc(tables, func(a, b *manifest.Table) int { return bytes.Compare(a.Smallest, b.Smallest) })
	rest := *p
	covered, sum := tables[0].Bounds(), uint64(0)
	for _, t := range tables {
		if sum >= size && covered.EndsBefore(t.Smallest) {
			list, sum = append(list, rest.cut(t.Smallest)), 0
		}
		covered, sum = covered.Union(t.Bounds()), sum+t.Size
	}
	return slices.DeleteFunc(append(list, &rest), func(s *Plan) bool { return s.Inputs[0].Level == p.To })
}

// cut returns the part of a plan before key, which no table has on both sides. p becomes the rest.
func (p *Plan) cut(key []byte) *Plan {
	before, inputs := *p, p.Inputs
	before.Inputs, p.Inputs = nil, nil
	for _, in := range inputs {
		n, _ := slices.BinarySearchFunc(in.Tables, key, func(t *manifest.Table, key []byte) int {
			return bytes.Compare(t.Smallest, key)
		})
		if n > 0 {
			before.Inputs = append(before.Inputs, Input{in.Level, in.Run, in.Tables[:n:n]})
		}
		if n < len(in.Tables) {
			p.Inputs = append(p.Inputs, Input{in.Level, in.Run, in.Tables[n:]})
		}
	}
	return &before
}

// Cuts returns the keys where tables of level 0 should end, given those of an earlier version. Those that divide the
// level below well stay, since level 0 has tables that end there. New ones are keys where tables below begin, if
// possible such that no table of level 0 has keys on both sides.
func (l Leveled) Cuts(v *manifest.Version, old [][]byte) (cuts [][]byte) {
	base, _ := l.targets(v)
	runs, below := v.Levels[0], manifest.Run{}
	switch to := (&Shape{Version: v}).lowered(base); {
	case len(v.Levels[to]) > 0:
		below = v.Levels[to][0]
	case len(runs) > 0:
		below, runs = runs[len(runs)-1], runs[:len(runs)-1]
	}
	tables, total := below.Tables, below.Bytes()
	before := make([]uint64, len(tables)+1) // bytes before each table, and of all
	for i, t := range tables {
		before[i+1] = before[i] + t.Size
	}
	full := float64(total+l.BaseLevelSize/uint64(l.Ratio)) / float64(leastCut*l.TableSize) //nolint:gosec // 2 to 100
	size := max(uint64(float64(total)/min(full, cutShare)), 1)
	divide := func(from, to uint64) {
		for n := (to - from) / size; n > 1; n-- {
			at := from + (to-from)/n
			i := nearest(before, at, (at-from)/4, func(i int) bool { return !straddles(runs, tables[i].Smallest) })
			if before[i] < to {
				cuts, from = append(cuts, tables[i].Smallest), before[i]
			}
		}
	}
	from := uint64(0)
	for _, key := range old {
		at := before[sort.Search(len(tables), func(i int) bool { return bytes.Compare(tables[i].Smallest, key) >= 0 })]
		if at >= from+size/4 && at+size/4 <= total {
			divide(from, at)
			cuts, from = append(cuts, key), at
		}
	}
	divide(from, total)
	return cuts
}

// nearest returns the index of the number of an ascending list that is nearest to at and good, of those that differ by
// margin at most. If none is, it returns the first that is not less than at.
func nearest(list []uint64, at, margin uint64, good func(i int) bool) int {
	behind := sort.Search(len(list), func(i int) bool { return list[i] >= at })
	for i, j := behind-1, behind; ; {
		before, after := i >= 0 && at-list[i] <= margin, j < len(list)-1 && list[j]-at <= margin
		switch {
		case !before && !after:
			return behind
		case before && (!after || at-list[i] < list[j]-at):
			if good(i) {
				return i
			}
			i--
		default:
			if good(j) {
				return j
			}
			j++
		}
	}
}

// straddles reports whether a table of one of the runs has keys before key and at or behind it.
func straddles(runs []manifest.Run, key []byte) bool {
	return slices.ContainsFunc(runs, func(r manifest.Run) bool {
		t := r.Find(key)
		return t != nil && bytes.Compare(t.Smallest, key) < 0
	})
}
