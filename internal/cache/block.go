package cache

import (
	"math/bits"
	"sync/atomic"
)

const (
	// Slack is the number of spare bytes in a block, for reading a block together with its trailer: a block of a power
	// of two bytes, less Slack, still fits a frame of that power, and so one page if that is 4 KiB.
	Slack = 8

	header     = 64        // bytes of a Block without its buffer
	minFrame   = 512       // the smallest frame
	maxFrame   = 32 << 10  // the largest frame that is a power of two
	frameSizes = 7         // 512 … 32 KiB
	maxRecycle = 512 << 10 // larger blocks are left to the garbage collector
	classes    = frameSizes + 16
)

// A Block is a buffer of the cache. Its bytes are immutable from Insert on.
type Block struct {
	buf    []byte
	slot   *Slot  // guarded by the shard's mu; nil when not published
	owner  *Cache // guarded by the shard's mu; nil when not published
	pos    int32  // guarded by the shard's mu; index in the ring, or number in the queue
	recent atomic.Uint32
	holds  atomic.Int32
	class  uint8 // constant
	shard  uint8 // constant after Alloc
	trial  bool  // guarded by the shard's mu; in the queue, not in the ring

	// Meta is data of the slot's owner, on a cache line that a hit reads anyway. It is set before Insert.
	Meta uint64
}

// Bytes returns the content. It is valid as long as the block is: see [Cache.Get].
func (b *Block) Bytes() []byte { return b.buf }

// Resize sets the length, to at most the argument of Alloc plus [Slack]. Only before Insert.
func (b *Block) Resize(n int) { b.buf = b.buf[:n] }

// Acquire keeps the block's bytes unchanged until Release. The caller must be inside a guard, or have acquired the
// block before.
func (b *Block) Acquire() {
	if f := acquiring.Load(); f != nil {
		(*f)()
	}
	b.holds.Add(1)
}

// Release ends an Acquire.
func (b *Block) Release() { b.holds.Add(-1) }

// size returns the bytes that the block counts for.
func (b *Block) size() int64 { return int64(cap(b.buf)) + header }

// classOf returns the size class for n bytes: powers of two, then four steps for each doubling.
func classOf(n int) int {
	if n <= maxFrame {
		return max(bits.Len(uint(n-1)), 9) - 9
	}
	if n > maxRecycle {
		return classes
	}
	e := bits.Len(uint(n-1)) - 1 // 2^e < n ≤ 2^(e+1)
	return frameSizes + 4*(e-15) + (n-1)>>(e-2)&3
}

// classBytes returns the capacity of the blocks of a class.
func classBytes(class int) int {
	if class < frameSizes {
		return minFrame << class
	}
	class -= frameSizes
	return (5 + class&3) << (15 + class/4 - 2)
}

func newBlock(class, n int) *Block {
	b := &Block{class: uint8(class)} //nolint:gosec // below 256
	if class < classes {
		b.buf = make([]byte, classBytes(class))
	} else {
		b.buf = make([]byte, n, n+Slack)
	}
	return b
}
