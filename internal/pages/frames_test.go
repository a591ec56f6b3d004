package pages

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

// counted returns the bytes that are lent, those in memory, and those of slabs. It checks that they agree.
func (a *Frames) counted(t *testing.T) (lent, resident, slabs int64) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	slabs = a.memory.Lent() + a.memory.Idle()
	free, gone := int64(0), int64(0)
	for _, all := range a.some {
		for _, s := range all {
			if len(s.free)+len(s.gone) == 0 {
				t.Error("a slab without free frames is among those with some")
			}
			free += int64(len(s.free) * s.size)
			gone += int64(len(s.gone) * s.size)
		}
	}
	if a.resident != a.lent+free || slabs != a.resident+gone {
		t.Errorf("lent %d, free %d, gone %d; in memory %d, in slabs %d", a.lent, free, gone, a.resident, slabs)
	}
	return a.lent, a.resident, slabs
}

// write fills a buffer with what wrote expects for i.
func write(b *Buffer, i int) {
	for k := range b.Bytes() {
		b.Bytes()[k] = byte(i + k/256)
	}
}

func wrote(b *Buffer, i int) bool {
	for k, v := range b.Bytes() {
		if v != byte(i+k/256) {
			return false
		}
	}
	return true
}

func TestABufferHasItsSize(t *testing.T) {
	b := InHeap(1000)
	b.Resize(100)
	if len(b.Bytes()) != 100 || b.Room() != 1000 || b.Lent() {
		t.Errorf("%d bytes of %d, lent: %v", len(b.Bytes()), b.Room(), b.Lent())
	}
	b.Resize(1000)
	b.Free()
	defer func() {
		if recover() == nil {
			t.Error("a buffer of 1000 bytes can have 1001")
		}
	}()
	b.Resize(1001)
}

func TestFramesAreApartAndComeBack(t *testing.T) {
	testkit.Long(t)
	a := NewFrames()
	const limit = 10 << 20
	a.SetLimit(limit)
	for n := range 70 << 10 {
		want := n == 4<<10 || n == 8<<10 || n == 16<<10 || n == 32<<10
		if b, ok := a.Get(n, limit); ok != want || b.Lent() != want || ok && len(b.Bytes()) != n {
			t.Fatalf("%d bytes: %v", n, ok)
		} else if ok {
			b.Free()
		}
	}
	if lent, _, slabs := a.counted(t); lent != 0 || slabs != 0 {
		t.Fatalf("%d bytes are lent, slabs have %d", lent, slabs)
	}
	var all []*Buffer
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		for {
			b, ok := a.Get(4096<<rng.IntN(frameSizes), limit)
			if !ok {
				break
			}
			write(&b, len(all))
			all = append(all, &b)
		}
		size := int64(0)
		for i, b := range all {
			if size += int64(b.Room()); !wrote(b, i) {
				t.Fatalf("frame %d was overwritten", i)
			}
		}
		if lent, resident, _ := a.counted(t); lent != size || resident > limit || size < limit-slabBytes {
			t.Fatalf("%d bytes are lent in frames of %d, %d are in memory, want nearly %d", lent, size, resident, limit)
		}
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for len(all) > 0 && (size > limit/2 || rng.IntN(100) > 0) {
			b := all[len(all)-1]
			all = all[:len(all)-1]
			size -= int64(b.Room())
			b.Free()
		}
		for i, b := range all {
			write(b, i)
		}
	}
	for _, b := range all {
		b.Free()
		b.Free() // does nothing
	}
	if lent, _, slabs := a.counted(t); lent != 0 || slabs != 0 {
		t.Errorf("all came back, but %d bytes are lent, and slabs have %d", lent, slabs)
	}
}

