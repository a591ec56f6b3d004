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
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/pages"
)

const (
	shards     = 8 // each with its own lock, which only misses take
	batchLimit = 64
	maxSpares  = 64      // batches kept for reuse
	heapFirst  = 4 << 20 // bytes of blocks up to which a pool takes no slab, so that a small store stays small
	minFramed  = 4 << 10 // bytes of the smallest block in a slab
)

// A Slot refers to a block of a table while it is in memory. The zero value is empty. Slots belong to the table's
// reader (I28), and only the cache writes them.
type Slot = atomic.Pointer[Block]

// A Pool is a bounded set of blocks, shared by caches. It is safe for concurrent use.
type Pool struct {
	poison atomic.Bool
	full   atomic.Bool // a block was evicted since blocks were last dropped

	largest atomic.Int64 // bytes of the largest block that is kept
	most    int64        // constant; limit of SetCapacity in bytes; 0 is no limit
	keeps   atomic.Int64 // bytes that published blocks and free frames may have
	used    atomic.Int64 // bytes of published blocks; changed under a shard's mu
	shards  [shards]shard
	ghosts  atomic.Pointer[ghosts]
	limbo   limbo
	frames  *pages.Frames

	framed    bool  // constant; blocks of 4 to 32 KiB are in frames
	heapFirst int64 // constant; bytes of a shard's first blocks, which are in the heap
}

// A Cache is one store's part of a pool, from nothing to all of it. It is safe for concurrent use.
type Cache struct {
	pool   *Pool
	domain *epoch.Domain // of the readers of its blocks only: a store never waits for another's readers
	closed atomic.Bool

	used, blocks       atomic.Int64 // changed under a shard's mu
	inserts, evictions atomic.Uint64

	pending *batch // guarded by limbo.mu
}

// A shard holds a part of the blocks and chooses those to evict, as S3-FIFO does (Yang, Zhang, Qiu, Yue, Vinayak, "FIFO
// queues are all you need for cache eviction", SOSP 2023). A new block is on trial first, in a queue of a twentieth of
// the bytes. At its end a block that was used again moves to the ring of the clock algorithm, and any other is evicted:
// most blocks are asked for once, and need not push out one that is asked for often. A block that comes back soon after
// its trial, see ghosts, goes to the ring at once.
type shard struct {
	mu    sync.Mutex
	trial queue    // guarded by mu
	ring  []*Block // guarded by mu; a hole is nil
	holes []int32  // guarded by mu; indexes of holes in the ring, newest last
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

// The limbo holds blocks that no slot refers to but some reader may still see.
type limbo struct {
	mu     sync.Mutex
	limit  int64    // guarded by mu; bytes that may wait here to be used again
	bytes  int64    // guarded by mu
	batch  int64    // guarded by mu; bytes that make a batch full
	begun  []*Cache // guarded by mu; caches with a pending batch
	spares []*batch // guarded by mu; at most maxSpares
}

// A batch is a list of blocks of one cache that are retired together. Its release function is made once in its life, so
// that evictions allocate nothing.
type batch struct {
	owner   *Cache
	blocks  []*Block
	bytes   int64 // of the blocks that count in the limbo
	release func()
	next    *batch // in a list of full batches
}

// Stats are the figures of a pool, or of one cache in it. Hits are not counted: every hit would write a shared line.
type Stats struct {
	Capacity  int64  // bytes allowed, of the pool
	Used      int64  // bytes of the blocks that can be found, with their headers
	Spare     int64  // bytes of buffers that wait to be reused, in the pool
	Blocks    int    // blocks that can be found
	Inserts   uint64 // blocks inserted and kept since the beginning
	Evictions uint64 // blocks evicted since the beginning
}

// NewPool returns a pool that keeps at most capacity bytes.
func NewPool(capacity int64) *Pool {
	p := &Pool{
		most: testPools.most.Load(), frames: pages.NewFrames(), framed: pages.Huge, heapFirst: heapFirst / shards,
	}
	if testPools.poison.Load() {
		p.poison.Store(true)
		p.framed, p.heapFirst = true, 0
	}
	p.SetCapacity(capacity)
	return p
}

// NewCache returns a cache in the pool. Its readers must be inside guards of d when they call Get and use the result.
func (p *Pool) NewCache(d *epoch.Domain) *Cache { return &Cache{pool: p, domain: d} }

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
	i := rand.Uint32N(shards)
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
	s.recycle(b, c.pool.poison.Load())
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
		h.recycle(b, c.pool.poison.Load())
		h.mu.Unlock()
		return w
	}
	n := b.size()
	if n > h.limit/2 || c.closed.Load() {
		h.mu.Unlock()
		b.toHeap()
		if c.pool.poison.Load() {
			c.domain.Retire(func() {
				if b.leave() {
					spoil(b)
				}
			})
		}
		return b
	}
	full := c.pool.evict(h, h.limit-n)
	for !s.CompareAndSwap(nil, b) { // another shard's insert may come between
		if w := s.Load(); w != nil {
			h.recycle(b, c.pool.poison.Load())
			h.mu.Unlock()
			full.retire()
			return w
		}
	}
	b.slot, b.owner = s, c
	b.recent.Store(0)
	h.link(b, !c.pool.ghosts.Load().remove(s))
	h.inserts++
	c.inserts.Add(1)
	h.mu.Unlock()
	full.retire()
	return b
}

