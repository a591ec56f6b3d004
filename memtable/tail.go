package memtable

import (
	"sort"
	"sync/atomic"
)

// A tail is the user keys that each came as the largest so far, in their order: all keys of a table that is filled in order,
// and a handful of one that is not. It costs a twentieth of the tree, which has the others, all before the tail's last.
type tail struct {
	n      atomic.Int64 // stored by the writer, without the table's lock
	chunks [][]item     // guarded by the table's mu, as the tree is
}

const tailChunk = 128 // items in one chunk: 2 KiB

// at is item i, 0 ≤ i < n.
func (l *tail) at(i int) *item { return &l.chunks[i/tailChunk][i%tailChunk] }

// search is the first of n items that is not before it.
func (t *Table) search(it item, n int) int {
	return sort.Search(n, func(i int) bool { return !t.less(*t.tail.at(i), it) })
}

// isLast reports whether key, whose head is that, is behind all others of the table. It is for the writer.
func (t *Table) isLast(key []byte, head uint64) bool {
	n := int(t.tail.n.Load())
	if n == 0 {
		return true // then there is no key
	}
	last := t.tail.at(n - 1)
	if head != last.head {
		return head > last.head
	}
	return string(key) > string(t.keyOf(last.first))
}

// push adds an item behind all others. Readers find it whole, or not.
func (t *Table) push(it item) {
	n := int(t.tail.n.Load())
	if n == len(t.tail.chunks)*tailChunk {
		t.mu.Lock()
		t.tail.chunks = append(t.tail.chunks, make([]item, tailChunk))
		t.mu.Unlock()
		t.orderMem.Add(tailChunk * itemBytes)
	}
	*t.tail.at(n) = it
	t.tail.n.Store(int64(n + 1))
}
