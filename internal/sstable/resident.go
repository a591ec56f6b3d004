package sstable

import (
	"sync"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// A resident holds a table's index and the rest of its tail in memory, from their first use on. The index can be
// dropped and loaded again. The rest stays until release, so that it is the same to every lookup.
type resident struct {
	index atomic.Pointer[index] // nil: not loaded
	tail  atomic.Pointer[tail]  // nil: never loaded

	mu sync.Mutex // serializes loading and dropping; held while the tail is read from the file
}

// load returns the index, and reads the tail if the index is not in memory. read reports whether it tried to.
func (s *resident) load(f *tableFile) (x *index, read bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x = s.index.Load(); x != nil {
		return x, false, nil
	}
	x, t, err := f.readTail()
	if err != nil {
		return nil, true, err
	}
	s.keepLocked(t, f.meta.Seq)
	s.index.Store(x)
	return x, true, nil
}

// keep publishes a tail that readTail returned, unless there is one already. seq, if not 0, replaces all sequence
// numbers.
func (s *resident) keep(t *tail, seq ikey.Seq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepLocked(t, seq)
}

// keepLocked implements keep. The caller holds mu.
func (s *resident) keepLocked(t *tail, seq ikey.Seq) {
	if s.tail.Load() != nil {
		return
	}
	if seq != 0 && t.dels != nil {
		k := *t // the caller's stays as the file has it
		k.dels = overridden(t.dels, seq)
		t = &k
	}
	t.bytes = t.dels.Bytes()
	s.tail.Store(t)
}

// drop drops the index, and the table's blocks from the cache.
func (s *resident) drop(c *cache.Cache) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(c)
}

// tryDrop calls drop, unless the tail is being read from the file. It reports whether it dropped the index.
func (s *resident) tryDrop(c *cache.Cache) bool {
	if !s.mu.TryLock() {
		return false
	}
	defer s.mu.Unlock()
	s.dropLocked(c)
	return true
}

// dropLocked implements drop. The caller holds mu.
func (s *resident) dropLocked(c *cache.Cache) {
	if x := s.index.Swap(nil); x != nil {
		c.Drop(x.slots)
	}
}

// release drops the index, the table's blocks and its range tombstones.
func (s *resident) release(c *cache.Cache) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(c)
	if t := s.tail.Load(); t != nil {
		k := *t
		k.dels, k.bytes = nil, 0
		s.tail.Store(&k)
	}
}

// Loaded reports whether the index is in memory.
func (s *resident) Loaded() bool { return s.index.Load() != nil }

// IndexBytes returns the bytes of memory that the index takes now.
func (s *resident) IndexBytes() int64 {
	if x := s.index.Load(); x != nil {
		return x.bytes()
	}
	return 0
}

// RangeDels returns the table's range tombstones as readers see them, nil without any or before the tail was loaded.
// Once loaded they stay in memory until Close, even if the index is dropped. It does no I/O.
func (s *resident) RangeDels() rangedel.List {
	if t := s.tail.Load(); t != nil {
		return t.dels
	}
	return nil
}

// RangeDelBytes returns the bytes of memory that the range tombstones take now.
func (s *resident) RangeDelBytes() int64 {
	if t := s.tail.Load(); t != nil {
		return t.bytes
	}
	return 0
}

// PrefixRule returns the text of the prefix filter's rule, empty if the table has no such filter. known is false until
// the tail was loaded. It does no I/O.
func (s *resident) PrefixRule() (rule string, known bool) {
	t := s.tail.Load()
	if t == nil {
		return "", false
	}
	return t.props.Prefixes.Rule, true
}
