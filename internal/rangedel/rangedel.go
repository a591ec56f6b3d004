// Package rangedel computes what range tombstones cover: it cuts them where they overlap, so that one binary search
// finds all that apply to a key.
//
// A tombstone with sequence number t deletes a version with p of a key that it covers if t > p. A version with the same
// number lives.
package rangedel

import (
	"bytes"
	"slices"
	"unsafe"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A Tombstone deletes every version of the keys in [Start, End) with a smaller sequence number. A nil End is infinite;
// any other is greater than Start. An empty Start is the least key.
type Tombstone struct {
	Start, End []byte
	Seq        ikey.Seq
}

// A Fragment is a range of keys [Start, End) to which the same tombstones apply. A nil End is infinite; any other is
// greater than Start.
type Fragment struct {
	Start, End []byte
	Seqs       []ikey.Seq // of the tombstones: ascending, distinct, not empty, without 0
}

// Newest returns the largest sequence number of the fragment's tombstones that a reader at seq sees, or 0.
func (f *Fragment) Newest(seq ikey.Seq) ikey.Seq {
	n := len(f.Seqs)
	if n == 0 || f.Seqs[n-1] <= seq {
		return last(f.Seqs)
	}
	i, found := slices.BinarySearch(f.Seqs[:n-1], seq)
	if found {
		return seq
	}
	return last(f.Seqs[:i])
}

func last(seqs []ikey.Seq) ikey.Seq {
	if len(seqs) == 0 {
		return 0
	}
	return seqs[len(seqs)-1]
}

// A Set is a cursor's view of the tombstones of one source: a table's Index, or a memtable's at a moment. It is
// immutable and safe for concurrent use. A lookup should call Covering of the concrete types: a key passed through an
// interface escapes to the heap.
type Set interface {
	// Stretch returns a range of keys [lo, hi) around key, for each of which newest is the newest tombstone over it
	// that a reader at seq sees, or 0. An empty lo is the least key, a nil hi is infinite. Both belong to the set.
	Stretch(key []byte, seq ikey.Seq) (lo, hi []byte, newest ikey.Seq)
}

// A List is a list of fragments that ascend by their start. In most lists they are disjoint; an Index finds what covers
// a key in any list, the methods of the list only if they are. It is immutable, and so safe for concurrent use; nil is
// the empty list.
type List []Fragment

// after returns the number of fragments that start at or before key.
func (l List) after(key []byte) int {
	lo, hi := 0, len(l)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if bytes.Compare(l[mid].Start, key) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// before reports whether key lies before end, where nil is infinite.
func before(key, end []byte) bool { return end == nil || bytes.Compare(key, end) < 0 }

// Covering returns the newest tombstone over key that a reader at seq sees, or 0. It allocates nothing.
func (l List) Covering(key []byte, seq ikey.Seq) ikey.Seq {
	i := l.after(key)
	if i == 0 || !before(key, l[i-1].End) {
		return 0
	}
	return l[i-1].Newest(seq)
}

// Stretch returns the range of keys [lo, hi) around key to which the same tombstones apply, and what Covering returns
// for each of them at seq. An empty lo is the least key, a nil hi is infinite. Both belong to the list. It allocates
// nothing.
func (l List) Stretch(key []byte, seq ikey.Seq) (lo, hi []byte, newest ikey.Seq) {
	i := l.after(key)
	if i > 0 {
		f := &l[i-1]
		if before(key, f.End) {
			return f.Start, f.End, f.Newest(seq)
		}
		lo = f.End
	}
	if i < len(l) {
		hi = l[i].Start // after key, and so not nil
	}
	return lo, hi, 0
}

// Within returns what the fragments cover of [lo, hi), in their order. A nil hi is infinite.
func (l List) Within(lo, hi []byte) (in List) {
	for _, f := range l {
		if before(f.Start, hi) && before(lo, f.End) {
			if bytes.Compare(f.Start, lo) < 0 {
				f.Start = lo
			}
			if hi != nil && before(hi, f.End) {
				f.End = hi
			}
			in = append(in, f)
		}
	}
	return in
}

// Tombstones returns the tombstones that the fragments stand for, one for each of their sequence numbers.
func (l List) Tombstones() (ts []Tombstone) {
	for _, f := range l {
		for _, seq := range f.Seqs {
			ts = append(ts, Tombstone{f.Start, f.End, seq})
		}
	}
	return ts
}

// Bytes returns the memory that the list takes if it shares none of it.
func (l List) Bytes() int64 {
	n := int64(cap(l)) * int64(unsafe.Sizeof(Fragment{}))
	for i := range l {
		f := &l[i]
		n += int64(len(f.Start)) + int64(len(f.End)) + int64(len(f.Seqs))*int64(unsafe.Sizeof(ikey.Seq(0)))
	}
	return n
}
