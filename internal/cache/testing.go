package cache

import (
	"bytes"
	"sync/atomic"
)

// What is here is for tests. It costs a program one load where a pool is made, where a block is evicted or not kept,
// and where one is held; no hit of the cache comes by.

// testPools says what pools are made like.
var testPools struct {
	poison atomic.Bool
	most   atomic.Int64
}

// PoisonPools makes every pool that is made from now on overwrite each buffer as soon as no reader may see it, whether
// the buffer would be used again or left to the collector: so a test sees a read of a block that was recycled. A pool
// then keeps at most that many bytes, whatever SetCapacity says, so that blocks come and go; 0 is no limit.
func PoisonPools(most int64) {
	testPools.poison.Store(true)
	testPools.most.Store(most)
}

// poisoned is the pattern that overwrites buffers.
var poisoned = [512]byte(bytes.Repeat([]byte{0xdb}, 512))

// spoil overwrites a block that nobody may see any more.
func spoil(b *Block) {
	for buf := b.buf[:cap(b.buf)]; len(buf) > 0; {
		buf = buf[copy(buf, poisoned[:]):]
	}
}

// acquiring holds the last argument of OnAcquire.
var acquiring atomic.Pointer[func()]

// OnAcquire has f called whenever a block is about to be held; nil ends that. Whether a reader is still inside its
// guard there shows only if the block is evicted at this very moment, which f can do.
func OnAcquire(f func()) {
	if f == nil {
		acquiring.Store(nil)
	} else {
		acquiring.Store(&f)
	}
}

// Held counts the cache's blocks, and those of them that somebody holds.
func (c *Cache) Held() (blocks, held int) {
	for i := range c.pool.shards {
		h := &c.pool.shards[i]
		h.mu.Lock()
		for _, b := range h.ring {
			if b != nil && b.owner == c {
				if blocks++; b.holds.Load() != 0 {
					held++
				}
			}
		}
		h.mu.Unlock()
	}
	return blocks, held
}
