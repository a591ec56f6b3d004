package memtable

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// A stretch is a range of keys under the same range tombstones: from start up to the next stretch. The stretches of a
// table cover all keys, gaps included, and are the nodes of a treap: a search tree by start in which no child outranks
// its parent. Ranks are random, so its depth is logarithmic, and it is split and joined in logarithmic time.
//
// A tombstone over many stretches is noted once, at the root of a subtree that it covers as a whole, and moves down
// only as the tree changes there: a queue that deletes everything before its head again and again costs O(log n) each
// time, not O(n).
//
// Published stretches never change. The writer copies those on its way (a path from the root), and appends to lists
// after the length that readers know of.
type stretch struct {
	start       []byte
	left, right *stretch
	own         []ikey.Seq // tombstones over this stretch
	all         []ikey.Seq // tombstones over the whole subtree and this stretch: newer than any in the subtree
	rank        uint32
	change      uint32 // the change that made this copy
}

const (
	seqBytes     = 8
	addedBytes   = int64(unsafe.Sizeof(rangedel.Tombstone{}))
	stretchBytes = int64(unsafe.Sizeof(stretch{}))
	boundsChunk  = 512
)

// ranges holds a table's range tombstones.
type ranges struct {
	published atomic.Pointer[RangeDels]
	bytes     atomic.Int64 // of stretches, lists and added

	// Used by the writer alone.
	root   *stretch
	added  []rangedel.Tombstone
	free   []byte   // where clone copies bounds to
	change uint32   // the current one: its stretches are not published yet
	record ikey.Seq // where the current record begins; see AddOps
	ranks  rand.PCG
}

// add adds the tombstone [start, end) with seq to the tree and publishes it.
func (r *ranges) add(start, end []byte, seq ikey.Seq) {
	if r.root == nil {
		r.root = r.newStretch(nil, nil)
	}
	r.change++
	before, inside := r.split(r.root, start)
	if inside == nil || !bytes.Equal(first(inside).start, start) {
		// The new stretch continues the list, so the stretch before it must not append to the same array.
		cut := last(before)
		inside = r.join(r.newStretch(r.clone(start), cut.own), inside)
		cut.own = slices.Clip(cut.own)
	}
	added := rangedel.Tombstone{Start: first(inside).start, Seq: seq}
	var after *stretch
	if end != nil {
		inside, after = r.split(inside, end)
		if after == nil || !bytes.Equal(first(after).start, end) {
			after = r.join(r.newStretch(r.clone(end), slices.Clip(last(inside).own)), after)
		}
		added.End = first(after).start
	}
	r.cover(inside, seq)
	r.root = r.join(r.join(before, inside), after)
	was := cap(r.added)
	r.added = append(r.added, added)
	r.bytes.Add(int64(cap(r.added)-was) * addedBytes)
	r.published.Store(&RangeDels{r.root, r.added})
}

// clone copies a bound. Bounds are in the collector's heap, since lookups of absent keys read them without a guard.
func (r *ranges) clone(b []byte) []byte {
	if len(b) > len(r.free) {
		n := max(len(b), boundsChunk)
		r.free = make([]byte, n)
		r.bytes.Add(int64(n))
	}
	c := r.free[:len(b):len(b)]
	r.free = r.free[len(b):]
	copy(c, b)
	return c
}

// cover notes a tombstone that is newer than all others over the whole tree. split or join returned the tree: its root
// is the writer's, and has nothing noted.
func (r *ranges) cover(n *stretch, seq ikey.Seq) {
	if n.left == nil && n.right == nil {
		n.own = r.noted(n.own, seq)
	} else {
		n.all = r.noted(nil, seq)
	}
}

func (r *ranges) noted(list []ikey.Seq, seq ikey.Seq) []ikey.Seq {
	if len(list) > 0 {
		return r.appended(list, seq)
	}
	r.bytes.Add(seqBytes) // most stretches will never have another
	return []ikey.Seq{seq}
}

func (r *ranges) newStretch(start []byte, own []ikey.Seq) *stretch {
	r.bytes.Add(stretchBytes)
	return &stretch{start: start, own: own, rank: uint32(r.ranks.Uint64() >> 32), change: r.change}
}

// mine returns n, or a copy if readers may know n.
func (r *ranges) mine(n *stretch) *stretch {
	if n.change == r.change {
		return n
	}
	c := *n
	c.change = r.change
	return &c
}

// push moves the tombstones that are noted for n's whole subtree one step down: to n, which belongs to the writer, and
// to its children.
func (r *ranges) push(n *stretch) {
	if len(n.all) == 0 {
		return
	}
	all := slices.Clip(n.all) // up to three lists share the array from now on
	under := func(list []ikey.Seq) []ikey.Seq {
		if len(list) == 0 || list[0] >= r.record {
			return all
		}
		return r.appended(list, all...)
	}
	n.own = under(n.own)
	if n.left != nil {
		n.left = r.mine(n.left)
		n.left.all = under(n.left.all)
	}
	if n.right != nil {
		n.right = r.mine(n.right)
		n.right.all = under(n.right.all)
	}
	n.all = nil
}

// split divides the tree into the stretches that start before key and the others. It pushes down the tombstones noted
// above the cut, so that the lists of the last stretch before and the first one after it are complete.
func (r *ranges) split(n *stretch, key []byte) (before, after *stretch) {
	if n == nil {
		return nil, nil
	}
	n = r.mine(n)
	r.push(n)
	if bytes.Compare(n.start, key) < 0 {
		n.right, after = r.split(n.right, key)
		return n, after
	}
	before, n.left = r.split(n.left, key)
	return before, n
}

// join joins two trees, where all of a is before all of b.
func (r *ranges) join(a, b *stretch) *stretch {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.rank >= b.rank:
		a = r.mine(a)
		r.push(a)
		a.right = r.join(a.right, b)
		return a
	default:
		b = r.mine(b)
		r.push(b)
		b.left = r.join(a, b.left)
		return b
	}
}

func first(n *stretch) *stretch {
	for n.left != nil {
		n = n.left
	}
	return n
}

func last(n *stretch) *stretch {
	for n.right != nil {
		n = n.right
	}
	return n
}

// appended returns a non-empty list with newer numbers after it, and without its last one if that is of the same record
// as they are. A list with spare capacity belongs to one stretch, which alone appends to its array. A full one may be
// shared, and is copied. So that the two can be distinguished, an array is never filled.
func (r *ranges) appended(list []ikey.Seq, newer ...ikey.Seq) []ikey.Seq {
	n := len(list) + len(newer)
	old := list[:len(list)-1]
	replaces := list[len(old)] >= r.record // readers may know the array with its last number
	if n < cap(list) && !replaces {
		return append(list, newer...)
	}
	if cap(list) > len(list) {
		r.bytes.Add(-int64(cap(list)) * seqBytes) // the old array is garbage
	}
	if replaces {
		list, n = old, n-1
	}
	grown := append(make([]ikey.Seq, 0, max(2*n, 4)), list...)
	r.bytes.Add(int64(cap(grown)) * seqBytes)
	return append(grown, newer...)
}
