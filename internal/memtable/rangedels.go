package memtable

import (
	"bytes"
	"slices"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// RangeDels is the range tombstones of a table at one moment. It never changes, is safe for concurrent use, and what it
// returns stays valid for as long as it is referred to. Nil has no tombstones.
type RangeDels struct{ root *stretch }

var _ rangedel.Set = (*RangeDels)(nil)

// newestOf is the newest of an ascending list that a reader at seq sees, 0 if there is none.
func newestOf(list []ikey.Seq, seq ikey.Seq) ikey.Seq {
	f := rangedel.Fragment{Seqs: list}
	return f.Newest(seq)
}

// Covering is the newest tombstone over key that a reader at seq sees, 0 if there is none. It allocates nothing.
func (r *RangeDels) Covering(key []byte, seq ikey.Seq) ikey.Seq {
	if r == nil {
		return 0
	}
	var at *stretch     // the last one that starts at or before key, on the way so far
	var newest ikey.Seq // of what lies above n: newer than what lies below
	for n := r.root; n != nil; {
		if newest == 0 {
			newest = newestOf(n.all, seq)
		}
		if bytes.Compare(n.start, key) > 0 {
			n = n.left
			continue
		}
		if newest != 0 {
			return newest // the key's stretch is n, or below it
		}
		at, n = n, n.right
	}
	return newestOf(at.own, seq)
}

// Stretch is keys [lo, hi) around key for all of which Covering at seq is newest. An empty lo is where the keys begin,
// a nil hi is infinite. It may end where the tombstones change though the newest that the reader sees does not. It
// allocates nothing.
func (r *RangeDels) Stretch(key []byte, seq ikey.Seq) (lo, hi []byte, newest ikey.Seq) {
	if r == nil {
		return nil, nil, 0
	}
	var at *stretch
	var top *stretch // where newest was found: it covers the whole subtree, which ends at end
	var end []byte
	for n := r.root; n != nil; {
		if top == nil {
			if newest = newestOf(n.all, seq); newest != 0 {
				top, end = n, hi
			}
		}
		if bytes.Compare(n.start, key) > 0 {
			hi, n = n.start, n.left
			continue
		}
		if top != nil {
			return first(top).start, end, newest
		}
		at, n = n, n.right
	}
	return at.start, hi, newestOf(at.own, seq)
}

// List is the tombstones as fragments, for a table file. Of those over one stretch it has the newest that a reader at
// each of the snapshots sees, and the newest of all: no reader can tell the others. The snapshots ascend; they are
// those from before the table's last tombstone that are in use. Fragments that touch differ. The list shares the
// table's bytes.
func (r *RangeDels) List(snapshots []ikey.Seq) rangedel.List {
	if r == nil {
		return nil
	}
	l := lister{snapshots: snapshots}
	l.visit(r.root)
	return l.list
}

// A lister builds a list while it walks over the stretches in order.
type lister struct {
	snapshots []ikey.Seq
	list      rangedel.List
	open      bool         // the last fragment has not ended yet
	above     [][]ikey.Seq // what covers the whole subtree, from the root down: newest first
	seqs      []ikey.Seq   // of the current stretch
}

func (l *lister) visit(n *stretch) {
	if n == nil {
		return
	}
	depth := len(l.above)
	if len(n.all) > 0 {
		l.above = append(l.above, n.all)
	}
	l.visit(n.left)
	l.add(n)
	l.visit(n.right)
	l.above = l.above[:depth]
}

// add goes on to the next stretch.
func (l *lister) add(n *stretch) {
	l.seqs = l.seqs[:0]
	for seq := l.newest(n, ikey.MaxSeq); seq > 0; {
		l.seqs = append(l.seqs, seq)
		older, _ := slices.BinarySearch(l.snapshots, seq)
		if older == 0 {
			break
		}
		seq = l.newest(n, l.snapshots[older-1])
	}
	slices.Reverse(l.seqs)
	if l.open {
		f := &l.list[len(l.list)-1]
		if slices.Equal(f.Seqs, l.seqs) {
			return
		}
		f.End = n.start
	}
	if l.open = len(l.seqs) > 0; !l.open {
		return
	}
	seqs := slices.Clip(n.own) // in most tables all have it so: one tombstone
	if !slices.Equal(seqs, l.seqs) {
		seqs = slices.Clone(l.seqs)
	}
	l.list = append(l.list, rangedel.Fragment{Start: n.start, Seqs: seqs})
}

// newest is the newest tombstone over a stretch that a reader at seq sees.
func (l *lister) newest(n *stretch, seq ikey.Seq) ikey.Seq {
	for _, list := range l.above {
		if newest := newestOf(list, seq); newest != 0 {
			return newest
		}
	}
	return newestOf(n.own, seq)
}
