package replica

import (
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

const (
	recentEntries = 512
	recentBytes   = 32 << 20 // of data; the newest entry stays, however large it is
)

// recentLog keeps the newest entries of the log in memory, within bounds: followers are mostly sent these. The cache of
// raft has a bound for their number alone, and an entry may have 9 MiB.
type recentLog struct {
	guardedLog

	mu      sync.Mutex
	entries []*raft.Log // guarded by mu; their indexes ascend without a gap
	bytes   int         // guarded by mu
}

// GetLog reads an entry.
func (c *recentLog) GetLog(index uint64, to *raft.Log) error {
	if e := c.recent(index); e != nil {
		*to = *e
		return nil
	}
	return c.guardedLog.GetLog(index, to)
}

// recent returns an entry, nil if it is not in memory.
func (c *recentLog) recent(index uint64) *raft.Log {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) == 0 || index < c.entries[0].Index || index-c.entries[0].Index >= uint64(len(c.entries)) {
		return nil
	}
	return c.entries[index-c.entries[0].Index]
}

// StoreLog appends an entry.
func (c *recentLog) StoreLog(entry *raft.Log) error { return c.StoreLogs([]*raft.Log{entry}) }

// StoreLogs appends entries.
func (c *recentLog) StoreLogs(entries []*raft.Log) error {
	if err := c.guardedLog.StoreLogs(entries); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range entries {
		if n := len(c.entries); n > 0 && c.entries[n-1].Index+1 != e.Index {
			c.forget(n)
		}
		c.entries = append(c.entries, e)
		c.bytes += len(e.Data)
	}
	drop, bytes := 0, c.bytes
	for ; len(c.entries)-drop > recentEntries || bytes > recentBytes && drop < len(c.entries)-1; drop++ {
		bytes -= len(c.entries[drop].Data)
	}
	c.forget(drop)
	return nil
}

// forget drops the oldest entries. The caller holds mu.
func (c *recentLog) forget(n int) {
	for _, e := range c.entries[:n] {
		c.bytes -= len(e.Data)
	}
	c.entries = slices.Delete(c.entries, 0, n)
}

// DeleteRange deletes entries.
func (c *recentLog) DeleteRange(first, last uint64) error {
	c.mu.Lock()
	c.forget(len(c.entries))
	c.mu.Unlock()
	return c.guardedLog.DeleteRange(first, last)
}
