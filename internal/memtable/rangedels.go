package memtable

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// RangeDels holds the range tombstones of a table at one moment. It is immutable and safe for concurrent use, and what
// it returns stays valid as long as it is referenced. Nil has no tombstones.
type RangeDels struct {
	root  *stretch
	added []rangedel.Tombstone // as they were added
}

var _ rangedel.Set = (*RangeDels)(nil)

// newestOf returns the newest number of an ascending list that a reader at seq sees, or 0.
func newestOf(list []ikey.Seq, seq ikey.Seq) ikey.Seq {
	f := rangedel.Fragment{Seqs: list}
	return f.Newest(seq)
}

// Covering returns the sequence number of the newest tombstone over key that a reader at seq sees, or 0. It allocates
// nothing.
func (r *RangeDels) Covering(key []byte, seq ikey.Seq) ikey.Seq {
	if r == nil {
		return 0
	}
	var at *stretch     // the last one that starts at or before key, on the way so far
	var newest ikey.Seq // of the tombstones noted above n, which are newer than those below
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

// Stretch returns a range of keys [lo, hi) around key in which Covering returns newest for each key at seq. An empty lo
// is the start of all keys, a nil hi is infinite. The range may end where the tombstones change though the newest
// visible one stays the same. Stretch allocates nothing.
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

// List returns the tombstones as fragments, for a table file. Over each stretch of keys it keeps the newest tombstone
// of all and the newest that a reader at each of the snapshots sees; no reader can distinguish the result from the
// whole. snapshots are those in use that were taken before the table's last tombstone, ascending. The list shares the
// table's bytes. See rangedel.FragmentedFor.
func (r *RangeDels) List(snapshots []ikey.Seq) rangedel.List {
	if r == nil {
		return nil
	}
	return rangedel.FragmentedFor(snapshots, r.added)
}
