package sstable

import (
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/step"
)

// A resident holds a table's index and the rest of its tail in memory, from their first use on. Parts of the index can
// be dropped and loaded again. The rest stays until release, so that it is the same to every lookup.
type resident struct {
	top  atomic.Pointer[top]  // nil: never loaded
	tail atomic.Pointer[tail] // nil: never loaded

	mu step.Mutex // serializes loading and release; held while the tail is read from the file

	topBytes  atomic.Int64 // bytes of the top
	partBytes atomic.Int64 // bytes of the parts; changed under PartPool.mu
	closed    bool         // guarded by PartPool.mu: no part is kept any more
}

// load returns the top of the index, and reads the tail if it was never loaded.
func (r *Reader) load(st *Stats) (*top, error) {
	if t := r.top.Load(); t != nil {
		return t, nil
	}
	r.resident.mu.Lock()
	defer r.resident.mu.Unlock()
	if t := r.top.Load(); t != nil {
		return t, nil
	}
	st.TailLoads++
	x, t, err := r.readTail()
	if err != nil {
		return nil, err
	}
	r.keep(t, r.seq)
	if x != nil {
		r.parts.put(r, &t.top.loaded[0], x)
	}
	return t.top, nil
}

// keep publishes a tail that readTail returned, unless there is one already. seq, if not 0, replaces all sequence
// numbers. The caller holds mu.
func (s *resident) keep(t *tail, seq ikey.Seq) {
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
	s.topBytes.Store(t.top.bytes())
	s.top.Store(t.top)
}

// release drops the index, the table's blocks and its range tombstones.
func (r *Reader) release() {
	r.resident.mu.Lock()
	defer r.resident.mu.Unlock()
	r.parts.drop(r)
	r.topBytes.Store(0) // it is left to the lookups that are under way
	if t := r.tail.Load(); t != nil {
		k := *t
		k.dels, k.bytes = nil, 0
		r.tail.Store(&k)
	}
}

// Loaded reports whether the tail is in memory.
func (s *resident) Loaded() bool { return s.top.Load() != nil }

// IndexBytes returns the bytes of memory that the index takes now: its top and its loaded parts.
func (s *resident) IndexBytes() int64 { return s.topBytes.Load() + s.partBytes.Load() }

// Parts returns the number of parts of the index that are in memory, and of all parts, 0 before the tail is loaded.
func (s *resident) Parts() (loaded, all int) {
	t := s.top.Load()
	if t == nil {
		return 0, 0
	}
	for p := range t.loaded {
		if t.loaded[p].Load() != nil {
			loaded++
		}
	}
	return loaded, len(t.loaded)
}

// TopBytes returns the bytes of memory that the top of the index takes, 0 before it is loaded and after Close.
func (s *resident) TopBytes() int64 { return s.topBytes.Load() }

// RangeDels returns the table's range tombstones as readers see them, nil without any or before the tail was loaded.
// Once loaded they stay in memory until Close, even if the index is dropped. It does no I/O.
func (s *resident) RangeDels() *rangedel.Index {
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
