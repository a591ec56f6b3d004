package cache

import (
	"math/bits"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/pages"
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

// A Block is a buffer of the cache. Its bytes are immutable from Insert on. It takes one cache line.
type Block struct {
	buf    pages.Buffer
	slot   *Slot  // guarded by the shard's mu; nil when not published
	owner  *Cache // guarded by the shard's mu; nil when not published
	pos    int32  // guarded by the shard's mu; number in its queue
	recent atomic.Uint32
	holds  atomic.Int32
	class  uint8 // constant
	shard  uint8 // constant after Alloc
	trial  bool  // guarded by the shard's mu; in the queue of blocks on trial, not in the main one

	// Meta is data of the slot's owner, on a cache line that a hit reads anyway. It is set before Insert.
	Meta uint64
}

// Testing is nil in programs. Where it is set, each block is overwritten as soon as no reader may see it, whether its
// buffer would be reused, unmapped or left to the collector: so a test notices a read of such a block.
var Testing atomic.Pointer[TestMode]

// A TestMode is a value of [Testing].
type TestMode struct {
	Most    int64  // bytes that a new pool keeps at most, whatever SetCapacity sets; 0 is no limit
	Acquire func() // called before each Acquire, unless it is nil, so that a test can evict the block at that moment
}

// Bytes returns the content. It is valid as long as the block is: see [Cache.Get].
func (b *Block) Bytes() []byte { return b.buf.Bytes() }

// Resize sets the length, to at most the argument of Alloc plus [Slack]. Only before Insert.
func (b *Block) Resize(n int) { b.buf.Resize(n) }

// Acquire keeps the block's bytes unchanged until Release. The caller must be inside a guard, or have acquired the
// block before.
func (b *Block) Acquire() {
	if t := Testing.Load(); t != nil && t.Acquire != nil {
		t.Acquire()
	}
	b.holds.Add(1)
}

// left is added to the holds of a block that its pool no longer knows.
const left = 1 << 30

// Release ends an Acquire. The caller may not use the block's bytes any more: their memory may be used for others, or
// be gone.
func (b *Block) Release() {
	if b.holds.Add(-1) == left {
		b.end()
	}
}

// end gives up the buffer of a block that no reader may see any more.
func (b *Block) end() {
	b.spoil()
	b.buf.Free()
}

// spoil overwrites a block that no reader may see any more, if Testing is set.
func (b *Block) spoil() {
	if Testing.Load() == nil {
		return
	}
	b.Resize(b.buf.Room())
	buf := b.Bytes()
	buf[0] = 0xdb
	for i := 1; i < len(buf); i *= 2 {
		copy(buf[i:], buf[:i])
	}
}

// toHeap moves the content of a frame to the heap, and gives the frame back. Nobody else knows the block yet.
func (b *Block) toHeap() {
	if !b.buf.Lent() {
		return
	}
	heap := pages.InHeap(b.buf.Room())
	heap.Resize(copy(heap.Bytes(), b.buf.Bytes()))
	b.buf.Free()
	b.buf = heap
}

// leave reports whether nobody holds the block, which no reader inside a guard sees any more. Else the block is left to
// the last Release.
func (b *Block) leave() bool {
	if b.holds.Add(left) != left {
		return false
	}
	b.holds.Store(0)
	return true
}

// size returns the bytes that the block counts for.
func (b *Block) size() int64 { return int64(b.buf.Room()) + header }

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
