package rangedel

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A span is the stretches [i, j) that a tombstone covers.
type span struct{ i, j int }

// cut divides the keys at the bounds of tombstones into stretches: from each bound up to the next, and the last without
// end. It returns the bounds, ascending and each once, and the span of each tombstone.
func cut(ts []Tombstone) (bounds [][]byte, spans []span) {
	type edge struct {
		key   []byte
		index *int // where the index of the key among the bounds is wanted
	}
	spans = make([]span, len(ts))
	edges := make([]edge, 0, 2*len(ts))
	for k := range ts {
		edges = append(edges, edge{ts[k].Start, &spans[k].i})
		if ts[k].End != nil {
			edges = append(edges, edge{ts[k].End, &spans[k].j})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return bytes.Compare(a.key, b.key) })
	for _, e := range edges {
		if n := len(bounds); n == 0 || !bytes.Equal(bounds[n-1], e.key) {
			bounds = append(bounds, e.key)
		}
		*e.index = len(bounds) - 1
	}
	for k := range ts {
		if ts[k].End == nil {
			spans[k].j = len(bounds)
		}
	}
	return bounds, spans
}

// effective returns the tombstones that delete something, by ascending sequence number.
func effective(ts []Tombstone) []Tombstone {
	ts = slices.DeleteFunc(slices.Clone(ts), func(t Tombstone) bool { return t.Seq == 0 || !before(t.Start, t.End) })
	slices.SortFunc(ts, func(a, b Tombstone) int { return cmp.Compare(a.Seq, b.Seq) })
	return ts
}

// Fragmented returns the list of what the tombstones cover. They may come in any order, overlap, and repeat each other.
// Tombstones that cover nothing, or have sequence number 0 and so delete nothing, are dropped. Adjacent fragments
// differ in their sequence numbers. The list shares the tombstones' bytes.
//
// Apart from sorting, the cost is that of the stretches between bounds that each tombstone covers: up to the square of
// the number of tombstones. What is read from files is for FragmentedFor.
func Fragmented(ts []Tombstone) List {
	l, _ := fragmented(ts, math.MaxInt)
	return l
}

// fragmented returns the list of Fragmented, unless the stretches would have more than most sequence numbers.
func fragmented(ts []Tombstone, most int) (l List, ok bool) {
	ts = effective(ts)
	bounds, spans := cut(ts)
	over := make([][]ikey.Seq, len(bounds))
	for k, s := range spans {
		for i := s.i; i < s.j; i++ {
			if last(over[i]) == ts[k].Seq {
				continue
			}
			if most--; most < 0 {
				return nil, false
			}
			over[i] = append(over[i], ts[k].Seq)
		}
	}
	return joined(nil, bounds, over), true
}

// joined appends fragments to l: the stretches that some tombstones are over, those with equal neighbors as one.
func joined(l List, bounds [][]byte, over [][]ikey.Seq) List {
	for i, seqs := range over {
		var end []byte
		if i+1 < len(bounds) {
			end = bounds[i+1]
		}
		switch {
		case len(seqs) == 0:
		case i > 0 && slices.Equal(over[i-1], seqs):
			l[len(l)-1].End = end
		default:
			l = append(l, Fragment{bounds[i], end, seqs})
		}
	}
	return l
}

// maxCut is the largest average number of parts that tombstones are cut into where they overlap.
const maxCut = 8

// FragmentedFor returns the list of Fragmented reduced to the sequence numbers that matter to readers of the given
// snapshots, ascending, and of now: over each key, the newest up to each snapshot and the newest of all. Where that
// would cut the tombstones into too many parts, as with many snapshots between tombstones over each other, the
// fragments of the list overlap instead. So the length of the list is bounded by the number of tombstones.
func FragmentedFor(snapshots []ikey.Seq, ts []Tombstone) List {
	l := visible(snapshots, effective(ts))
	slices.SortFunc(l, func(a, b Fragment) int {
		return cmp.Or(bytes.Compare(a.Start, b.Start), cmp.Compare(a.Seqs[0], b.Seqs[0]))
	})
	if l.Overlaps() { // as never without snapshots
		if parts, ok := fragmented(l.Tombstones(), maxCut*len(l)); ok {
			return parts
		}
	}
	return l
}

// visible returns what readers of the snapshots, and of now, see of tombstones that ascend by sequence number: of those
// between two snapshots, which every reader sees together, the newest over each key. They are less than two for each
// one of ts, and ascend by snapshot, and then by their start.
func visible(snapshots []ikey.Seq, ts []Tombstone) (l List) {
	for len(ts) > 0 {
		newest := ikey.MaxSeq // that a reader sees of the first
		if i, _ := slices.BinarySearch(snapshots, ts[0].Seq); i < len(snapshots) {
			newest = snapshots[i]
		}
		n := 1
		for n < len(ts) && ts[n].Seq <= newest {
			n++
		}
		bounds, spans := cut(ts[:n])
		over := make([][]ikey.Seq, len(bounds))
		bare := make([]int, len(bounds)+1) // leads from each stretch to the first from it on with nothing over it
		for i := range bare {
			bare[i] = i
		}
		for k := n - 1; k >= 0; k-- { // the newest first
			seq := []ikey.Seq{ts[k].Seq}
			for i := follow(bare, spans[k].i); i < spans[k].j; i = follow(bare, i) {
				over[i], bare[i] = seq, i+1
			}
		}
		l, ts = joined(l, bounds, over), ts[n:]
	}
	return l
}

// follow returns where the way through next ends that begins at i, and shortens it.
func follow(next []int, i int) int {
	for next[i] != i {
		next[i] = next[next[i]]
		i = next[i]
	}
	return i
}
