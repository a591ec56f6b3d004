package rangedel

import (
	"bytes"
	"cmp"
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
// It sweeps from edge to edge; apart from sorting, the cost is that of writing the list.
func Fragmented(ts []Tombstone) List { return fragmented(ts, nil) }

// FragmentedFor returns the list of Fragmented reduced to the sequence numbers that matter to readers of the given
// snapshots, ascending, and of now: in each fragment, the newest up to each snapshot and the newest of all. So the
// length of the list is bounded by its edges times the snapshots, however many tombstones overlap.
func FragmentedFor(snapshots []ikey.Seq, ts []Tombstone) List {
	return fragmented(ts, func(seqs []ikey.Seq) []ikey.Seq { return distinct(seqs, snapshots) })
}

// distinct returns the ascending numbers without those that the next one hides from all snapshots. It overwrites seqs.
func distinct(seqs, snapshots []ikey.Seq) []ikey.Seq {
	n := 0
	for i, seq := range seqs {
		at, _ := slices.BinarySearch(snapshots, seq)
		if i+1 < len(seqs) && (at == len(snapshots) || seqs[i+1] <= snapshots[at]) {
			continue
		}
		seqs[n] = seq
		n++
	}
	return seqs[:n]
}

func fragmented(ts []Tombstone, keep func([]ikey.Seq) []ikey.Seq) List {
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
	var l List
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
		if keep != nil {
			seqs = keep(seqs)
		}
		if open {
			if slices.Equal(l[len(l)-1].Seqs, seqs) {
				continue
			}
			l[len(l)-1].End = key
		}
		if open = len(here) > 0; open {
			l = append(l, Fragment{Start: key, Seqs: slices.Clone(seqs)})
		}
	}
	return l // an open last fragment has no end
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