// HasRoom reports whether a block of n bytes can be inserted without another one being evicted. It takes no lock, and
// may be wrong for a few blocks.
func (c *Cache) HasRoom(n int) bool { return int64(n) <= c.pool.largest.Load() && !c.pool.full.Load() }

// Drop removes the blocks of a table that is closed or whose index is unloaded. Readers that still have the old slots
// may insert into them later: nothing finds these blocks, and the clock evicts them in turn.
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

// fewFree is the size of a shard's free lists of a small pool: two blocks of the default size.
const fewFree = 2 * (4<<10 + header)

// SetCapacity changes the bound and evicts blocks beyond it. A small part of the capacity is set aside for buffers that
// wait to be reused. With a capacity of 0 the pool keeps no memory.
func (p *Pool) SetCapacity(n int64) {
	n = max(n, 0)
	p.full.Store(false)
	if p.most > 0 {
		n = min(n, p.most)
	}
	limbo := min(max(n/64, 128<<10), 2<<20, n/8)
	free := max(limbo, min(shards*fewFree, (n-64<<10)/3)) // a tiny pool is for blocks
	spare := limbo + free
	p.frames.SetLimit(n - spare - p.heapFirst*shards - n/(minFramed/header))
	p.keeps.Store(n - spare)
	p.largest.Store((n-spare)/shards/2 - header)
	p.limbo.mu.Lock()
	p.limbo.limit = limbo
	p.limbo.batch = min(limbo/8, 256<<10)
	if n == 0 {
		p.limbo.spares = nil
	}
	p.limbo.mu.Unlock()
	if g := p.ghosts.Load(); !g.fits(n) {
		p.ghosts.Store(newGhosts(n))
	}
	for i := range p.shards {
		h := &p.shards[i]
		h.mu.Lock()
		h.limit = (n - spare) / shards
		h.spare = free / shards
		for class := range h.free {
			for h.idle > h.spare && len(h.free[class]) > 0 {
				k := len(h.free[class]) - 1
				h.idle -= h.free[class][k].size()
				h.free[class][k].buf.Free()
				h.free[class][k] = nil
				h.free[class] = h.free[class][:k]
			}
		}
		full := p.evict(h, h.limit)
		if n == 0 && h.blocks == 0 { // the lists are empty
			h.trial, h.ring, h.holes, h.hand, h.free = queue{}, nil, nil, 0, [classes][]*Block{}
		}
		h.mu.Unlock()
		full.retire()
	}
	p.frames.Fit(p.room())
}

