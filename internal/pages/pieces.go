package pages

import (
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

// Pieces lend memory of any size in slabs outside the collector's heap. The slabs of many bytes are in huge pages where
// the system has them. Pieces are safe for concurrent use. A slab goes back to the system once all of it is free; if
// much is free between the lent pieces of others, so do its pages.
type Pieces struct {
	memory *Pool

	mu    sync.Mutex
	slabs []*pieceSlab // guarded by mu; those with free bytes are found first
	lent  int64        // guarded by mu; bytes
}

// A pieceSlab is memory for pieces.
type pieceSlab struct {
	owner  *Pieces // keeps the memory
	b      []byte
	free   []span // ascending, with lent bytes between them
	sparse bool   // its free pages are given back to the system
}

// A span is a range of offsets in a slab.
type span struct{ from, to int }

// A Piece is memory that Pieces have lent. The zero value has no bytes.
type Piece struct {
	b    []byte
	slab *pieceSlab // nil: in the heap
}

// pieceAlign is the alignment of pieces: a line of the processor's cache.
const pieceAlign = 64

// NewPieces returns pieces that have lent nothing.
func NewPieces() *Pieces { return &Pieces{memory: newPool(true)} }

// firstSlab is the size of the first slab in bytes. Each further one is as large as all that is lent, up to
// slabBytes, so that a small store stays small.
const firstSlab = 64 << 10

// Get lends n bytes with any contents, aligned to 64. If the system has no memory, or p is nil, they are in the heap.
func (p *Pieces) Get(n int) Piece {
	if n <= 0 {
		return Piece{}
	}
	size := (n + pieceAlign - 1) &^ (pieceAlign - 1)
	if p == nil {
		return Piece{b: make([]byte, size)[:n:n]}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range slices.Backward(p.slabs) {
		if b := v.take(size); b != nil {
			p.lent += int64(size)
			return Piece{b[:n:n], v}
		}
	}
	b, _ := p.memory.take(inPages(max(size, firstSlab, int(min(p.lent, slabBytes)))))
	if b == nil {
		return Piece{b: make([]byte, size)[:n:n]}
	}
	s := &pieceSlab{owner: p, b: b, free: []span{{0, len(b)}}}
	p.slabs = append(p.slabs, s)
	p.lent += int64(size)
	return Piece{s.take(size)[:n:n], s}
}

// take returns size bytes of the slab, or nil. The owner's mu is held.
func (s *pieceSlab) take(size int) []byte {
	for i := range s.free {
		f := &s.free[i]
		if f.to-f.from < size {
			continue
		}
		b := s.b[f.from : f.from+size]
		if f.from += size; f.from == f.to {
			s.free = slices.Delete(s.free, i, i+1)
		}
		return b
	}
	return nil
}

// Bytes returns the memory.
func (p Piece) Bytes() []byte { return p.b }

// FreeWith gives the piece back once the collector finds that nothing refers to the object at p any more. Whoever uses
// the memory must keep that object alive meanwhile: see [runtime.KeepAlive].
func FreeWith[T any](p *T, piece Piece) {
	if piece.slab != nil {
		runtime.AddCleanup(p, Piece.Free, piece)
	}
}

// Free gives the piece back. Nobody may use it any more.
func (p Piece) Free() {
	if p.slab == nil {
		return
	}
	if strict.Load() {
		clear(p.b) // a filter of zeros denies all keys
	}
	p.slab.owner.put(p.slab, p.b)
}

// put takes back a piece of s.
func (p *Pieces) put(s *pieceSlab, b []byte) {
	size := (len(b) + pieceAlign - 1) &^ (pieceAlign - 1)
	from := int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(s.b))))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lent -= int64(size)
	g := s.give(span{from, from + size})
	switch {
	case g == span{0, len(s.b)}:
		i := slices.Index(p.slabs, s)
		p.slabs = slices.Delete(p.slabs, i, i+1)
		p.memory.Free(s.b)
	case s.sparse:
		s.forget(g)
	case p.idle() > max(p.lent/8, slabBytes):
		s.sparse = true
		keepSmall(s.b)
		for _, g := range s.free {
			s.forget(g)
		}
	}
}

// idle returns the free bytes that are still in memory. mu is held.
func (p *Pieces) idle() (sum int64) {
	for _, s := range p.slabs {
		if !s.sparse {
			for _, g := range s.free {
				sum += int64(g.to - g.from)
			}
		}
	}
	return sum
}

// forget gives the whole pages of a free span back to the system. The owner's mu is held.
func (s *pieceSlab) forget(g span) {
	if from, to := inPages(g.from), g.to&^(pageBytes-1); from < to {
		forgetPages(s.b[from:to])
	}
}

// give makes a span free again, and returns it with its free neighbours. The owner's mu is held.
func (s *pieceSlab) give(g span) span {
	i, _ := slices.BinarySearchFunc(s.free, g, func(a, b span) int { return a.from - b.from })
	s.free = slices.Insert(s.free, i, g)
	if i+1 < len(s.free) && s.free[i].to == s.free[i+1].from {
		s.free[i].to = s.free[i+1].to
		s.free = slices.Delete(s.free, i+1, i+2)
	}
	if i > 0 && s.free[i-1].to == s.free[i].from {
		i--
		s.free[i].to = s.free[i+1].to
		s.free = slices.Delete(s.free, i+1, i+2)
	}
	return s.free[i]
}

// Lent returns the number of bytes that are lent.
func (p *Pieces) Lent() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lent
}
