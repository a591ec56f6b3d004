package cache

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

// A queue holds blocks of a shard in the order of their insertion, in a ring: nothing is moved when one is evicted.
type queue struct {
	blocks []*Block // a power of two, or none; a place is nil if its block was removed
	head   uint32   // the oldest block, and where the next one will be, both modulo the length
	tail   uint32
	n      int
	bytes  int64
}

func (q *queue) at(i uint32) *Block { return q.blocks[i&uint32(len(q.blocks)-1)] } //nolint:gosec // below 2³¹

// push appends a block.
func (q *queue) push(b *Block) {
	if int(q.tail-q.head) == len(q.blocks) {
		q.resize()
	}
	b.pos = int32(q.tail & uint32(len(q.blocks)-1)) //nolint:gosec // below 2³¹: so many blocks would be 1 TiB at least
	q.blocks[b.pos] = b
	q.tail++
	q.n++
	q.bytes += b.size()
}

// resize moves the blocks into a ring with at least as many free places as there are blocks.
func (q *queue) resize() {
	size := max(len(q.blocks), 16)
	if q.n > size/2 {
		size *= 2
	}
	blocks := make([]*Block, 0, size)
	for i := q.head; i != q.tail; i++ {
		if b := q.at(i); b != nil {
			b.pos = int32(len(blocks)) //nolint:gosec // as in push
			blocks = append(blocks, b)
		}
	}
	q.head, q.tail, q.blocks = 0, uint32(len(blocks)), blocks[:size] //nolint:gosec // as in push
}

// first returns the oldest block. The queue must not be empty.
func (q *queue) first() *Block { return q.at(q.head) }

// remove removes a block of the queue.
func (q *queue) remove(b *Block) {
	q.blocks[b.pos] = nil
	q.n--
	q.bytes -= b.size()
	for q.head != q.tail && q.at(q.head) == nil {
		q.head++
	}
}

// Ghosts remember the blocks that were evicted lately at the end of their trial, by a hash of the address of their
// slot. Each has one cell, in which a later one takes its place; so there is nothing to clear out, and no lock. A wrong
// answer, once in 2³¹, only spares a block its trial.
type ghosts struct {
	seed  maphash.Seed
	cells []atomic.Uint32
}

// ghostBytes is the capacity of a pool for each cell: with blocks of 4 KiB, cells for six tenths of the blocks. Twice
// as many or half as many change the misses of lookups with a Zipf distribution by 1 %.
const ghostBytes = 7 << 10

// maxGhosts bounds the memory for ghosts: 4 MiB, enough for 7 GiB of blocks.
const maxGhosts = 1 << 20

func cellsFor(capacity int64) int { return int(min(capacity/ghostBytes+1, maxGhosts)) }

func newGhosts(capacity int64) *ghosts {
	return &ghosts{maphash.MakeSeed(), make([]atomic.Uint32, cellsFor(capacity))}
}

// fits reports whether g, which may be nil, has about as many cells as a pool of the given capacity needs. The capacity
// changes often by a little, and new ghosts have forgotten all.
func (g *ghosts) fits(capacity int64) bool {
	n := cellsFor(capacity)
	return g != nil && len(g.cells) <= 2*n && n <= 2*len(g.cells)
}

// cell returns the cell of the block in a slot, and what it contains if the block is a ghost.
func (g *ghosts) cell(s *Slot) (cell *atomic.Uint32, mark uint32) {
	h := maphash.Comparable(g.seed, s)
	at, low := bits.Mul64(h, uint64(len(g.cells)))
	return &g.cells[at], uint32(low>>32) | 1 // 0 is an empty cell
}

// add makes the block in a slot a ghost.
func (g *ghosts) add(s *Slot) {
	cell, mark := g.cell(s)
	cell.Store(mark)
}

// remove reports whether the block in a slot is a ghost, which it is no longer.
func (g *ghosts) remove(s *Slot) bool {
	cell, mark := g.cell(s)
	return cell.CompareAndSwap(mark, 0)
}