// TestFreeFramesStayWithinTheLimit frees one of two frames of a slab and lowers the limit.
func TestFreeFramesStayWithinTheLimit(t *testing.T) {
	a := NewFrames()
	a.SetLimit(slabBytes)
	stays, _ := a.Get(4096, slabBytes)
	goes, _ := a.Get(4096, slabBytes)
	write(&stays, 1)
	write(&goes, 2)
	late := goes
	if goes.Free(); len(goes.Bytes()) != 0 {
		t.Error("a buffer has bytes after Free")
	}
	if _, resident, _ := a.counted(t); resident != slabBytes || !wrote(&late, 2) {
		t.Errorf("%d bytes are in memory, want all %d", resident, slabBytes)
	}
	for _, less := range []func(){
		func() { a.SetLimit(slabBytes - 4096) },
		func() { a.Fit(slabBytes - 16384) },
		func() { a.SetLimit(4096) },
	} {
		_, before, _ := a.counted(t)
		if less(); !wrote(&stays, 1) {
			t.Error("the frame beside the free one was overwritten")
		}
		if _, resident, _ := a.counted(t); resident > a.limit || resident >= before {
			t.Errorf("%d bytes of %d stay in memory, want less and %d at most", resident, before, a.limit)
		}
	}
	if Huge && !bytes.Equal(late.Bytes(), make([]byte, 4096)) {
		t.Error("the system did not get the memory of the free frame")
	}
	if _, ok := a.Get(4096, slabBytes); ok {
		t.Error("a frame beyond the limit is lent")
	}
	a.SetLimit(8192)
	again, _ := a.Get(4096, 0) // it needs no slab
	write(&again, 3)
	if _, resident, _ := a.counted(t); resident != 8192 || !wrote(&stays, 1) || !wrote(&again, 3) {
		t.Errorf("%d bytes are in memory, want two frames", resident)
	}
	a.SetLimit(4096)
	again.Free()
	if _, resident, _ := a.counted(t); resident != 4096 || !wrote(&stays, 1) {
		t.Errorf("%d bytes are in memory, want one frame", resident)
	}
}

// TestFramesOfOneSizeMakeRoomForOthers lends all frames of one size, frees every second one, and lends those of another
// size.
func TestFramesOfOneSizeMakeRoomForOthers(t *testing.T) {
	a := NewFrames()
	const limit, large = 16 << 20, 16 << 10
	a.SetLimit(limit)
	var all []Buffer
	for b, ok := a.Get(4096, limit); ok; b, ok = a.Get(4096, limit) {
		all = append(all, b)
	}
	for i := 0; i < len(all); i += 2 {
		all[i].Free()
	}
	n := 0
	for _, ok := a.Get(large, limit); ok; _, ok = a.Get(large, limit) {
		n++
	}
	if _, resident, _ := a.counted(t); resident > limit || n != limit/2/large {
		t.Errorf("%d frames of %d bytes, %d bytes in memory", n, large, resident)
	}
}

// TestNoSlabBeyondTheRoom lends all frames of one slab and asks for frames of another size, with room for a slab or for
// less.
func TestNoSlabBeyondTheRoom(t *testing.T) {
	a := NewFrames()
	a.SetLimit(4 * slabBytes)
	all := make([]Buffer, slabBytes/4096)
	for i := range all {
		all[i], _ = a.Get(4096, slabBytes)
	}
	if _, ok := a.Get(8192, slabBytes-1); ok {
		t.Error("a slab is taken without room for it")
	}
	for i := range 10 {
		all[i].Free()
	}
	if _, ok := a.Get(8192, slabBytes-1); ok {
		t.Error("a slab is taken without room for it")
	}
	if _, resident, _ := a.counted(t); resident != slabBytes {
		t.Errorf("%d bytes are in memory, want %d: nothing was to be gained", resident, slabBytes)
	}
	if _, ok := a.Get(8192, slabBytes); !ok {
		t.Error("no slab is taken although there is room for it")
	}
	if lent, resident, _ := a.counted(t); resident-lent > slabBytes {
		t.Errorf("free frames have %d bytes, want %d at most", resident-lent, slabBytes)
	}
}

// TestASystemWithoutMemoryIsAskedOnce has a pool that lends nothing.
func TestASystemWithoutMemoryIsAskedOnce(t *testing.T) {
	a := NewFrames()
	a.slab = math.MaxInt &^ (pageBytes - 1) // no system has that much
	a.SetLimit(math.MaxInt64)
	if !Huge || math.MaxInt == math.MaxInt32 {
		t.Skip("on this system the request might be granted")
	}
	for range 3 {
		if _, ok := a.Get(4096, math.MaxInt64); ok || !a.denied {
			t.Fatal("a slab of all memory was lent")
		}
	}
	a.slab = slabBytes
	if _, ok := a.Get(4096, math.MaxInt64); ok {
		t.Error("the system was asked again")
	}
	a.SetLimit(math.MaxInt64)
	if _, ok := a.Get(4096, math.MaxInt64); !ok {
		t.Error("the system was not asked again after SetLimit")
	}
}
