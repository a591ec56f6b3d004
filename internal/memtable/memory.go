package memtable

import (
	"sync/atomic"

	"github.com/google/btree"

	"github.com/bloomkv/bloomkv/internal/pages"
)

// A Memory lends memory to tables, one after another: what a table gives back at its end, the next one takes. It is
// safe for concurrent use.
type Memory struct {
	*pages.Pool
	nodes atomic.Pointer[btree.FreeListG[item]]
}

// maxIdleNodes bounds the nodes that wait for the next table: those of 700,000 keys in random order, 16 MB.
const maxIdleNodes = 8192

// NewMemory returns a Memory that has nothing yet.
func NewMemory() *Memory { return newMemory(pages.NewPool(), maxIdleNodes) }

func newMemory(pool *pages.Pool, maxIdle int) *Memory {
	m := &Memory{Pool: pool}
	m.nodes.Store(btree.NewFreeListG[item](maxIdle))
	return m
}

// Drop drops what no table uses. Later tables are not expected.
func (m *Memory) Drop() {
	m.Trim(0)
	m.nodes.Store(btree.NewFreeListG[item](0))
}
