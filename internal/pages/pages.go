// Package pages lends memory outside the garbage collector's heap. Such memory goes back to the system, or to the next
// user, at the moment when it is no longer needed. The collector does not count it, and so does not let garbage grow in
// proportion to it.
//
// On systems without mmap, and under the race detector, which watches only the heap, the memory is in the heap.
package pages

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A Pool lends memory and keeps what is given back for the next loan, until Trim. It is safe for concurrent use. Once
// the pool is garbage, all its memory is given back to the system: a user of its memory must keep the pool.
type Pool struct{ *shelf }

// A shelf is the part of a pool that its cleanup uses.
type shelf struct {
	mu   sync.Mutex
	lent map[*byte]block // by the address of the first byte
	idle []block
	size int64 // of idle, in bytes
}

// A block is memory that is lent as a whole.
type block struct {
	b      []byte // a multiple of pageBytes
	zeroed bool   // it is idle and contains only zeros
}

const (
	pageBytes = 4 << 10
	hugeBytes = 2 << 20 // a block of this size or more is in huge pages if the system has them
)

// strict is set by Strict.
var strict atomic.Bool

// Strict makes all pools give memory back to the system at once, so that a test that reads it later crashes. In the
// heap, such memory is overwritten at once, so that the race detector notices a late read.
func Strict() { strict.Store(true) }

// NewPool returns an empty pool.
func NewPool() *Pool {
	p := &Pool{&shelf{lent: map[*byte]block{}}}
	runtime.AddCleanup(p, (*shelf).close, p.shelf)
	return p
}

// Get lends n > 0 bytes, aligned to 8 bytes. If zeroed is false, they have any contents. Memory of an equal size that
// was given back is lent again. If the system has no memory, Get uses the heap.
func (p *Pool) Get(n int) (b []byte, zeroed bool) {
	if b, zeroed = p.take(n); b == nil {
		return make([]byte, n), true
	}
	return b, zeroed
}

// take is like Get, but it returns nil if the system has no memory.
func (p *Pool) take(n int) (b []byte, zeroed bool) {
	size := (n + pageBytes - 1) &^ (pageBytes - 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	var k block
	if i := slices.IndexFunc(p.idle, func(k block) bool { return len(k.b) == size }); i >= 0 {
		k = p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
		p.size -= int64(size)
	} else if k = newBlock(size); k.b == nil {
		return nil, false
	}
	p.lent[&k.b[0]] = k
	return k.b[:n:n], k.zeroed
}

// newBlock returns a zeroed block, or an empty one if there is no memory.
func newBlock(size int) block {
	if size >= hugeBytes {
		return block{mappedHuge(size), true}
	}
	return block{mapped(size), true}
}

// Put takes back memory that Get returned and that nobody uses any more. zeroed reports whether it contains only zeros.
func (p *Pool) Put(b []byte, zeroed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.lent[unsafe.SliceData(b)]
	if !ok {
		return // it is in the heap
	}
	delete(p.lent, &k.b[0])
	if strict.Load() {
		unmap(k.b)
		return
	}
	k.zeroed = zeroed
	p.idle = append(p.idle, k)
	p.size += int64(len(k.b))
}

// Trim gives memory back to the system, until at most keep bytes wait for the next loan.
func (p *Pool) Trim(keep int64) {
	p.mu.Lock()
	var out []block
	for p.size > keep {
		k := p.idle[0] // the oldest: nobody may ask for its size again
		p.idle = slices.Delete(p.idle, 0, 1)
		p.size -= int64(len(k.b))
		out = append(out, k)
	}
	p.mu.Unlock()
	for _, k := range out {
		unmap(k.b)
	}
}

// Idle returns the number of bytes that wait for the next loan.
func (p *Pool) Idle() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size
}

// Lent returns the number of bytes that are lent.
func (p *Pool) Lent() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.lent {
		n += int64(len(k.b))
	}
	return n
}

// close gives all memory back to the system.
func (s *shelf) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.lent {
		unmap(k.b)
	}
	for _, k := range s.idle {
		unmap(k.b)
	}
	s.lent, s.idle = nil, nil
}

// As returns memory as values of T, which must contain no pointers and be aligned to at most 8 bytes.
func As[T any](b []byte) []T {
	var v T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b))/unsafe.Sizeof(v))
}
