package pages

import (
	"math/bits"
	"slices"
	"sync"
	"unsafe"
)

// A Buffer is memory of a fixed size, of which the first bytes are in use. It is smaller than a slice and a pointer to
// its owner. It must not be copied after its first use.
type Buffer struct {
	data    *byte
	n, room int32
	slab    *slab // nil: in the heap
}

// InHeap returns a buffer of n bytes in the collector's heap, all in use.
func InHeap(n int) Buffer { return buffer(make([]byte, n), nil) }

func buffer(b []byte, s *slab) Buffer {
	return Buffer{unsafe.SliceData(b), int32(len(b)), int32(len(b)), s} //nolint:gosec // buffers are below 2 GiB
}

// Bytes returns the bytes in use.
func (b *Buffer) Bytes() []byte { return unsafe.Slice(b.data, b.n) }

// Room returns the size of the buffer.
func (b *Buffer) Room() int { return int(b.room) }

// Resize sets the number of bytes in use, to at most Room.
func (b *Buffer) Resize(n int) {
	_ = unsafe.Slice(b.data, b.room)[:n]
	b.n = int32(n) //nolint:gosec // at most room
}

// Lent reports whether the buffer is a frame, for which Free must be called.
func (b *Buffer) Lent() bool { return b.slab != nil }

// Free gives a frame back, and leaves a buffer in the heap to the collector. Nobody may use its bytes any more. The
// buffer has no bytes from now on.
func (b *Buffer) Free() {
	at, s := b.data, b.slab
	*b = Buffer{}
	if s != nil {
		s.owner.put(s, int(uintptr(unsafe.Pointer(at))-uintptr(unsafe.Pointer(&s.b[0]))))
	}
}

const (
	firstFrame = 12 // the binary logarithm of the size of the smallest frame
	frameSizes = 4  // 4 to 32 KiB
)

// Frames lend buffers of 4 to 32 KiB in slabs outside the collector's heap, which are in huge pages where the system
// has them: a read of one then waits for fewer translations of addresses. They are safe for concurrent use.
//
// Free frames stay in memory, within the limit, since others are likely to be asked for. Beyond the limit their memory
// goes back to the system, and so does a slab whose frames are all free.
type Frames struct {
	memory *Pool
	slab   int // constant; bytes of a slab

	mu       sync.Mutex
	limit    int64               // guarded by mu; bytes that may be in memory
	denied   bool                // guarded by mu; the system had no memory for a slab since SetLimit
	lent     int64               // guarded by mu; bytes lent
	resident int64               // guarded by mu; bytes in memory: of frames that are lent, and of free ones
	some     [frameSizes][]*slab // guarded by mu; slabs with free frames
}

// A slab is memory for frames of one size.
type slab struct {
	owner *Frames // keeps the memory
	size  int     // of a frame
	b     []byte
	free  []int // guarded by owner.mu; offsets of free frames in memory
	gone  []int // guarded by owner.mu; offsets of free frames whose memory the system has
	small bool  // guarded by owner.mu; in pages of the ordinary size
}

// strictSlab is the size of a slab after Strict: pools of tests are small.
const strictSlab = 16 << 10

// NewFrames returns frames that lend nothing before SetLimit.
func NewFrames() *Frames {
	a := &Frames{memory: newPool(true), slab: slabBytes}
	if strict.Load() {
		a.slab = strictSlab
	}
	return a
}

// SetLimit sets the number of bytes that may be in memory. Frames that are lent already stay so.
func (a *Frames) SetLimit(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limit, a.denied = n, false
	a.forget(a.resident - n)
}

// Fit gives memory of free frames back to the system, until they have at most room bytes.
func (a *Frames) Fit(room int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(a.resident - a.lent - room)
}

