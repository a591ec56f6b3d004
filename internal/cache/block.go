package cache

import (
	"math/bits"
	"sync/atomic"
)

const (
	// Overhead is what a frame of a power of two bytes loses to its own header: a block of size − Overhead bytes still
	// fits a frame of size bytes. The header and the start of the data are then neighbours on the same page.
	Overhead = 64 + Slack
	// Slack is how many bytes more than asked for a block has room for, so that a block can be read together with its
	// trailer.
	Slack = 8

	header     = 64        // bytes of a frame before the data: the allocator's 8 and a Block of at most 56
	minFrame   = 512       // the smallest frame
	maxFrame   = 32 << 10  // the largest frame that is one allocation
	frameSizes = 7         // 512 … 32 KiB
	maxRecycle = 512 << 10 // larger blocks are left to the collector
	classes    = frameSizes + 16
)

// A Block is a buffer of the cache. Its bytes are immutable from Insert on.
type Block struct {
	buf    []byte
	slot   *Slot // guarded by the shard's mu; nil when not published
	pos    int32 // guarded by the shard's mu; place in the ring
	recent atomic.Uint32
	holds  atomic.Int32
	class  uint8 // constant
	shard  uint8 // constant once published
}

// Bytes is the content. It is valid as long as the block is: see [Cache.Get].
func (b *Block) Bytes() []byte { return b.buf }

// Resize sets the length, to at most what Alloc was asked for plus [Slack]. Only before Insert.
func (b *Block) Resize(n int) { b.buf = b.buf[:n] }

// Acquire keeps the block's bytes unchanged until Release. The caller is inside a guard, or has acquired the block before.
func (b *Block) Acquire() { b.holds.Add(1) }

// Release ends an Acquire.
func (b *Block) Release() { b.holds.Add(-1) }

// size is what the block counts for, in bytes.
func (b *Block) size() int64 { return int64(cap(b.buf)) + header }

// Frames are single allocations of a power of two bytes, whose size class in the Go allocator is aligned to its size, so
// that a frame of 4 KiB is one page. (The allocator puts a word before objects with pointers of more than 512 bytes.)
type (
	frame512 struct {
		Block
		data [512 - header]byte
	}
	frame1K struct {
		Block
		data [1<<10 - header]byte
	}
	frame2K struct {
		Block
		data [2<<10 - header]byte
	}
	frame4K struct {
		Block
		data [4<<10 - header]byte
	}
	frame8K struct {
		Block
		data [8<<10 - header]byte
	}
	frame16K struct {
		Block
		data [16<<10 - header]byte
	}
	frame32K struct {
		Block
		data [32<<10 - header]byte
	}
)

// classOf is the size class for n bytes: powers of two, then four steps for each doubling.
func classOf(n int) int {
	if n <= maxFrame-header {
		return max(bits.Len(uint(n+header-1)), 9) - 9
	}
	if n > maxRecycle {
		return classes
	}
	if n <= maxFrame {
		return frameSizes
	}
	e := bits.Len(uint(n-1)) - 1 // 2^e < n ≤ 2^(e+1)
	return frameSizes + 4*(e-15) + (n-1)>>(e-2)&3
}

// classBytes is the room in a block of a class.
func classBytes(class int) int {
	if class < frameSizes {
		return minFrame<<class - header
	}
	class -= frameSizes
	return (5 + class&3) << (15 + class/4 - 2)
}

func newBlock(class, n int) *Block {
	switch class {
	case 0:
		f := new(frame512)
		return f.init(f.data[:], 0)
	case 1:
		f := new(frame1K)
		return f.init(f.data[:], 1)
	case 2:
		f := new(frame2K)
		return f.init(f.data[:], 2)
	case 3:
		f := new(frame4K)
		return f.init(f.data[:], 3)
	case 4:
		f := new(frame8K)
		return f.init(f.data[:], 4)
	case 5:
		f := new(frame16K)
		return f.init(f.data[:], 5)
	case 6:
		f := new(frame32K)
		return f.init(f.data[:], 6)
	}
	if class >= classes {
		return new(Block).init(make([]byte, n, n+Slack), classes)
	}
	return new(Block).init(make([]byte, classBytes(class)), class)
}

func (b *Block) init(buf []byte, class int) *Block {
	b.buf = buf
	b.class = uint8(class) //nolint:gosec // below 256
	return b
}
