package cache

import (
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/pages"
)

// A Pool is a bounded set of blocks, shared by caches. It is safe for concurrent use.
type Pool struct {
	full atomic.Bool // a block was evicted since blocks were last dropped

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

// NewPool returns a pool that keeps at most capacity bytes.
func NewPool(capacity int64) *Pool {
	p := &Pool{frames: pages.NewFrames(), framed: pages.Huge, heapFirst: heapFirst / shards}
	p.limbo.spares.New = p.newBatch
	if t := Testing.Load(); t != nil {
		p.most, p.framed, p.heapFirst = t.Most, true, 0
	}
	p.SetCapacity(capacity)
	return p
}

// NewCache returns a cache in the pool. Its readers must be inside guards of d when they call Get and use the result.
func (p *Pool) NewCache(d *epoch.Domain) *Cache { return &Cache{pool: p, domain: d} }

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
		if n == 0 && h.used == 0 { // the lists are empty
			h.trial, h.main, h.free = queue{}, queue{}, [classes][]*Block{}
		}
		h.mu.Unlock()
		full.retire()
	}
	p.frames.Fit(p.room())
}

// room returns the bytes that free frames may have.
func (p *Pool) room() int64 { return p.keeps.Load() - p.used.Load() }

// newBlock returns a block of n bytes at least, in a frame if there is one and framed is true.
func (p *Pool) newBlock(class, n int, framed bool) *Block {
	room := n + Slack
	if class < classes {
		room = classBytes(class)
	}
	b := &Block{class: uint8(class)} //nolint:gosec // below 256
	if framed {
		b.buf, framed = p.frames.Get(room, p.room())
	}
	if !framed {
		p.frames.Fit(p.room() - int64(room))
		b.buf = pages.InHeap(room)
	}
	return b
}

// Stats returns the current bytes of all caches together.
func (p *Pool) Stats() Stats {
	var s Stats
	for i := range p.shards {
		h := &p.shards[i]
		h.mu.Lock()
		s.Capacity += h.limit + h.spare
		s.Used += h.used
		s.Spare += h.idle
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

// trialShare is the divisor of a shard's limit that gives the bytes of blocks on trial. With a tenth or a fiftieth, the
// misses of lookups with a Zipf distribution differ by 1 %.
const trialShare = 20

// evict evicts blocks until the shard uses at most limit bytes. The caller holds mu, and must retire the returned
// batches after releasing it.
func (p *Pool) evict(h *shard, limit int64) (full batches) {
	for h.used > limit {
		q := &h.main
		if h.trial.bytes > h.limit/trialShare || h.trial.bytes == h.used {
			q = &h.trial
		}
		b := q.first()
		if b.recent.Load() != 0 {
			b.recent.Store(0)
			q.remove(b)
			b.trial = false
			h.main.push(b)
			continue
		}
		if b.trial {
			p.ghosts.Load().add(b.slot)
		}
		if !p.full.Load() {
			p.full.Store(true)
		}
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
	h.queue(b).remove(b)
	n := b.size()
	h.used -= n
	c.blocks.Add(-1)
	p.used.Add(-n)
	p.retire(c, b, c.used.Add(-n) == 0, full)
}
