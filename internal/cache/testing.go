package cache

import (
	"bytes"
	"sync/atomic"
)

// This file is for tests. Its cost to programs is one load when a pool is made, when a block is evicted or not kept,
// when one is held, and when one is released that was evicted before; a hit of the cache costs nothing.

// testPools are the settings of new pools.
var testPools struct {
	poison atomic.Bool
	most   atomic.Int64
}

// PoisonPools makes every new pool overwrite each buffer as soon as no reader may see it, whether the buffer would be
// reused, unmapped or left to the collector: so a test notices a read of a recycled block. Such a pool keeps at most
// the given number of bytes, whatever SetCapacity sets, so that blocks come and go; 0 is no limit.
func PoisonPools(most int64) {
	testPools.poison.Store(true)
	testPools.most.Store(most)
}

// CleanPools ends PoisonPools: new pools are as programs have them.
func CleanPools() {
	testPools.poison.Store(false)
	testPools.most.Store(0)
}

// poisoned is the pattern that overwrites buffers.
var poisoned = [512]byte(bytes.Repeat([]byte{0xdb}, 512))

// spoil overwrites a block that no reader may see any more.
func spoil(b *Block) {
	b.Resize(b.buf.Room())
	for buf := b.Bytes(); len(buf) > 0; {
		buf = buf[copy(buf, poisoned[:]):]
	}
}

// acquiring holds the last argument of OnAcquire.
var acquiring atomic.Pointer[func()]

// OnAcquire makes every Acquire call f before it holds its block; nil ends that. A reader that is outside its guard by
// mistake is only noticed if the block is evicted at this very moment, which f can do.
func OnAcquire(f func()) {
	if f == nil {
		acquiring.Store(nil)
	} else {
		acquiring.Store(&f)
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
