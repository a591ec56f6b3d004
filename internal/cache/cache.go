// Package cache keeps decoded blocks in memory, within a bound, without a hash table: a table's reader owns one [Slot]
// for each of its blocks, and a hit is one pointer load from it. A [Pool] owns the memory and the bound. Each store
// that shares it has a [Cache], which knows the store's readers and counts its blocks.
//
// The buffers are recycled. An evicted block is unlinked from its slot at once, but its bytes are overwritten only
// after every reader that could still see it has left the [epoch.Domain]. A reader that cannot stay inside a guard
// holds the block with [Block.Acquire]; a block that is held when its turn comes is left to the last Release instead.
// Most buffers of larger pools are outside the heap, see [pages.Frames]. The heap is the fallback wherever that or
// recycling would cost more memory than it saves, so nothing ever waits for a reader.
package cache

import (
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/step"
)

const (
	shards     = 8 // each with its own lock, which only misses take
	batchLimit = 64
	heapFirst  = 4 << 20 // bytes of blocks up to which a pool takes no slab, so that a small store stays small
	minFramed  = 4 << 10 // bytes of the smallest block in a slab
)

// A Slot refers to a block of a table while it is in memory. The zero value is empty. Slots belong to the table's
// reader (I28), and only the cache writes them.
type Slot = atomic.Pointer[Block]

// A Cache is one store's part of a pool, from nothing to all of it. It is safe for concurrent use.
type Cache struct {
	pool   *Pool
	domain *epoch.Domain // of the readers of its blocks only: a store never waits for another's readers
	closed atomic.Bool

	used, blocks       atomic.Int64 // changed under a shard's mu
	inserts, evictions atomic.Uint64

	pending *batch // guarded by limbo.mu
}

// Stats are the figures of a pool, which are bytes alone, or of one cache in it. Hits are not counted: every hit would
// write a shared line.
type Stats struct {
	Capacity  int64  // bytes allowed, of the pool
	Used      int64  // bytes of the blocks that can be found, with their headers
	Spare     int64  // bytes of buffers that wait to be reused, in the pool
	Blocks    int    // blocks that can be found
	Inserts   uint64 // blocks inserted and kept since the beginning
	Evictions uint64 // blocks evicted since the beginning
}

// New returns a cache in a pool of its own, which keeps at most capacity bytes.
func New(capacity int64, d *epoch.Domain) *Cache { return NewPool(capacity).NewCache(d) }

// Get returns the block in s, or nil. The caller must be inside a guard of the domain. The block is valid until the
// caller leaves the guard or, if it acquired the block before, until it releases it.
func (c *Cache) Get(s *Slot) *Block {
	b := s.Load()
	if b != nil && b.recent.Load() == 0 {
		b.recent.Store(1) // only if clear: readers of a hot block share its line
	}
	return b
}

// Alloc returns a block of n bytes, whose content is arbitrary, for the caller to fill and then Insert or Free. It has
// a capacity of at least [Slack] more bytes.
func (c *Cache) Alloc(n int) *Block {
	class := classOf(n + Slack)
	if class >= classes {
		b := c.pool.newBlock(class, n, false)
		b.Resize(n)
		return b
	}
	i := step.Rand(shards)
	s := &c.pool.shards[i]
	s.mu.Lock()
	var b *Block
	if k := len(s.free[class]); k > 0 {
		b = s.free[class][k-1]
		s.free[class][k-1] = nil
		s.free[class] = s.free[class][:k-1]
		s.idle -= b.size()
	}
	framed := c.pool.framed && s.used >= c.pool.heapFirst
	s.mu.Unlock()
	if b == nil {
		b = c.pool.newBlock(class, n, framed)
	}
	b.shard = uint8(i) //nolint:gosec // below shards
	b.Resize(n)
	return b
}

// Free returns a block that was never inserted to the pool.
func (c *Cache) Free(b *Block) {
	s := &c.pool.shards[b.shard]
	s.mu.Lock()
	s.recycle(b)
	s.mu.Unlock()
}