// room returns the bytes that free frames may have.
func (p *Pool) room() int64 { return p.keeps.Load() - p.used.Load() }

// Stats returns the current figures: blocks of this cache alone, capacity and spare of the pool.
func (c *Cache) Stats() Stats {
	s := c.pool.Stats()
	s.Used, s.Blocks = c.used.Load(), int(c.blocks.Load())
	s.Inserts, s.Evictions = c.inserts.Load(), c.evictions.Load()
	return s
}

// Stats returns the current figures of all caches together.
func (p *Pool) Stats() Stats {
	var s Stats
	for i := range p.shards {
		h := &p.shards[i]
		h.mu.Lock()
		s.Capacity += h.limit + h.spare
		s.Used += h.used
		s.Spare += h.idle
		s.Blocks += h.blocks
		s.Inserts += h.inserts
		s.Evictions += h.evictions
		h.mu.Unlock()
	}
	lent, resident := p.frames.Bytes()
	s.Spare += resident - lent
	p.limbo.mu.Lock()
	s.Spare += p.limbo.bytes
	s.Capacity += p.limbo.limit
	p.limbo.mu.Unlock()
	return s
}

// link publishes a block, which has its owner: on trial, or in the ring. The caller holds mu.
func (h *shard) link(b *Block, trial bool) {
	if trial {
		h.trial.push(b)
	} else {
		h.keep(b)
	}
	h.used += b.size()
	h.blocks++
	b.owner.used.Add(b.size())
	b.owner.pool.used.Add(b.size())
	b.owner.blocks.Add(1)
}

// keep puts a block in the newest hole of the ring if there is one: just behind the hand, so that the newest block is
// checked last. The caller holds mu.
func (h *shard) keep(b *Block) {
	b.trial = false
	if k := len(h.holes); k > 0 {
		b.pos = h.holes[k-1]
		h.holes = h.holes[:k-1]
		h.ring[b.pos] = b
	} else {
		b.pos = int32(len(h.ring)) //nolint:gosec // a ring of 2³¹ blocks would be 1 TiB at least
		h.ring = append(h.ring, b)
	}
}

// trialShare is the divisor of a shard's limit that gives the bytes of blocks on trial. With a tenth or a fiftieth, the
// misses of lookups with a Zipf distribution differ by 1 %.
const trialShare = 20

// evict evicts blocks until the shard uses at most limit bytes. The caller holds mu, and must retire the returned
// batches after releasing it.
func (p *Pool) evict(h *shard, limit int64) (full batches) {
	for h.used > limit && h.blocks > 0 {
		var b *Block
		if h.trial.bytes > h.limit/trialShare || h.trial.bytes == h.used {
			b = h.trial.first()
			if b.recent.Load() != 0 {
				b.recent.Store(0)
				h.trial.remove(b)
				h.keep(b)
				continue
			}
			p.ghosts.Load().add(b.slot)
		} else {
			if h.hand >= len(h.ring) {
				h.hand = 0
			}
			b = h.ring[h.hand]
			h.hand++
			if b == nil {
				continue
			}
			if b.recent.Load() != 0 {
				b.recent.Store(0)
				continue
			}
		}
		if !p.full.Load() {
			p.full.Store(true)
		}
		h.evictions++
		b.owner.evictions.Add(1)
		p.unlink(h, b, &full)
	}
	return full
}

// unlink removes a published block from its slot and its shard and puts it into limbo. Batches that become full are
// put at the front of the list. The caller holds the shard's mu, and must retire the list after releasing it.
func (p *Pool) unlink(h *shard, b *Block, full *batches) {
	b.slot.CompareAndSwap(b, nil)
	c := b.owner
	b.slot, b.owner = nil, nil
	if b.trial {
		h.trial.remove(b)
	} else {
		h.ring[b.pos] = nil
		h.holes = append(h.holes, b.pos)
	}
	n := b.size()
	h.used -= n
	h.blocks--
	c.blocks.Add(-1)
	p.used.Add(-n)
	p.retire(c, b, c.used.Add(-n) == 0, full)
}

