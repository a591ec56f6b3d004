//go:build !race

package pages

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestFreePagesBetweenPiecesGoBackToTheSystem frees three pieces of four, so that no slab is free as a whole, and then
// lends some of the space again.
func TestFreePagesBetweenPiecesGoBackToTheSystem(t *testing.T) {
	p := NewPieces()
	var all []Piece
	get := func() {
		piece := p.Get(60_000)
		for i := range piece.Bytes() {
			piece.Bytes()[i] = 1
		}
		all = append(all, piece)
	}
	resident := func() (n int64) {
		for _, s := range p.slabs {
			pages := make([]byte, len(s.b)/pageBytes)
			at := uintptr(unsafe.Pointer(&s.b[0]))
			_, _, err := unix.Syscall(unix.SYS_MINCORE, at, uintptr(len(s.b)), uintptr(unsafe.Pointer(&pages[0])))
			if err != 0 {
				t.Fatal(err)
			}
			for _, b := range pages {
				n += int64(b&1) * pageBytes
			}
		}
		return n
	}
	for range 400 {
		get()
	}
	if full := resident(); full < p.Lent() {
		t.Fatalf("%d bytes are in memory, but %d are lent", full, p.Lent())
	}
	for i, piece := range all {
		if i%4 > 0 {
			piece.Free()
		}
	}
	most := func() int64 { return p.Lent()*9/8 + slabBytes + 100*2*pageBytes } // part of a page at both ends of a piece
	if got := resident(); got > most() {
		t.Errorf("%d bytes are in memory for %d that are lent, want at most %d", got, p.Lent(), most())
	}
	slabs := len(p.slabs)
	for range 150 {
		get()
	}
	if got := resident(); got > most()+150*2*pageBytes || len(p.slabs) > slabs {
		t.Errorf("lent again: %d bytes are in memory for %d that are lent, in %d slabs, before %d", got, p.Lent(),
			len(p.slabs), slabs)
	}
}
