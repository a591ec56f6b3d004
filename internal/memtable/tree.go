package memtable

import (
	"sort"

	"github.com/bloomkv/bloomkv/internal/pages"
)

// A tree holds items in order: those of the keys that are not in the tail. It is a B+ tree, with all items in the
// leaves, which are linked. Its nodes are in the table's arena, and so the garbage collector sees none of them. Nothing
// is ever removed. It is guarded by the table's mu.
type tree struct {
	root        ref // 0 if the tree is empty
	height      int // levels above the leaves
	first, last ref // leaves
}

const (
	nodeItems = 127 // nodes of 2 KiB: half as many, in one array of items, took twice as long
	maxHeight = 8   // levels above the leaves: the items have 32-bit numbers, and each node has at least 60 children
)

// A node has n items, in parallel arrays, so that a search reads heads alone.
type node struct {
	n      uint32
	heads  [nodeItems]uint64
	firsts [nodeItems]ref
}

type leaf struct {
	node
	prev, next ref
	ids        [nodeItems]uint32
}

// An inner node has n+1 children. What children[i] holds is at most item i, and after item i-1.
type inner struct {
	node
	children [nodeItems + 1]ref
}

func (a *arena) leaf(r ref) *leaf   { return pages.At[leaf](a.version(r)) }
func (a *arena) inner(r ref) *inner { return pages.At[inner](a.version(r)) }

func (a *arena) newLeaf() (*leaf, ref) {
	b, r := a.alloc(pages.Sizeof[leaf]())
	l := pages.At[leaf](b)
	l.n, l.prev, l.next = 0, 0, 0
	return l, r
}

func (a *arena) newInner() (*inner, ref) {
	b, r := a.alloc(pages.Sizeof[inner]())
	x := pages.At[inner](b)
	x.n = 0
	return x, r
}

