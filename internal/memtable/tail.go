package memtable

import "sync/atomic"

// A tail is the user keys that each came as the largest so far, in their order: all keys of a table that is filled in
// order, and a handful of one that is not. It costs a twentieth of the tree, which has the others, all before the
// tail's last.
type tail struct {
	n      atomic.Int64 // stored by the writer, without the table's lock
	chunks [][]item     // guarded by the table's mu, as the tree is
}

const tailChunk = 128 // items in one chunk: 2 KiB

// at is item i, 0 ≤ i < n.
func (l *tail) at(i int) *item { return &l.chunks[i/tailChunk][i%tailChunk] }
