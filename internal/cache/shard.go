package cache

import (
	"slices"

	"github.com/bloomkv/bloomkv/internal/step"
)

// A shard holds a part of the blocks and chooses those to evict, as S3-FIFO does (Yang, Zhang, Qiu, Yue, Vinayak, "FIFO
// queues are all you need for cache eviction", SOSP 2023). A new block is on trial first, in a queue of a twentieth of
// the bytes. At its end a block that was used again moves to the ring of the clock algorithm, and any other is evicted:
// most blocks are asked for once, and need not push out one that is asked for often. A block that comes back soon after
// its trial, see ghosts, goes to the ring at once.
type shard struct {
	mu    step.Mutex
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

// published returns the blocks of the shard. The caller holds mu.
func (h *shard) published() []*Block {
	all := slices.Concat(h.trial.blocks, h.ring)
	return slices.DeleteFunc(all, func(b *Block) bool { return b == nil })
}

// recycle puts a block that nothing refers to into a free list, if the spare bytes allow it. The caller holds mu.
func (h *shard) recycle(b *Block) {
	b.spoil()
	if n := b.size(); int(b.class) < classes && h.idle+n <= h.spare {
		h.idle += n
		h.free[b.class] = append(h.free[b.class], b)
	} else {
		b.buf.Free()
	}
}
