package cache

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

// A queue holds blocks of a shard in the order of their insertion.
type queue struct {
	blocks []*Block // a removed one is nil
	head   int      // of the oldest; blocks before it are nil
	base   int32    // pos of blocks[0]; it wraps around
	bytes  int64
}

// push appends a block.
func (q *queue) push(b *Block) {
	b.pos = q.base + int32(len(q.blocks)) //nolint:gosec // wraps around, as remove expects
	q.blocks = append(q.blocks, b)
	q.bytes += b.size()
}

// first returns the oldest block. The queue must not be empty.
func (q *queue) first() *Block { return q.blocks[q.head] }

// remove removes a block of the queue.
func (q *queue) remove(b *Block) {
	q.blocks[b.pos-q.base] = nil
	q.bytes -= b.size()
	for q.head < len(q.blocks) && q.blocks[q.head] == nil {
		q.head++
	}
	if 2*q.head > len(q.blocks) { // each block is moved once for one that left, at most
		n := copy(q.blocks, q.blocks[q.head:])
		clear(q.blocks[n:])
		q.blocks = q.blocks[:n]
		q.base += int32(q.head) //nolint:gosec // below 2³¹: so many blocks would be 1 TiB at least
		q.head = 0
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
