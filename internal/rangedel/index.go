package rangedel

import (
	"bytes"
	"cmp"
	"slices"
	"unsafe"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// An Index finds the tombstones over a key in a list whose fragments may overlap. It is immutable, and so safe for
// concurrent use; nil has no tombstones.
//
// Without overlaps it is the list. Otherwise the bounds of all fragments divide the keys into stretches, which are the
// leaves of a segment tree: each fragment is noted at the few nodes that together have its stretches below them, a
// logarithm of them at most, and a key is under what is noted on the way from its stretch to the root. So the index
// takes n log n numbers, where fragments without overlaps would have the square of n.
type Index struct {
	list   List
	bounds [][]byte   // where stretches begin, ascending; the last stretch has no end. nil without overlaps
	notes  []uint32   // where in seqs the numbers of each node begin, and their end. Node 1 is the root
	seqs   []ikey.Seq // of each node, ascending
}

var _ Set = (*Index)(nil)

// NewIndex returns the index of a list, nil if the list is empty. Fragments must ascend by their start; the ends and
// starts of some may be equal to those of others. The index shares the list.
func NewIndex(l List) *Index {
	if len(l) == 0 {
		return nil
	}
	x := &Index{list: l}
	if l.Overlaps() {
		x.build()
	}
	return x
}

// Overlaps reports whether some fragments overlap.
func (l List) Overlaps() bool {
	for i := 1; i < len(l); i++ {
		if before(l[i].Start, l[i-1].End) {
			return true
		}
	}
	return false
}

// Bounds returns the range [lo, hi) that the fragments, which ascend by their start, lie in; a nil hi is infinite. The
// list must not be empty.
func (l List) Bounds() (lo, hi []byte) {
	lo, hi = l[0].Start, l[0].End
	for i := range l {
		if end := l[i].End; end == nil || hi != nil && bytes.Compare(end, hi) > 0 {
			hi = end
		}
	}
	return lo, hi
}

func (x *Index) build() {
	ts := make([]Tombstone, len(x.list)) // one for each fragment, without a number
	for k, f := range x.list {
		ts[k] = Tombstone{Start: f.Start, End: f.End}
	}
	bounds, spans := cut(ts)
	x.bounds = slices.Clone(bounds)
	type noted struct {
		seq ikey.Seq
		span
	}
	var all []noted
	for k, f := range x.list {
		for _, seq := range f.Seqs {
			all = append(all, noted{seq, spans[k]})
		}
	}
	slices.SortFunc(all, func(a, b noted) int { return cmp.Compare(a.seq, b.seq) })
	n := len(bounds)
	x.notes = make([]uint32, 2*n+2)
	// The numbers of node p end at notes[p+1], after its count is added up, and begin there while they are filled in.
	for _, t := range all {
		t.nodes(n, func(p int) { x.notes[p+2]++ })
	}
	for p := 1; p < len(x.notes); p++ {
		x.notes[p] += x.notes[p-1]
	}
	x.seqs = make([]ikey.Seq, x.notes[len(x.notes)-1])
	for _, t := range all {
		t.nodes(n, func(p int) {
			x.seqs[x.notes[p+1]] = t.seq
			x.notes[p+1]++
		})
	}
}

// nodes calls each for the nodes that together have the stretches of the span below them, of n stretches.
func (s span) nodes(n int, each func(p int)) {
	for i, j := s.i+n, s.j+n; i < j; i, j = i>>1, j>>1 {
		if i&1 == 1 {
			each(i)
			i++
		}
		if j&1 == 1 {
			j--
			each(j)
		}
	}
}

// stretch returns the index of the stretch that holds key, or -1.
func (x *Index) stretch(key []byte) int {
	lo, hi := 0, len(x.bounds)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if bytes.Compare(x.bounds[mid], key) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

// newest returns the newest tombstone over stretch i that a reader at seq sees, or 0.
func (x *Index) newest(i int, seq ikey.Seq) (newest ikey.Seq) {
	for p := i + len(x.bounds); p > 0; p >>= 1 {
		f := Fragment{Seqs: x.seqs[x.notes[p]:x.notes[p+1]]}
		newest = max(newest, f.Newest(seq))
	}
	return newest
}

// List returns the fragments.
func (x *Index) List() List {
	if x == nil {
		return nil
	}
	return x.list
}

// Covering returns the newest tombstone over key that a reader at seq sees, or 0. It allocates nothing.
func (x *Index) Covering(key []byte, seq ikey.Seq) ikey.Seq {
	if x == nil {
		return 0
	}
	if x.bounds == nil {
		return x.list.Covering(key, seq)
	}
	if i := x.stretch(key); i >= 0 {
		return x.newest(i, seq)
	}
	return 0
}

// Stretch returns a range of keys [lo, hi) around key in which Covering returns newest for each key at seq. An empty lo
// is the least key, a nil hi is infinite. Both belong to the index. It allocates nothing.
func (x *Index) Stretch(key []byte, seq ikey.Seq) (lo, hi []byte, newest ikey.Seq) {
	switch {
	case x == nil:
		return nil, nil, 0
	case x.bounds == nil:
		return x.list.Stretch(key, seq)
	}
	i := x.stretch(key)
	if i >= 0 {
		lo, newest = x.bounds[i], x.newest(i, seq)
	}
	if i+1 < len(x.bounds) {
		hi = x.bounds[i+1]
	}
	return lo, hi, newest
}

// Bytes returns the memory that the index takes if it shares none of it.
func (x *Index) Bytes() int64 {
	if x == nil {
		return 0
	}
	return int64(unsafe.Sizeof(*x)) + x.list.Bytes() + int64(cap(x.bounds))*int64(unsafe.Sizeof([]byte{})) +
		int64(len(x.notes))*int64(unsafe.Sizeof(uint32(0))) + int64(len(x.seqs))*int64(unsafe.Sizeof(ikey.Seq(0)))
}
