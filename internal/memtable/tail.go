package memtable

import "sync/atomic"

// A tail holds, in order, the user keys that were each the largest so far when they were added: all keys of a table
// that is filled in order, and a few of any other. It costs a twentieth of the tree, which has the other keys, all of
// them before the tail's last.
type tail struct {
	n      atomic.Int64 // items that readers see; stored by the writer, without the table's lock
	chunks [][]item     // guarded by the table's mu, as the tree is
}

const tailChunk = 128 // items in one chunk: 2 KiB

// at returns item i, 0 ≤ i < n.
func (l *tail) at(i int) *item { return &l.chunks[i/tailChunk][i%tailChunk] }
