package memtable

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/pages"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// TestAVersionTakesItsPartsAndNoMore has sizes of whole units, and of one byte less and more, and sequence numbers and
// kinds that fit in a stamp or do not. The first version is number 100.
func TestAVersionTakesItsPartsAndNoMore(t *testing.T) {
	const far = 100 + 1<<(32-kindBits)
	a, buf := new(arena), bytes.Repeat([]byte("0123456789"), 1<<16)
	first := a.put(ikey.MakeTrailer(100, ikey.Set), 0, 0, nil, nil)
	for _, test := range []struct {
		first            ref
		seq              ikey.Seq
		kind             ikey.Kind
		key, value, want int
	}{
		{0, 100, ikey.Set, 0, 0, 12},
		{0, 101, ikey.Set, 0, 3, 16},
		{0, 101, ikey.Set, 1, 3, 16},
		{0, 101, ikey.Set, 5, 0, 20},
		{0, 101, ikey.Set, 16, 100, 128},
		{first, 101, ikey.Delete, 0, 0, 16},
		{first, 101, ikey.Set, 1, 4, 24},
		{0, far - 1, ikey.ValueRef, 16, 100, 128},
		{0, far - 1, ikey.Mark, 16, 100, 136},
		{0, far, ikey.Set, 16, 100, 136},
		{0, 99, ikey.Set, 16, 100, 136},
		{first, 0, ikey.Delete, 16, 100, 140},
		{0, ikey.MaxSeq, ikey.Set, 1<<10 - 1, 1, 12 + 8 + 1<<10},
		{first, ikey.MaxSeq, ikey.Set, 1 << 10, 0, 16 + 8 + 8 + 1<<10},
		{0, 101, ikey.Set, 4, 1 << 19, 12 + 8 + 4 + 1<<19},
	} {
		before, trailer := a.next, ikey.MakeTrailer(test.seq, test.kind)
		r := a.put(trailer, test.first, test.first, buf[:test.key], buf[:test.value])
		if got := int(a.next-before) * unitBytes; got != test.want && test.value < 1<<19 { // that has its own chunk
			t.Errorf("%+v takes %d bytes", test, got)
		}
		v := a.version(r)
		if a.trailer(v) != trailer || v.older() != test.first || !bytes.Equal(v.key(), buf[:test.key]) ||
			!bytes.Equal(v.value(), buf[:test.value]) {
			t.Errorf("%+v is read as %v, a key of %d bytes, %d", test, a.trailer(v), len(v.key()), v.older())
		}
	}
}

// TestWordsOfAnArenaAreAligned begins at even and at odd units in turn.
func TestWordsOfAnArenaAreAligned(t *testing.T) {
	a := &arena{pool: pages.NewPool(), chunk: minLent}
	defer a.release()
	for i := range 3 {
		if w := a.zeroedWords(7); len(w) != 7 || uintptr(unsafe.Pointer(&w[0]))%8 != 0 {
			t.Errorf("array %d has %d words at %p, want 7 at a multiple of 8", i, len(w), &w[0])
		}
	}
	if a.zeroedWords(inArena / bytesPerSlot); len(a.words) != 0 || a.inHeap(inArena) {
		t.Error("a small array is not in a chunk")
	}
}

func TestWordsInUsedMemoryAreZero(t *testing.T) {
	a := &arena{pool: pages.NewPool(), chunk: minLent}
	defer a.release()
	b, _ := a.pool.Get(minLent)
	for i := range b {
		b[i] = 0xff
	}
	a.pool.Put(b, false)
	for i := range a.zeroedWords(minLent / bytesPerSlot) {
		if n := a.words[0][i]; n != 0 {
			t.Fatalf("byte %d is %x", i, n)
		}
	}
	if n := a.bytes.Load(); n != minLent {
		t.Errorf("%d bytes are taken, want %d", n, minLent)
	}
}

// TestLargeAllocationsHaveTheirOwnChunks is about more than a quarter of a chunk, and of what waits for the next table.
func TestLargeAllocationsHaveTheirOwnChunks(t *testing.T) {
	a := new(arena)
	for i, n := range []int{minChunk/4 + unitBytes, minChunk / 4} {
		a.alloc(n)
		if got, want := int(a.bytes.Load()), []int{n, minChunk/4 + unitBytes + minChunk}[i]; got != want {
			t.Errorf("after %d bytes: %d are taken, want %d", n, got, want)
		}
	}
	lent := &arena{pool: pages.NewPool(), chunk: 1 << 20}
	lent.alloc(8)
	if lent.alloc(cap(lent.free)); len(*lent.chunks.Load()) != 2 {
		t.Error("what just fits is not in the chunk")
	}
	lent.release()
	lent.pool.Trim(0)
	lent.alloc(maxChunk)
	lent.alloc(maxChunk + unitBytes)
	lent.release()
	if idle := lent.pool.Idle(); idle != maxChunk {
		t.Errorf("%d bytes wait for the next table, want %d", idle, maxChunk)
	}
	lent.pool.Trim(0)
}

// TestAnArenaCountsWhatItTakes compares with what was asked for, and with a quarter of that.
func TestAnArenaCountsWhatItTakes(t *testing.T) {
	a, lent := new(arena), &arena{pool: pages.NewPool(), chunk: maxChunk}
	defer lent.release()
	for used := 12; used < maxChunk/4; used += 12 {
		a.alloc(12)
		if got := int(a.bytes.Load()); got < used || got > used+used/4+minChunk+used/100 {
			t.Fatalf("%d bytes are taken for %d", got, used)
		}
		lent.alloc(12)
		if got, want := int(lent.bytes.Load()), used+len(lent.free); got != want {
			t.Fatalf("of a lent chunk %d bytes are taken, want %d", got, want)
		}
	}
	if n := len((*lent.chunks.Load())[1]); n != maxChunk/2 {
		t.Errorf("the first chunk has %d bytes, want half of the others", n)
	}
	for size, want := range map[int64]int{
		0: maxChunk, 1: minLent, 2 << 20: minLent, 3<<20 + 5: 3 << 17, 8 << 20: 1 << 20, 16 << 20: maxChunk,
		1 << 30: maxChunk,
	} {
		if got := lentChunk(size); got != want {
			t.Errorf("a table of %d bytes has chunks of %d, want %d", size, got, want)
		}
	}
}

func TestAnArenaEndsWithItsRefs(t *testing.T) {
	a, all := new(arena), make([][]byte, maxChunks-1)
	a.chunks.Store(&all)
	if _, r := a.alloc(8); r>>unitBits != maxChunks-1 {
		t.Errorf("the last chunk has number %d", r>>unitBits)
	}
	defer func() {
		if recover() == nil {
			t.Error("a chunk without a number")
		}
	}()
	a.alloc(maxChunk)
}

// TestDropKeepsNoMemory has nodes of a tree and chunks that wait for the next table.
func TestDropKeepsNoMemory(t *testing.T) {
	testkit.LongUnderRace(t)
	m := NewMemory()
	func() {
		tb := NewIn(m, nil, 0, 0)
		for i := range 50_000 {
			add(tb, fmt.Sprintf("%06d", i*7919%50_000), ikey.Seq(i+1), ikey.Set, "")
		}
		tb.Release()
	}()
	before, idle := heap(), m.Idle()
	m.Drop()
	if freed := before - heap(); idle == 0 || m.Idle() != 0 || freed < 500<<10 {
		t.Errorf("%d bytes of %d are idle after Drop, which freed %d of the heap", m.Idle(), idle, freed)
	}
	runtime.KeepAlive(m)
}
