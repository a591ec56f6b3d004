package sstable

import (
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/step"
)

// A PartPool bounds the memory of the parts of indexes. Readers share it, and load parts into it at their first use. To
// make room it evicts parts by the clock algorithm, together with their blocks in the cache: those that were used since
// its hand came by stay. It is safe for concurrent use.
type PartPool struct {
	// Grown, if not nil, is called after a lookup or a cursor has loaded a part, maybe inside a guard. Only before the
	// first use of the pool.
	Grown func()

	limit, bytes atomic.Int64 // bytes is changed under mu

	mu   step.Mutex // held over no other call
	hand *index     // guarded by mu; a ring; nil if the pool is empty
	n    int        // guarded by mu; parts in the ring
}

// NewPartPool returns a pool of at most limit bytes.
func NewPartPool(limit int64) *PartPool {
	p := new(PartPool)
	p.limit.Store(limit)
	return p
}

// SetLimit changes the limit to the given number of bytes, and evicts parts beyond it.
func (p *PartPool) SetLimit(bytes int64) {
	p.mu.Lock()
	p.limit.Store(bytes)
	gone := p.evict(bytes)
	p.mu.Unlock()
	dropBlocks(gone)
}

// Bytes returns the bytes of memory that the parts of all readers take.
func (p *PartPool) Bytes() int64 { return p.bytes.Load() }

// hasRoom reports whether a part of n bytes fits without another one being evicted.
func (p *PartPool) hasRoom(n int64) bool { return p.bytes.Load()+n <= p.limit.Load() }

// A place is what the pool knows of a part.
type place struct {
	home       *atomic.Pointer[index] // constant; lookups find the part there
	owner      *Reader                // constant
	size       int64                  // constant; bytes
	prev, next *index                 // guarded by PartPool.mu; nil if the part is not in the pool
}

// put makes x, which nobody else knows yet, the part at home, and returns it. If there is one already, put returns
// that. If the pool may not have x, as it is too large or its reader is closed, x is the caller's own.
func (p *PartPool) put(owner *Reader, home *atomic.Pointer[index], x *index) *index {
	x.place = place{home: home, owner: owner, size: x.bytes()}
	p.mu.Lock()
	if y := home.Load(); y != nil {
		p.mu.Unlock()
		return y
	}
	if owner.closed || owner.cache.Closed() || x.size > p.limit.Load() {
		p.mu.Unlock()
		return x
	}
	gone := p.evict(p.limit.Load() - x.size)
	if p.hand == nil {
		p.hand, x.prev, x.next = x, x, x
	} else { // behind the hand
		x.prev, x.next = p.hand.prev, p.hand
		x.prev.next, x.next.prev = x, x
	}
	p.n++
	p.bytes.Add(x.size)
	owner.partBytes.Add(x.size)
	x.kept.Store(true)
	home.Store(x)
	p.mu.Unlock()
	dropBlocks(gone)
	return x
}

// evict evicts parts until the others have at most limit bytes, and returns a list of them by next. The caller holds
// mu, and calls dropBlocks after releasing it.
func (p *PartPool) evict(limit int64) (gone *index) {
	for chances := p.n; p.hand != nil && p.bytes.Load() > limit; {
		x := p.hand
		if chances > 0 && x.recent.Load() != 0 {
			chances--
			x.recent.Store(0)
			p.hand = x.next
			continue
		}
		p.remove(x)
		x.next, gone = gone, x
	}
	return gone
}

// remove removes a part. The caller holds mu.
func (p *PartPool) remove(x *index) {
	if x.next == x {
		p.hand = nil
	} else {
		x.prev.next, x.next.prev = x.next, x.prev
		if p.hand == x {
			p.hand = x.next
		}
	}
	x.prev, x.next = nil, nil
	p.n--
	p.bytes.Add(-x.size)
	x.owner.partBytes.Add(-x.size)
	x.kept.Store(false) // first: see Reader.insert
	x.home.Store(nil)
}

// dropBlocks drops the cached blocks of parts that were evicted.
func dropBlocks(gone *index) {
	for gone != nil {
		x := gone
		gone, x.next = x.next, nil
		x.owner.cache.Drop(x.slots)
	}
}

// Leave removes all parts of the readers that use a cache, which was closed: no part of theirs is kept any more.
func (p *PartPool) Leave(c *cache.Cache) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range p.n {
		x := p.hand
		p.hand = x.next
		if x.owner.cache == c {
			p.remove(x)
		}
	}
}

// drop removes all parts of a reader, and their blocks from the cache. No part of it is kept any more.
func (p *PartPool) drop(r *Reader) {
	var gone *index
	p.mu.Lock()
	r.closed = true
	if t := r.top.Load(); t != nil {
		for i := range t.loaded {
			if x := t.loaded[i].Load(); x != nil {
				p.remove(x)
				x.next, gone = gone, x
			}
		}
	}
	p.mu.Unlock()
	dropBlocks(gone)
}