// forget gives up to n bytes of free frames back to the system. mu is held.
func (a *Frames) forget(n int64) {
	if n <= 0 {
		return
	}
	for _, slabs := range a.some {
		for _, s := range slabs {
			for ; n > 0 && len(s.free) > 0; n -= int64(s.size) {
				offset := s.free[len(s.free)-1]
				s.free = s.free[:len(s.free)-1]
				s.gone = append(s.gone, offset)
				if !s.small {
					s.small = true
					keepSmall(s.b)
				}
				forgetPages(s.b[offset : offset+s.size])
				a.resident -= int64(s.size)
			}
		}
	}
}

// Bytes returns the bytes of frames that are lent, and of those in memory: these and free ones.
func (a *Frames) Bytes() (lent, resident int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lent, a.resident
}

// Get lends a frame of n bytes, with any contents. It returns false if there are no frames of that size, if the limit
// is reached, or if the system has no memory outside the heap. It takes no slab if free frames would then have more
// than room bytes.
func (a *Frames) Get(n int, room int64) (Buffer, bool) {
	if n&(n-1) != 0 || n>>firstFrame == 0 || n>>(firstFrame+frameSizes) != 0 || n > a.slab {
		return Buffer{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.choose(n, room)
	if s == nil {
		return Buffer{}, false
	}
	from := &s.free
	if len(s.free) == 0 {
		from = &s.gone
		a.resident += int64(n)
	}
	offset := (*from)[len(*from)-1]
	*from = (*from)[:len(*from)-1]
	if len(s.free)+len(s.gone) == 0 {
		a.remove(s)
	}
	a.lent += int64(n)
	return buffer(s.b[offset:offset+n], s), true
}

// slabs returns the slabs of frames of n bytes that have free ones. mu is held.
func (a *Frames) slabs(n int) *[]*slab { return &a.some[bits.Len(uint(n))-1-firstFrame] }

// choose returns a slab with a free frame of n bytes, or nil. mu is held.
func (a *Frames) choose(n int, room int64) *slab {
	slabs := *a.slabs(n)
	for _, s := range slices.Backward(slabs) {
		if len(s.free) > 0 {
			return s
		}
	}
	need := int64(n) // bytes that come into memory
	over := int64(0) // bytes of free frames, of other sizes, beyond room
	if len(slabs) == 0 {
		need = int64(a.slab)
		over = a.resident - a.lent + need - room
	}
	if a.lent+need > a.limit || len(slabs) == 0 && (a.denied || need > room) {
		return nil
	}
	a.forget(max(over, a.resident+need-a.limit))
	if len(slabs) > 0 {
		return slabs[len(slabs)-1]
	}
	return a.newSlab(n)
}

// newSlab returns a slab with all its frames, of n bytes each, or nil if the system has no memory. mu is held.
func (a *Frames) newSlab(n int) *slab {
	b, _ := a.memory.take(a.slab)
	if b == nil {
		a.denied = true
		return nil
	}
	s := &slab{owner: a, size: n, b: b, free: make([]int, 0, a.slab/n)}
	for offset := a.slab - n; offset >= 0; offset -= n { // the first one is lent first
		s.free = append(s.free, offset)
	}
	a.resident += int64(a.slab)
	some := a.slabs(n)
	*some = append(*some, s)
	return s
}

// put takes back the frame at an offset of s. Nobody refers to it.
func (a *Frames) put(s *slab, offset int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(s.free)+len(s.gone) == 0 {
		some := a.slabs(s.size)
		*some = append(*some, s)
	}
	s.free = append(s.free, offset)
	a.lent -= int64(s.size)
	if (len(s.free)+len(s.gone))*s.size == a.slab {
		a.resident -= int64(len(s.free) * s.size)
		a.remove(s)
		a.memory.Free(s.b)
	}
	a.forget(a.resident - a.limit)
}

// remove removes s from the slabs with free frames. mu is held.
func (a *Frames) remove(s *slab) {
	some := a.slabs(s.size)
	i := slices.Index(*some, s)
	*some = slices.Delete(*some, i, i+1)
}
