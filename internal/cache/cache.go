// Package cache keeps decoded blocks in memory, within a bound, without a hash table: a table's reader owns one [Slot] for
// each of its blocks, and a hit is one pointer load from it.
//
// The buffers are recycled. A block that is evicted is unlinked from its slot at once, but its bytes are written again only
// after every reader that could still see it has left the [epoch.Domain]. Who cannot stay inside a guard holds the block
// with [Block.Acquire]; a block that is held when its turn comes is left to the garbage collector instead. The collector is
// also the fallback wherever recycling would cost more memory than it saves, so a reader is never waited for.
package cache

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/epoch"
)

const (
	shards     = 8 // each with its own lock, which only misses take
	batchLimit = 64
)

// A Slot is where a block of a table is found while it is in memory. The zero value is empty. Slots belong to the reader
// of the table and are written by the cache alone.
type Slot = atomic.Pointer[Block]

// A Cache is a bounded set of blocks. It is safe for concurrent use.
type Cache struct {
	domain *epoch.Domain
	poison atomic.Bool
	shards [shards]shard
	limbo  limbo
}

// A shard holds a share of the blocks and turns the hand of its own clock over them.
type shard struct {
	mu    sync.Mutex
	ring  []*Block // guarded by mu; a hole is nil
	holes []int32  // guarded by mu; positions of holes in the ring, last made last
	hand  int      // guarded by mu
	free  [classes][]*Block
	limit int64 // guarded by mu; bytes that may be published
	spare int64 // guarded by mu; bytes that may wait in the free lists

	used      int64  // guarded by mu; bytes published
	idle      int64  // guarded by mu; bytes in the free lists
	blocks    int    // guarded by mu
	inserts   uint64 // guarded by mu
	evictions uint64 // guarded by mu
	_         [64]byte
}

// The limbo holds blocks that no slot refers to and some reader may still see.
type limbo struct {
	mu      sync.Mutex
	limit   int64  // guarded by mu; bytes that may wait here; the rest is left to the collector
	bytes   int64  // guarded by mu
	batch   int64  // guarded by mu; bytes worth a retirement
	pending *batch // guarded by mu
	spares  []*batch
}

// A batch is retired as one. Its release function is made once in its life, so that evictions allocate nothing.
type batch struct {
	blocks  []*Block
	bytes   int64
	release func()
}

// Stats are the figures of a cache. Hits are not among them: counting them would make every hit write a shared line.
type Stats struct {
	Capacity  int64  // bytes allowed
	Used      int64  // bytes of the blocks that can be found, with their frames
	Spare     int64  // bytes that wait to be used again
	Blocks    int    // blocks that can be found
	Inserts   uint64 // blocks that became findable since New: the misses that were worth keeping
	Evictions uint64 // blocks that the clock took since New
}

// New makes a cache that keeps at most capacity bytes. Readers are inside guards of d when they call Get and use what it
// returns.
func New(capacity int64, d *epoch.Domain) *Cache {
	c := &Cache{domain: d}
	c.SetCapacity(capacity)
	return c
}

// Poison makes the cache overwrite each buffer before it is used again, so that a test sees a read of a recycled block.
func (c *Cache) Poison() { c.poison.Store(true) }

// Get returns the block in s, or nil. The caller is inside a guard of the domain, and the block is valid until it leaves
// or, if acquired before that, until it is released.
func (c *Cache) Get(s *Slot) *Block {
	b := s.Load()
	if b != nil && b.recent.Load() == 0 {
		b.recent.Store(1) // only if clear: readers of a hot block share its line
	}
	return b
}

// Alloc returns a block of n bytes, whose content is arbitrary, for the caller to fill and then Insert or Free. It has
// room for [Slack] more bytes.
func (c *Cache) Alloc(n int) *Block {
	class := classOf(n + Slack)
	if class >= classes {
		return newBlock(class, n)
	}
	i := rand.Uint32N(shards)
	s := &c.shards[i]
	s.mu.Lock()
	var b *Block
	if k := len(s.free[class]); k > 0 {
		b = s.free[class][k-1]
		s.free[class][k-1] = nil
		s.free[class] = s.free[class][:k-1]
		s.idle -= b.size()
	}
	s.mu.Unlock()
	if b == nil {
		b = newBlock(class, n)
		b.shard = uint8(i) //nolint:gosec // below shards
	}
	b.buf = b.buf[:n]
	return b
}