// Discard gives back a block that was never inserted, once no reader that is inside a guard now can use it; if a reader
// holds it then, its last Release does. The caller is inside a guard.
func (c *Cache) Discard(b *Block) {
	var full batches
	c.pool.retire(c, b, c.closed.Load(), &full) // after Close none may follow that would fill the batch
	full.retire()
}

// Insert publishes b in s and returns it, evicting other blocks if necessary. If s already holds a block, that one is
// returned and b is freed. A block too large to be kept, or inserted after Close, is returned unpublished and lives
// until its last use. The caller must be inside a guard, as for Get.
func (c *Cache) Insert(s *Slot, b *Block) *Block {
	h := &c.pool.shards[b.shard]
	h.mu.Lock()
	if w := s.Load(); w != nil {
		h.recycle(b)
		h.mu.Unlock()
		return w
	}
	n := b.size()
	if n > h.limit/2 || c.closed.Load() {
		h.mu.Unlock()
		b.toHeap()
		if Testing.Load() != nil {
			c.domain.Retire(func() {
				if b.leave() {
					b.end()
				}
			})
		}
		return b
	}
	full := c.pool.evict(h, h.limit-n)
	for !s.CompareAndSwap(nil, b) { // another shard's insert may come between
		if w := s.Load(); w != nil {
			h.recycle(b)
			h.mu.Unlock()
			full.retire()
			return w
		}
	}
	b.slot, b.owner = s, c
	b.recent.Store(0)
	h.link(b, !c.pool.ghosts.Load().remove(s))
	c.inserts.Add(1)
	h.mu.Unlock()
	step.At("cache: inserted")
	full.retire()
	return b
}

// HasRoom reports whether a block of n bytes can be inserted without another one being evicted. It takes no lock, and
// may be wrong for a few blocks.
func (c *Cache) HasRoom(n int) bool { return int64(n) <= c.pool.largest.Load() && !c.pool.full.Load() }

// Drop removes the blocks of a table that is closed or whose index is unloaded. Readers that still have the old slots
// may insert into them later: nothing finds these blocks, and they are evicted in turn.
func (c *Cache) Drop(slots []Slot) {
	for i := range slots {
		s := &slots[i]
		for b := s.Load(); b != nil; b = s.Load() {
			h := &c.pool.shards[b.shard]
			h.mu.Lock()
			var full batches
			if b.slot == s { // else it was evicted, and perhaps reused elsewhere, since the load
				c.pool.unlink(h, b, &full)
				c.pool.full.Store(false)
			}
			h.mu.Unlock()
			full.retire()
		}
	}
}

// Held returns the number of the cache's blocks, of those that are held, and of those in frames.
func (c *Cache) Held() (blocks, held, framed int) {
	for i := range c.pool.shards {
		h := &c.pool.shards[i]
		h.mu.Lock()
		for _, b := range h.published() {
			if b.owner == c {
				if blocks++; b.holds.Load() != 0 {
					held++
				}
				if b.buf.Lent() {
					framed++
				}
			}
		}
		h.mu.Unlock()
	}
	return blocks, held, framed
}

// Closed reports whether Close was called.
func (c *Cache) Closed() bool { return c.closed.Load() }

// Close removes all blocks of the cache from the pool, including those in slots that nothing refers to. Readers may
// still be active: what they insert from now on is not kept.
func (c *Cache) Close() {
	c.closed.Store(true)
	for i := range c.pool.shards {
		h := &c.pool.shards[i]
		var full batches
		h.mu.Lock() // an earlier insert has linked its block
		for _, b := range h.published() {
			if b.owner == c {
				c.pool.unlink(h, b, &full)
			}
		}
		h.mu.Unlock()
		full.retire()
	}
	c.pool.full.Store(false)
}

// Stats returns the current figures: blocks of this cache alone, capacity and spare of the pool.
func (c *Cache) Stats() Stats {
	s := c.pool.Stats()
	s.Used, s.Blocks = c.used.Load(), int(c.blocks.Load())
	s.Inserts, s.Evictions = c.inserts.Load(), c.evictions.Load()
	return s
}
