package cache

import (
	"slices"
	"sync"

	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/step"
)

// The limbo holds blocks that no slot refers to but some reader may still see.
type limbo struct {
	mu     step.Mutex
	limit  int64     // guarded by mu; bytes that may wait here to be used again
	bytes  int64     // guarded by mu
	batch  int64     // guarded by mu; bytes that make a batch full
	begun  []*Cache  // guarded by mu; caches with a pending batch
	spares sync.Pool // of *batch
}

// A batch is a list of blocks of one cache that are retired together. Its release function is made once in its life, so
// that evictions rarely allocate.
type batch struct {
	owner   *Cache
	blocks  []*Block
	bytes   int64 // of the blocks that count in the limbo
	release func()
	next    *batch // in a list of full batches
}

// batches are those that one call has filled.
type batches struct {
	first  *batch        // of a list
	crowds *epoch.Domain // nil, or limbo has no space for a block, so what was retired before shall leave it
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
	poison := Testing.Load() != nil
	if wanted || poison || b.buf.Lent() { // else it is left to the collector
		if c.pending == nil {
			c.pending, _ = l.spares.Get().(*batch) // the pool has no others
			c.pending.owner = c
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

// newBatch returns an empty batch, a *batch.
func (p *Pool) newBatch() any {
	f := &batch{blocks: make([]*Block, 0, batchLimit)}
	f.release = func() { p.release(f) }
	return f
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
	for i, b := range f.blocks {
		f.blocks[i] = nil
		if !b.leave() {
			continue
		}
		h := &p.shards[b.shard]
		h.mu.Lock()
		h.recycle(b)
		h.mu.Unlock()
	}
	l := &p.limbo
	l.mu.Lock()
	l.bytes -= f.bytes
	l.mu.Unlock()
	f.owner, f.blocks, f.bytes = nil, f.blocks[:0], 0
	l.spares.Put(f)
}
