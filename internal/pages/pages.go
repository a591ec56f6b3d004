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
	"time"
	"unsafe"
)

// A Pool lends memory and keeps what is given back for the next loan, until Trim. It is safe for concurrent use. Once
// the pool is garbage, all its memory is given back to the system: a user of its memory must keep the pool.
type Pool struct{ *shelf }

// A shelf is the part of a pool that its cleanup uses.
type shelf struct {
	huge bool // constant; new memory is in huge pages, even if it was not prepared

	mu        sync.Mutex
	lent      map[*byte]block // guarded by mu; by the address of the first byte
	idle      []block         // guarded by mu
	size      int64           // guarded by mu; of idle, in bytes
	preparing bool            // guarded by mu; memory is being prepared
	slow      bool            // guarded by mu; a huge page took more than slowHuge
}

// A block is memory that is lent as a whole.
type block struct {
	b      []byte // a multiple of pageBytes
	zeroed bool   // it is idle and contains only zeros
}

const (
	pageBytes = 4 << 10
	hugeBytes = 2 << 20 // smaller blocks are never in huge pages

	touchStep = 32 // pages that are prepared, in 40 µs, before other goroutines may run

	// The first write to a huge page takes 80 to 230 µs, less than half of what its ordinary pages take together. On a
	// virtual machine whose host takes back free memory it takes 4.5 ms, and a processor waits with the goroutine.
	slowHuge = time.Millisecond
)

// strict is set by Strict.
var strict atomic.Bool

// Strict makes all pools give memory back to the system at once, so that a test that reads it later crashes. In the
// heap, such memory is overwritten at once, so that the race detector notices a late read.
func Strict() { strict.Store(true) }

// NewPool returns an empty pool.
func NewPool() *Pool { return newPool(false) }

func newPool(huge bool) *Pool {
	p := &Pool{&shelf{huge: huge, lent: map[*byte]block{}}}
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
	p.mu.Lock()
	defer p.mu.Unlock()
	var k block
	if i := p.find(n); i >= 0 {
		k = p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
		p.size -= int64(len(k.b))
	} else if k = newBlock(n, p.huge); k.b == nil {
		return nil, false
	}
	p.lent[&k.b[0]] = k
	return k.b[:n:n], k.zeroed
}

// find returns the index of an idle block for n bytes, or -1. mu is held.
func (s *shelf) find(n int) int {
	return slices.IndexFunc(s.idle, func(k block) bool { return len(k.b) == inPages(n) })
}

// inPages returns n, rounded up to whole pages.
func inPages(n int) int { return (n + pageBytes - 1) &^ (pageBytes - 1) }

// newBlock returns a zeroed block for n bytes, or an empty one if there is no memory.
func newBlock(n int, huge bool) block {
	if huge && n >= hugeBytes {
		return block{mappedHuge(inPages(n)), true}
	}
	return block{mapped(inPages(n)), true}
}

// Prepare makes memory for a coming Get of n bytes ready in the background, unless such memory is idle, or other memory
// is being prepared. Whoever uses new memory waits for the system at the first write to each page. Prepared memory is
// in huge pages if the system has them and is quick about it. A Get that comes too early gets new memory in ordinary
// pages.
func (p *Pool) Prepare(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.preparing && p.find(n) < 0 {
		p.preparing = true
		go p.prepare(n, !p.slow)
	}
}

func (p *Pool) prepare(n int, huge bool) {
	k, slow := newBlock(n, huge), !huge
	for i := 0; i < len(k.b); i += pageBytes {
		if i%(touchStep*pageBytes) == 0 {
			runtime.Gosched()
		}
		if slow || i%hugeBytes > 0 {
			k.b[i] = 0
			continue
		}
		began := time.Now()
		k.b[i] = 0
		if slow = time.Since(began) > slowHuge; slow {
			keepSmall(k.b[i:])
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.preparing, p.slow = false, slow
	if k.b != nil {
		p.keep(k)
	}
}

// keep makes a block idle. mu is held.
func (s *shelf) keep(k block) {
	s.idle = append(s.idle, k)
	s.size += int64(len(k.b))
}

// Put takes back memory that Get returned and that nobody uses any more. zeroed reports whether it contains only zeros.
func (p *Pool) Put(b []byte, zeroed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.back(b); k.b != nil && strict.Load() {
		unmap(k.b)
	} else if k.b != nil {
		k.zeroed = zeroed
		p.keep(k)
	}
}

// Free gives memory that Get returned back to the system.
func (p *Pool) Free(b []byte) {
	p.mu.Lock()
	k := p.back(b)
	p.mu.Unlock()
	if k.b != nil {
		unmap(k.b)
	}
}

// back takes a block back. It is empty if the memory is in the heap. mu is held.
func (s *shelf) back(b []byte) (k block) {
	k = s.lent[unsafe.SliceData(b)]
	delete(s.lent, unsafe.SliceData(b))
	return k
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
