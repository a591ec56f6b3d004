package sstable

import (
	"sync"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// A resident holds a table's index and the rest of its tail in memory, from their first use on. Parts of the index, or
// an index in one part, can be dropped and loaded again. The rest stays until release, so that it is the same to every
// lookup.
type resident struct {
	index atomic.Pointer[index] // an index that is not in parts; nil: not loaded
	top   atomic.Pointer[top]   // of an index in parts; nil: never loaded
	tail  atomic.Pointer[tail]  // nil: never loaded

	mu sync.Mutex // serializes loading and dropping; held while the tail is read from the file

	topBytes  atomic.Int64 // bytes of the top
	partBytes atomic.Int64 // bytes of the parts; changed under PartPool.mu
	closed    bool         // guarded by PartPool.mu: no part is kept any more
}

// load returns the index, or the top if it is in parts, and reads the tail if neither is in memory.
func (r *Reader) load(st *Stats) (*index, *top, error) {
	r.resident.mu.Lock()
	defer r.resident.mu.Unlock()
	if x, t := r.index.Load(), r.top.Load(); x != nil || t != nil {
		return x, t, nil
	}
	st.TailLoads++
	if r.tail.Load() != nil { // the index was dropped, as a part is
		st.IndexParts++
		st.PartLoads++
	}
	x, t, err := r.readTail()
	if err != nil {
		return nil, nil, err
	}
	r.keepLocked(t, r.seq)
	if t.top == nil {
		x = r.parts.put(r, &r.resident.index, x)
	}
	return x, t.top, nil
}

// readIndex does the same as load, but puts no index into the pool.
func (r *Reader) readIndex(st *Stats) (*index, *top, error) {
	if x, t := r.index.Load(), r.top.Load(); x != nil || t != nil {
		return x, t, nil
	}
	st.TailLoads++
	x, t, err := r.readTail()
	if err != nil {
		return nil, nil, err
	}
	r.resident.keep(t, r.seq)
	return x, r.top.Load(), nil
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
	if t.top != nil {
		s.topBytes.Store(t.top.bytes())
		s.top.Store(t.top)
	}
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

// eachHome calls f with each place of a part.
func (s *resident) eachHome(f func(home *atomic.Pointer[index])) {
	f(&s.index)
	if t := s.top.Load(); t != nil {
		for p := range t.loaded {
			f(&t.loaded[p])
		}
	}
}

// Loaded reports whether the index, or its top if it is in parts, is in memory.
func (s *resident) Loaded() bool { return s.index.Load() != nil || s.top.Load() != nil }

// IndexBytes returns the bytes of memory that the index takes now: its top and its loaded parts.
func (s *resident) IndexBytes() int64 { return s.topBytes.Load() + s.partBytes.Load() }

// Parts returns the number of parts of the index that are in memory, and of all parts, 0 before the tail is loaded.
func (s *resident) Parts() (loaded, all int) {
	s.eachHome(func(home *atomic.Pointer[index]) {
		all++
		if home.Load() != nil {
			loaded++
		}
	})
	switch t := s.top.Load(); {
	case t != nil:
		all-- // the home of an index that is not in parts
	case s.tail.Load() == nil:
		all = 0
	}
	return loaded, all
}

// TopBytes returns the bytes of memory that the top of an index in parts takes, 0 before it is loaded and after Close.
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