// lowerBound returns the index of the first item that is not before it, or n.
func (t *Table) lowerBound(x *node, it item) int {
	lo, hi := 0, int(x.n)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if x.heads[mid] < it.head {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	n := int(x.n)
	if lo == n || x.heads[lo] != it.head {
		return lo
	}
	return lo + sort.Search(n-lo, func(i int) bool {
		return !t.less(item{head: x.heads[lo+i], first: x.firsts[lo+i]}, it)
	})
}

func (x *node) insert(i int, it item) {
	n := int(x.n)
	copy(x.heads[i+1:n+1], x.heads[i:n])
	copy(x.firsts[i+1:n+1], x.firsts[i:n])
	x.heads[i], x.firsts[i] = it.head, it.first
	x.n++
}

// split moves the items from i on to y, which is empty.
func (x *node) split(i int, y *node) {
	y.n = uint32(copy(y.heads[:], x.heads[i:x.n])) //nolint:gosec // G115: at most nodeItems
	copy(y.firsts[:], x.firsts[i:x.n])
	x.n = uint32(i) //nolint:gosec // G115: at most nodeItems
}

func (x *node) item(i int) item { return item{head: x.heads[i], first: x.firsts[i]} }

func (l *leaf) insert(i int, it item) {
	copy(l.ids[i+1:l.n+1], l.ids[i:l.n])
	l.ids[i] = it.id
	l.node.insert(i, it)
}

// insert inserts an item at i, and a child after it.
func (x *inner) insert(i int, it item, child ref) {
	copy(x.children[i+2:x.n+2], x.children[i+1:x.n+1])
	x.children[i+1] = child
	x.node.insert(i, it)
}

// insertInTree adds an item that is not in the tree.
func (t *Table) insertInTree(it item) {
	a, tr := &t.arena, &t.tree
	if tr.root == 0 {
		_, r := a.newLeaf()
		tr.root, tr.first, tr.last = r, r, r
	}
	var path [maxHeight]ref
	var at [maxHeight]int
	r := tr.root
	for level := tr.height; level > 0; level-- {
		x := a.inner(r)
		i := t.lowerBound(&x.node, it)
		path[level], at[level] = r, i
		r = x.children[i]
	}
	l := a.leaf(r)
	i := t.lowerBound(&l.node, it)
	if l.n < nodeItems {
		l.insert(i, it)
		return
	}
	right, rightRef := a.newLeaf()
	keep := nodeItems / 2
	if i == nodeItems && r == tr.last {
		keep = nodeItems // keys that ascend leave full leaves behind
	}
	copy(right.ids[:], l.ids[keep:])
	l.split(keep, &right.node)
	right.prev, right.next, l.next = r, l.next, rightRef
	if right.next != 0 {
		a.leaf(right.next).prev = rightRef
	} else {
		tr.last = rightRef
	}
	if i > keep || keep == nodeItems {
		right.insert(i-keep, it)
	} else {
		l.insert(i, it)
	}
	t.addChild(path[:], at[:], l.item(int(l.n)-1), rightRef)
}

// addChild inserts the separator of a node that was split, and its new right neighbour, into the nodes above it: path
// has them by level, and at the index of the left part among the children of each.
func (t *Table) addChild(path []ref, at []int, last item, right ref) {
	a, tr := &t.arena, &t.tree
	for level := 1; level <= tr.height; level++ {
		i, x := at[level], a.inner(path[level])
		if x.n < nodeItems {
			x.insert(i, last, right)
			return
		}
		// Split into the children up to mid and those after it.
		const mid = nodeItems / 2
		y, yRef := a.newInner()
		up := x.item(mid)
		copy(y.children[:], x.children[mid+1:])
		x.split(mid+1, &y.node)
		x.n = mid
		if i <= mid {
			x.insert(i, last, right)
		} else {
			y.insert(i-mid-1, last, right)
		}
		last, right = up, yRef
	}
	left := tr.root
	x, r := a.newInner()
	x.children[0] = left
	x.insert(0, last, right)
	tr.root = r
	tr.height++
}

// A position is that of an item in the tree, or beyond an end, where leaf is 0. An insert makes it invalid.
type position struct {
	leaf ref
	i    int
}

func (t *Table) itemAt(p position) item {
	l := t.arena.leaf(p.leaf)
	return item{l.heads[p.i], l.firsts[p.i], l.ids[p.i]}
}

// seekGE returns the position of the first item that is not before it.
func (t *Table) seekGE(it item) position {
	r := t.tree.root
	if r == 0 {
		return position{}
	}
	for level := t.tree.height; level > 0; level-- {
		x := t.arena.inner(r)
		r = x.children[t.lowerBound(&x.node, it)]
	}
	l := t.arena.leaf(r)
	i := t.lowerBound(&l.node, it)
	if i == int(l.n) {
		return position{l.next, 0}
	}
	return position{r, i}
}

// seekLE returns the position of the last item that is not after it.
func (t *Table) seekLE(it item) position {
	p := t.seekGE(it)
	switch {
	case p.leaf == 0:
		return t.lastPosition()
	case !t.less(it, t.itemAt(p)):
		return p
	}
	return t.before(p)
}

func (t *Table) firstPosition() position { return position{t.tree.first, 0} }

func (t *Table) lastPosition() position { return t.endOf(t.tree.last) }

// endOf returns the position of the last item of a leaf.
func (t *Table) endOf(r ref) position {
	if r == 0 {
		return position{}
	}
	return position{r, int(t.arena.leaf(r).n) - 1}
}

func (t *Table) after(p position) position {
	l := t.arena.leaf(p.leaf)
	if p.i++; p.i < int(l.n) {
		return p
	}
	return position{l.next, 0}
}

func (t *Table) before(p position) position {
	if p.i > 0 {
		return position{p.leaf, p.i - 1}
	}
	return t.endOf(t.arena.leaf(p.leaf).prev)
}

// reheadTree takes the heads of all items below r anew, which does not change their order.
func (t *Table) reheadTree(r ref, level int) {
	switch {
	case r == 0:
	case level == 0:
		t.reheadNode(&t.arena.leaf(r).node)
	default:
		x := t.arena.inner(r)
		t.reheadNode(&x.node)
		for _, c := range x.children[:x.n+1] {
			t.reheadTree(c, level-1)
		}
	}
}

func (t *Table) reheadNode(x *node) {
	for i, first := range x.firsts[:x.n] {
		x.heads[i] = t.headOf(first)
	}
}
