package sstable

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/prefetch"
	"github.com/bloomkv/bloomkv/vfs"
)

// A mappable file can be in the memory of the process.
type mappable interface {
	// Mapped returns n bytes of the file at offset off, to be read inside [vfs.ReadMapped] and the caller's guard. It
	// returns nil if they are not mapped, or, if inMemory is true, if the system would have to read them from the disk.
	Mapped(off int64, n int, inMemory bool) []byte
}

// If the cache is full and does not have its block, a lookup searches the block in the mapped file, as long as the
// system has it in memory: without a system call or a copy, and without evicting another block. A cursor copies what it
// needs of the block into its own memory, since its caller reads keys and values where a fault could not become an
// error. The cache serves the others: compressed blocks, and blocks that come from the disk.
//
// A block is verified once per residence (I35): before its first use, and again after a few seconds, since the system
// may have dropped it and read it anew. At the same moments the system is asked whether it has the block in memory. A
// page that it drops within these seconds, although it was used, is read by a page fault, and until it is there its
// reader keeps a processor. If others write into the file in these seconds, a lookup may read what they wrote as a
// block, and panic, which vfs.ReadMapped makes an error. Nothing does so for the copy that a cursor has, so it is
// checked: see block.fits.

// admitted is the number of uses of mapped blocks for each that puts its block into the cache: the blocks that are used
// most often get there, at little cost.
const admitted = 32

// A moment is a time in units of 2³¹ ns, a little more than two seconds; a residence lasts between one and two of them.
type moment = uint32

var started = time.Now()

// now returns the current moment, which is not 0 before 2³² of them have passed.
func now() moment { return moment(time.Since(started)>>31) + 2 } //nolint:gosec // not negative

// A residence is a range of offsets between data blocks that the system had in memory at a moment.
type residence struct {
	from, to uint64
	at       moment
}

// askedAhead is the number of bytes about which a cursor that moves from block to block asks the system at once.
const askedAhead = 64 << 10

// residentAhead reports whether the system has block i in memory, by in. If in does not say so, the system is asked
// about block i and those after it, and if it has them, they become in.
func (r *Reader) residentAhead(x *index, i int, at moment, in *residence) bool {
	start, end, to := x.handles[i].offset, x.end, i+1
	if in.from <= start && start < in.to && at-in.at <= 1 {
		return true
	}
	for to < len(x.handles) && x.handles[to].offset-start < askedAhead {
		to++
	}
	if to < len(x.handles) {
		end = x.handles[to].offset
	}
	if r.mapped.Mapped(int64(start), int(end-start), true) == nil { //nolint:gosec // in a file
		return false
	}
	*in = residence{start, end, at}
	return true
}

// A checklist says which blocks of a table were verified in the mapped file, and when: for each 32 blocks the moment at
// which the first of them was, and a bit for each that was verified since. It takes two bits a block.
type checklist []atomic.Uint64

func makeChecklist(blocks int) checklist { return make(checklist, (blocks+31)/32) }

func (c checklist) bytes() int64 { return 8 * int64(len(c)) }

// has reports whether block i was verified in the residence of moment at.
func (c checklist) has(i int, at moment) bool {
	w := c[i/32].Load()
	return w>>(i%32)&1 != 0 && at-moment(w>>32) <= 1
}

// add records that block i was verified at a moment.
func (c checklist) add(i int, at moment) {
	for {
		w := c[i/32].Load()
		now := w
		if at-moment(w>>32) > 1 {
			now = uint64(at) << 32
		}
		if c[i/32].CompareAndSwap(w, now|1<<(i%32)) {
			return
		}
	}
}

// remove forgets that block i was verified.
func (c checklist) remove(i int) { c[i/32].And(^(uint64(1) << (i % 32))) }

// locate returns data block i in the mapped file, with its trailer, and whether it was verified in this residence,
// which the moment at is in. It returns nil if the block is not there or is compressed. The system is asked whether it
// has the block in memory, unless it was verified or is in in. If in is not nil, it is first asked about the blocks
// after it, too. The caller is inside a guard.
func (r *Reader) locate(x *index, i int, in *residence) (sealed []byte, at moment, verified bool) {
	offset, stored, decoded := x.extent(i)
	if stored != decoded {
		return nil, 0, false
	}
	sealed = r.mapped.Mapped(int64(offset), stored+trailerSize, false) //nolint:gosec // in a file
	prefetch.Bytes(sealed[:min(len(sealed), prefetched/2)])            // the heads
	at = now()
	verified = x.checked.has(x.base+i, at)
	if !verified && (in == nil || !r.residentAhead(x, i, at, in)) {
		sealed = r.mapped.Mapped(int64(offset), stored+trailerSize, true) //nolint:gosec // in a file
	}
	return sealed, at, verified
}

// verify checks data block i, or a copy of it, with its trailer. at is the current moment.
func (r *Reader) verify(x *index, i int, sealed []byte, at moment) error {
	_, err := r.openBlock(x, i, sealed, nil)
	if err == nil {
		x.checked.add(x.base+i, at)
	}
	return err
}

// useMapped calls use with the payload of data block i in the mapped file, verified. It returns false if use did, or if
// the block is not there or is not as it should be: then reading it returns the error, or the block.
func (r *Reader) useMapped(x *index, i int, use func(data []byte) bool) (ok bool) {
	err := vfs.ReadMapped(func() {
		b, at, verified := r.locate(x, i, nil)
		if b == nil || !verified && r.verify(x, i, b, at) != nil {
			return
		}
		ok = use(b[:len(b)-trailerSize])
	})
	if err != nil {
		x.checked.remove(x.base + i)
		return false
	}
	return ok
}

// copyMapped copies data block i of the mapped file and its trailer into dst, which has space for both, and checks the
// copy. It returns false if the block must be read. in has blocks about which the system need not be asked.
func (r *Reader) copyMapped(x *index, i int, in *residence, dst []byte) bool {
	n, at, verified := 0, moment(0), false
	err := vfs.ReadMapped(func() {
		var b []byte
		b, at, verified = r.locate(x, i, in)
		n = copy(dst, b)
	})
	switch {
	case err != nil:
		x.checked.remove(x.base + i)
		return false
	case n == 0:
		return false
	case verified:
		b, err := checkHeader(dst[:n-trailerSize])
		return err == nil && b.fits(0, b.n, x.seqs)
	default:
		return r.verify(x, i, dst[:n], at) == nil
	}
}

// getMapped does the same as block.get in data block i of the mapped file. It returns false if the block must be read.
func (r *Reader) getMapped(x *index, i int, key []byte, t ikey.Trailer, st *Stats) (e entry, v verdict, ok bool) {
	ok = r.useMapped(x, i, func(data []byte) bool {
		b := parseBlock(data)
		e, v = b.get(key, t)
		return true
	})
	if ok {
		st.Mapped++
	}
	return e, v, ok
}

// appendMapped implements Hit.AppendValue for a value in the mapped file.
func (r *Reader) appendMapped(dst []byte, h *Hit) ([]byte, error) {
	all := dst
	err := vfs.ReadMapped(func() { all = append(dst, h.value...) })
	if err != nil {
		r.top.Load().checked.remove(h.number)
		return dst, fmt.Errorf("%s: offset %d: %w", r.meta.Name, h.offset, err)
	}
	return all, nil
}
