package cache

import (
	"slices"

	"github.com/bloomkv/bloomkv/internal/step"
)

// A shard holds a part of the blocks and chooses those to evict, as S3-FIFO does (Yang, Zhang, Qiu, Yue, Vinayak, "FIFO
// queues are all you need for cache eviction", SOSP 2023). A new block is on trial first, in a queue of a twentieth of
// the bytes. At its end a block that was used again moves to the main queue, and any other is evicted: most blocks are
// asked for once, and need not push out one that is asked for often. At the end of the main queue, a block that was
// used since it came there goes back to its beginning. A block that comes back soon after its trial, see ghosts, goes
// to the main queue at once.
type shard struct {
	mu    step.Mutex
	trial queue // guarded by mu
	main  queue // guarded by mu
	free  [classes][]*Block
	limit int64 // guarded by mu; bytes that may be published
	spare int64 // guarded by mu; bytes that may wait in the free lists

	used int64 // guarded by mu; bytes published
	idle int64 // guarded by mu; bytes in the free lists
	_    [64]byte
}

// queue returns the queue that a block is in. The caller holds mu.
func (h *shard) queue(b *Block) *queue {
	if b.trial {
		return &h.trial
	}
	return &h.main
}

// link publishes a block, which has its owner: on trial, or in the main queue. The caller holds mu.
func (h *shard) link(b *Block, trial bool) {
	b.trial = trial
	h.queue(b).push(b)
	h.used += b.size()
	b.owner.used.Add(b.size())
	b.owner.pool.used.Add(b.size())
	b.owner.blocks.Add(1)
}

// published returns the blocks of the shard. The caller holds mu.
func (h *shard) published() []*Block {
	all := slices.Concat(h.trial.blocks, h.main.blocks)
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