// Free takes back a block that was never inserted.
func (c *Cache) Free(b *Block) {
	s := &c.shards[b.shard]
	s.mu.Lock()
	s.recycle(b, c.poison.Load())
	s.mu.Unlock()
}

// Insert publishes b in s and returns it, evicting others to make room. If s holds a block already, that one is returned
// and b is freed. A block too large to be kept is returned unpublished and goes with its last user. The caller is inside a
// guard, as for Get.
func (c *Cache) Insert(s *Slot, b *Block) *Block {
	h := &c.shards[b.shard]
	h.mu.Lock()
	if w := s.Load(); w != nil {
		h.recycle(b, c.poison.Load())
		h.mu.Unlock()
		return w
	}
	n := b.size()
	if n > h.limit/2 {
		h.mu.Unlock()
		return b
	}
	retire := c.evict(h, h.limit-n)
	for !s.CompareAndSwap(nil, b) { // another shard's insert may come between
		if w := s.Load(); w != nil {
			h.recycle(b, c.poison.Load())
			h.mu.Unlock()
			c.retire(retire)
			return w
		}
	}
	b.slot = s
	b.recent.Store(0)
	h.link(b)
	h.inserts++
	h.mu.Unlock()
	c.retire(retire)
	return b
}

// Drop takes away the blocks of a table whose index or whole is going. Who still holds the old slots may insert into them
// later: nobody else finds these blocks, and the clock takes them in its turn.
func (c *Cache) Drop(slots []Slot) {
	for i := range slots {
		s := &slots[i]
		for b := s.Load(); b != nil; b = s.Load() {
			h := &c.shards[b.shard]
			h.mu.Lock()
			var retire *batch
			if b.slot == s { // else it was evicted, and perhaps used again elsewhere, since the load
				retire = c.unlink(h, b)
			}
			h.mu.Unlock()
			c.retire(retire)
		}
	}
}

// SetCapacity changes the bound and evicts down to it. A small part of the capacity is set aside for buffers that wait to
// be used again.
func (c *Cache) SetCapacity(n int64) {
	n = max(n, 0)
	spare := min(max(n/32, 256<<10), 4<<20, n/4)
	c.limbo.mu.Lock()
	c.limbo.limit = spare / 2
	c.limbo.batch = min(spare/16, 256<<10)
	c.limbo.mu.Unlock()
	for i := range c.shards {
		h := &c.shards[i]
		h.mu.Lock()
		h.limit = (n - spare) / shards
		h.spare = spare / 2 / shards
		for class := range h.free {
			for h.idle > h.spare && len(h.free[class]) > 0 {
				k := len(h.free[class]) - 1
				h.idle -= h.free[class][k].size()
				h.free[class][k] = nil
				h.free[class] = h.free[class][:k]
			}
		}
		retire := c.evict(h, h.limit)
		h.mu.Unlock()
		c.retire(retire)
	}
}

// Stats returns the figures of the moment.
func (c *Cache) Stats() Stats {
	var s Stats
	for i := range c.shards {
		h := &c.shards[i]
		h.mu.Lock()
		s.Capacity += h.limit
		s.Used += h.used
		s.Spare += h.idle
		s.Blocks += h.blocks
		s.Inserts += h.inserts
		s.Evictions += h.evictions
		h.mu.Unlock()
	}
	c.limbo.mu.Lock()
	s.Spare += c.limbo.bytes
	s.Capacity += 2 * c.limbo.limit
	c.limbo.mu.Unlock()
	return s
}

