package memtable

import (
	"github.com/google/btree"

	"github.com/bloomkv/bloomkv/internal/pages"
)

// A Memory lends memory to tables, one after another: what a table gives back at its end, the next one takes. It is
// safe for concurrent use.
type Memory struct {
	*pages.Pool
	nodes *btree.FreeListG[item]
}

// maxIdleNodes bounds the nodes that wait for the next table: those of 700,000 keys in random order, 16 MB.
const maxIdleNodes = 8192

// NewMemory returns a Memory that has nothing yet.
func NewMemory() *Memory { return &Memory{pages.NewPool(), btree.NewFreeListG[item](maxIdleNodes)} }
