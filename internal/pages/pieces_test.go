package pages

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

// TestPiecesNeverOverlapAndAllComeBack lends and takes back pieces of many sizes, each filled with a byte of its own.
func TestPiecesNeverOverlapAndAllComeBack(t *testing.T) {
	testkit.Long(t)
	p := NewPieces()
	rng := rand.New(rand.NewPCG(1, 2))
	type held struct {
		Piece

		mark byte
	}
	var all []held
	check := func(h held) {
		t.Helper()
		if b := h.Bytes(); bytes.Count(b, []byte{h.mark}) != len(b) {
			t.Fatalf("a piece of %d bytes was overwritten", len(b))
		}
	}
	for i := range 4000 {
		if len(all) > 0 && rng.IntN(5) < 2 {
			k := rng.IntN(len(all))
			check(all[k])
			all[k].Free()
			all[k] = all[len(all)-1]
			all = all[:len(all)-1]
			continue
		}
		n := 1 + rng.IntN(200<<10)
		if i%97 == 0 {
			n = 5 << 20 // larger than a slab
		}
		h := held{p.Get(n), byte(i)}
		b := h.Bytes()
		if len(b) != n || cap(b) != n || uintptr(unsafe.Pointer(&b[0]))%pieceAlign != 0 {
			t.Fatalf("%d bytes at %p with a capacity of %d, want %d at a multiple of %d", len(b), &b[0], cap(b), n,
				pieceAlign)
		}
		for k := range b {
			b[k] = h.mark
		}
		all = append(all, h)
	}
	for _, h := range all {
		check(h)
		h.Free()
	}
	if p.Lent() != 0 || len(p.slabs) != 0 || p.memory.Lent() != 0 {
		t.Errorf("all came back: %d bytes are lent, in %d slabs of %d bytes", p.Lent(), len(p.slabs), p.memory.Lent())
	}
}

func TestPiecesOfNothing(t *testing.T) {
	var none *Pieces
	if b := none.Get(100).Bytes(); len(b) != 100 {
		t.Errorf("without an owner: %d bytes, want 100 in the heap", len(b))
	}
	none.Get(100).Free()
	if b := NewPieces().Get(0).Bytes(); len(b) != 0 {
		t.Errorf("%d bytes, want none", len(b))
	}
}

// TestAPieceIsFreedWithItsObject also holds the object, so that its piece must stay.
func TestAPieceIsFreedWithItsObject(t *testing.T) {
	type object struct{ b []byte }
	p := NewPieces()
	make1 := func() *object {
		piece := p.Get(1000)
		o := &object{piece.Bytes()}
		FreeWith(o, piece)
		return o
	}
	kept := make1()
	for range 10 {
		make1()
	}
	testkit.Soon(t, "no bytes are lent except those of the object that is held", func() bool {
		runtime.GC()
		return p.Lent() <= 1024
	})
	if p.Lent() != 1024 {
		t.Errorf("%d bytes are lent, want 1024", p.Lent())
	}
	runtime.KeepAlive(kept)
}

// TestStrictPoolsKeepNothingThatWasGivenBack frees one of two pieces of a slab, and memory of a pool.
func TestStrictPoolsKeepNothingThatWasGivenBack(t *testing.T) {
	defer strict.Store(false)
	for _, on := range []bool{false, true} {
		if on {
			Strict()
		}
		p := NewPieces()
		other, piece := p.Get(1000), p.Get(1000)
		b := piece.Bytes()
		b[0], b[999] = 1, 2
		piece.Free()
		if cleared := b[0] == 0 && b[999] == 0; cleared != on {
			t.Errorf("strict %v: the bytes of a free piece are 0: %v", on, cleared)
		}
		other.Free()
		pool := NewPool()
		lent, _ := pool.Get(pageBytes)
		pool.Put(lent, true)
		want, slab := int64(pageBytes), slabBytes
		if on {
			want, slab = 0, strictSlab
		}
		if got := pool.Idle(); got != want || pool.Lent() != 0 || NewFrames().slab != slab {
			t.Errorf("strict %v: %d bytes are idle, want %d; slabs have %d, want %d",
				on, got, want, NewFrames().slab, slab)
		}
	}
}