// link puts a block on the ring, in the hole made last if there is one: just behind the hand, so that the newest block is
// looked at last. The caller holds mu.
func (h *shard) link(b *Block) {
	if k := len(h.holes); k > 0 {
		b.pos = h.holes[k-1]
		h.holes = h.holes[:k-1]
		h.ring[b.pos] = b
	} else {
		b.pos = int32(len(h.ring)) //nolint:gosec // a ring of 2³¹ blocks would be 1 TiB at least
		h.ring = append(h.ring, b)
	}
	h.used += b.size()
	h.blocks++
}

// evict turns the hand until the shard uses at most limit bytes. The caller holds mu and afterwards, without it, retires
// what is returned.
func (c *Cache) evict(h *shard, limit int64) *batch {
	var full *batch
	for h.used > limit && h.blocks > 0 {
		if h.hand >= len(h.ring) {
			h.hand = 0
		}
		b := h.ring[h.hand]
		h.hand++
		if b == nil {
			continue
		}
		if b.recent.Load() != 0 {
			b.recent.Store(0)
			continue
		}
		h.evictions++
		if f := c.unlink(h, b); f != nil {
			f.next(&full)
		}
	}
	return full
}

// next chains f before *list. More than one batch fills up in one call only when the capacity falls.
func (f *batch) next(list **batch) {
	if *list != nil {
		f.blocks = append(f.blocks, (*list).blocks...)
		f.bytes += (*list).bytes
	}
	*list = f
}

// unlink takes a published block out of its slot and of the ring and puts it into limbo. The caller holds the shard's mu.
func (c *Cache) unlink(h *shard, b *Block) *batch {
	b.slot.CompareAndSwap(b, nil)
	b.slot = nil
	h.ring[b.pos] = nil
	h.holes = append(h.holes, b.pos)
	n := b.size()
	h.used -= n
	h.blocks--

	l := &c.limbo
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes+n > l.limit || int(b.class) >= classes {
		return nil // left to the collector
	}
	if l.pending == nil {
		l.pending = c.newBatch()
	}
	l.bytes += n
	l.pending.blocks = append(l.pending.blocks, b)
	l.pending.bytes += n
	if l.pending.bytes < l.batch && len(l.pending.blocks) < batchLimit {
		return nil
	}
	full := l.pending
	l.pending = nil
	return full
}

// newBatch returns an empty batch. The caller holds limbo.mu.
func (c *Cache) newBatch() *batch {
	l := &c.limbo
	if k := len(l.spares); k > 0 {
		f := l.spares[k-1]
		l.spares = l.spares[:k-1]
		return f
	}
	f := &batch{blocks: make([]*Block, 0, batchLimit)}
	f.release = func() { c.release(f) }
	return f
}

// retire has a batch released once no reader sees its blocks. The caller holds no lock.
func (c *Cache) retire(f *batch) {
	if f != nil {
		c.domain.Retire(f.release)
	}
}

// release makes the blocks of a batch free for use.
func (c *Cache) release(f *batch) {
	poison := c.poison.Load()
	for i, b := range f.blocks {
		f.blocks[i] = nil
		if b.holds.Load() != 0 {
			continue // an iterator has it: left to the collector
		}
		h := &c.shards[b.shard]
		h.mu.Lock()
		h.recycle(b, poison)
		h.mu.Unlock()
	}
	c.limbo.mu.Lock()
	c.limbo.bytes -= f.bytes
	f.blocks, f.bytes = f.blocks[:0], 0
	c.limbo.spares = append(c.limbo.spares, f)
	c.limbo.mu.Unlock()
}

// poisoned is what buffers are overwritten with in tests.
var poisoned = func() (b [512]byte) {
	for i := range b {
		b[i] = 0xdb
	}
	return b
}()

// recycle puts a block that nobody sees into a free list, if there is room. The caller holds mu.
func (h *shard) recycle(b *Block, poison bool) {
	if poison {
		for buf := b.buf[:cap(b.buf)]; len(buf) > 0; {
			buf = buf[copy(buf, poisoned[:]):]
		}
	}
	if n := b.size(); int(b.class) < classes && h.idle+n <= h.spare {
		h.idle += n
		h.free[b.class] = append(h.free[b.class], b)
	}
}