// retire puts a block of c that is not published into limbo. last means that it does not wait for others there. Batches
// that become full are put at the front of the list, which the caller must retire after releasing its locks.
func (p *Pool) retire(c *Cache, b *Block, last bool, full *batches) {
	n := b.size()
	l := &p.limbo
	l.mu.Lock()
	defer l.mu.Unlock()
	fits := l.bytes+n <= l.limit
	wanted := fits && int(b.class) < classes
	poison := p.poison.Load()
	if wanted || poison || b.buf.Lent() { // else it is left to the collector
		if c.pending == nil {
			c.pending = p.newBatch(c)
			l.begun = append(l.begun, c)
		}
		c.pending.blocks = append(c.pending.blocks, b)
		if wanted {
			l.bytes += n
			c.pending.bytes += n
		}
	}
	// A cache's last block does not wait for another, and neither does a poisoned one.
	if f := c.pending; f != nil && (last || f.bytes >= l.batch || len(f.blocks) == batchLimit || poison) {
		l.fill(c, full)
	}
	if !fits { // the limbo may be full of batches of caches that are idle now
		full.crowds = c.domain
		for _, o := range slices.Backward(l.begun) {
			if o.pending.bytes > 0 {
				l.fill(o, full)
			}
		}
	}
}

// fill puts the pending batch of c at the front of a list of full ones. mu is held.
func (l *limbo) fill(c *Cache, full *batches) {
	c.pending.next, full.first = full.first, c.pending
	c.pending = nil
	i := slices.Index(l.begun, c)
	l.begun = slices.Delete(l.begun, i, i+1)
}

// newBatch returns an empty batch. The caller holds limbo.mu.
func (p *Pool) newBatch(owner *Cache) (f *batch) {
	l := &p.limbo
	if k := len(l.spares); k > 0 {
		f = l.spares[k-1]
		l.spares = l.spares[:k-1]
	} else {
		f = &batch{blocks: make([]*Block, 0, batchLimit)}
		f.release = func() { p.release(f) }
	}
	f.owner = owner
	return f
}

// batches are those that one call has filled.
type batches struct {
	first  *batch        // of a list
	crowds *epoch.Domain // nil, or limbo has no space for a block, so what was retired before shall leave it
}

// retire retires batches, to be released once no reader of their cache sees their blocks. The caller holds no lock.
func (f batches) retire() {
	if f.first == nil && f.crowds != nil {
		f.crowds.Collect()
	}
	for b := f.first; b != nil; {
		next := b.next
		b.next = nil
		b.owner.domain.Retire(b.release) // b may be in use again when Retire returns
		b = next
	}
}

// release puts the blocks of a batch into the free lists.
func (p *Pool) release(f *batch) {
	poison := p.poison.Load()
	for i, b := range f.blocks {
		f.blocks[i] = nil
		if !b.leave() {
			continue
		}
		h := &p.shards[b.shard]
		h.mu.Lock()
		h.recycle(b, poison)
		h.mu.Unlock()
	}
	l := &p.limbo
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes -= f.bytes
	f.owner, f.blocks, f.bytes = nil, f.blocks[:0], 0
	if len(l.spares) < maxSpares {
		l.spares = append(l.spares, f)
	}
}

// recycle puts a block that nothing refers to into a free list, if the spare bytes allow it. The caller holds mu.
func (h *shard) recycle(b *Block, poison bool) {
	if poison {
		spoil(b)
	}
	if n := b.size(); int(b.class) < classes && h.idle+n <= h.spare {
		h.idle += n
		h.free[b.class] = append(h.free[b.class], b)
	} else {
		b.buf.Free()
	}
}
