package rangedel

import (
	"bytes"
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// An edge is a bound of a tombstone.
type edge struct {
	key   []byte
	seq   ikey.Seq
	delta int // 1 at the start of the tombstone, -1 at its end
}

// A standing is a sequence number and the number of tombstones with it that cover the current key of the sweep.
type standing struct {
	seq ikey.Seq
	n   int
}

// Fragmented returns the list of what the tombstones cover. They may come in any order, overlap, and repeat each other.
// Tombstones that cover nothing, or have sequence number 0 and so delete nothing, are dropped. Adjacent fragments
// differ in their sequence numbers. The list shares the tombstones' bytes.
//
// It sweeps from edge to edge; apart from sorting, the cost is that of writing the list, which may have the square of
// the number of tombstones that cover each other.
func Fragmented(ts []Tombstone) List {
	l, _ := fragmented(ts, math.MaxInt)
	return l
}

// maxCut is the largest average number of parts that tombstones are cut into where they overlap.
const maxCut = 8

// FragmentedFor returns the list of Fragmented reduced to the sequence numbers that matter to readers of the given
// snapshots, ascending, and of now: over each key, the newest up to each snapshot and the newest of all. Where that
// would cut the tombstones into too many parts, as with many snapshots between tombstones over each other, the
// fragments of the list overlap instead. So the length of the list is bounded by the number of tombstones.
func FragmentedFor(snapshots []ikey.Seq, ts []Tombstone) List {
	ts = visible(snapshots, ts)
	l, seqs := make(List, len(ts)), make([]ikey.Seq, len(ts))
	for i, t := range ts {
		seqs[i] = t.Seq
		l[i] = Fragment{Start: t.Start, End: t.End, Seqs: seqs[i : i+1 : i+1]}
	}
	if !l.Overlaps() { // as always without snapshots
		return l
	}
	if cut, ok := fragmented(ts, maxCut*len(ts)); ok {
		return cut
	}
	slices.SortFunc(l, func(a, b Fragment) int {
		return cmp.Or(bytes.Compare(a.Start, b.Start), cmp.Compare(a.Seqs[0], b.Seqs[0]))
	})
	return l
}

// visible returns what readers of the snapshots, and of now, see of the tombstones: of those between two snapshots,
// which every reader sees together, the newest over each key. They are less than two for each one of ts, and their
// order is undefined.
func visible(snapshots []ikey.Seq, ts []Tombstone) (seen []Tombstone) {
	type part struct {
		Tombstone
		interval int
	}
	parts := make([]part, 0, len(ts))
	for _, t := range ts {
		if t.Seq > 0 && before(t.Start, t.End) {
			i, _ := slices.BinarySearch(snapshots, t.Seq)
			parts = append(parts, part{t, i})
		}
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.interval, b.interval), bytes.Compare(a.Start, b.Start))
	})
	var over stack
	for len(parts) > 0 {
		n := 1
		for n < len(parts) && parts[n].interval == parts[0].interval {
			n++
		}
		over = over[:0]
		var at []byte // what is before is written
		for i := 0; i < n || len(over) > 0; {
			// Up to the next start, or to the end of the newest one, the newest one is visible.
			if len(over) == 0 {
				at = parts[i].Start
			}
			for ; i < n && bytes.Equal(parts[i].Start, at); i++ {
				heap.Push(&over, parts[i].Tombstone)
			}
			top, end := over[0], over[0].End
			goesOn := len(seen) > 0 && seen[len(seen)-1].Seq == top.Seq && bytes.Equal(seen[len(seen)-1].End, at)
			if i < n && before(parts[i].Start, end) {
				end = parts[i].Start
			}
			if goesOn {
				seen[len(seen)-1].End = end
			} else {
				seen = append(seen, Tombstone{at, end, top.Seq})
			}
			at = end
			for len(over) > 0 && at != nil && !before(at, over[0].End) {
				heap.Pop(&over)
			}
			if at == nil {
				break
			}
		}
		parts = parts[n:]
	}
	return seen
}

// A stack is a heap of tombstones, the newest on top.
type stack []Tombstone

// Len returns the number of tombstones.
func (s stack) Len() int { return len(s) }

// Less reports whether tombstone i is newer than j.
func (s stack) Less(i, j int) bool { return s[i].Seq > s[j].Seq }

// Swap swaps two tombstones.
func (s stack) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

// Push adds a tombstone.
func (s *stack) Push(t any) { *s = append(*s, t.(Tombstone)) } //nolint:errcheck // it holds nothing else

// Pop removes the last tombstone.
func (s *stack) Pop() any {
	n := len(*s) - 1
	t := (*s)[n]
	*s = (*s)[:n]
	return t
}

// fragmented returns the list of Fragmented, unless it would have more than most sequence numbers.
func fragmented(ts []Tombstone, most int) (l List, ok bool) {
	edges := make([]edge, 0, 2*len(ts))
	for _, t := range ts {
		if t.Seq == 0 || !before(t.Start, t.End) {
			continue
		}
		edges = append(edges, edge{t.Start, t.Seq, 1})
		if t.End != nil {
			edges = append(edges, edge{t.End, t.Seq, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(bytes.Compare(a.key, b.key), cmp.Compare(a.seq, b.seq))
	})
	var here, spare []standing
	var seqs []ikey.Seq
	open := false // the last fragment has no end yet
	for len(edges) > 0 {
		key, n := edges[0].key, 1
		for n < len(edges) && bytes.Equal(edges[n].key, key) {
			n++
		}
		here, spare = passed(spare[:0], here, edges[:n]), here
		edges = edges[n:]
		seqs = seqs[:0]
		for _, h := range here {
			seqs = append(seqs, h.seq)
		}
		if open {
			if slices.Equal(l[len(l)-1].Seqs, seqs) {
				continue
			}
			l[len(l)-1].End = key
		}
		if open = len(here) > 0; open {
			if most -= len(seqs); most < 0 {
				return nil, false
			}
			l = append(l, Fragment{Start: key, Seqs: slices.Clone(seqs)})
		}
	}
	return l, true // an open last fragment has no end
}

// passed appends to dst the standings behind the edges, given those before them. The edges are all at one key and
// ascend by sequence number.
func passed(dst, here []standing, edges []edge) []standing {
	for i := 0; i < len(edges); {
		seq, delta := edges[i].seq, 0
		for ; i < len(edges) && edges[i].seq == seq; i++ {
			delta += edges[i].delta
		}
		n := 0
		for n < len(here) && here[n].seq < seq {
			n++
		}
		dst = append(dst, here[:n]...)
		here = here[n:]
		if len(here) > 0 && here[0].seq == seq {
			delta += here[0].n
			here = here[1:]
		}
		if delta > 0 {
			dst = append(dst, standing{seq, delta})
		}
	}
	return append(dst, here...)
}
