package sstable

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/vfs"
)

// A mappable file can be in the memory of the process.
type mappable interface {
	// Mapped returns n bytes of the file at offset off, to be read inside [vfs.ReadMapped] and the caller's guard. It
	// returns nil if they are not mapped, or, if inMemory is true, if the system would have to read them from the disk.
	Mapped(off int64, n int, inMemory bool) []byte
}

// If the cache is full and does not have its block, a lookup searches the block in the mapped file, as long as the
// system has it in memory: without a system call or a copy, and without evicting another block. The cache serves the
// others: compressed blocks, blocks that come from the disk, and iterators, whose callers read keys and values where a
// fault could not become an error.
//
// A block is verified once per residence (I35): before its first use, and again if it was not verified for a few
// seconds, since the system may have dropped it and read it anew. At the same moments the system is asked whether it
// has the block in memory. A page that it drops within these seconds, although it was used, is read by a page fault,
// and until it is there its reader keeps a processor.

// admitted is the number of lookups in mapped blocks for each that puts its block into the cache: the blocks that are
// used most often get there, at little cost.
const admitted = 32

// A moment is a time in units of 2³¹ ns, a little more than two seconds; a residence lasts between one and two of them.
type moment = uint32

var started = time.Now()

// now returns the current moment, which is not 0 before 2³² of them have passed.
func now() moment { return moment(time.Since(started)>>31) + 2 } //nolint:gosec // not negative

// mappedBlock returns the payload of data block i in the mapped file, verified. It returns nil if the block is not
// there, is not as it should be, or is compressed: then reading it returns the error, or the block. The caller is
// inside vfs.ReadMapped and a guard.
func (r *Reader) mappedBlock(x *index, i int) []byte {
	offset, stored, decoded := x.extent(i)
	if stored != decoded {
		return nil
	}
	at, verified := now(), x.verified[i].Load()
	known := at-verified <= 1
	b := r.mapped.Mapped(int64(offset), stored+trailerSize, !known) //nolint:gosec // an offset in a file
	if b == nil {
		return nil
	}
	if !known {
		var err error
		if verified == 0 {
			_, err = r.openBlock(x, i, b)
		} else { // a block with this checksum was found to be sound
			_, err = r.unseal(x, i, b)
		}
		if err != nil {
			return nil
		}
		x.verified[i].Store(at)
	}
	return b[:stored]
}

// useMapped calls use with the payload of data block i in the mapped file. It returns false if the block must be read.
func (r *Reader) useMapped(x *index, i int, st *Stats, use func(data []byte)) (ok bool) {
	err := vfs.ReadMapped(func() {
		if data := r.mappedBlock(x, i); data != nil {
			use(data)
			ok = true
		}
	})
	if err != nil {
		x.verified[i].Store(0)
		return false
	}
	if ok {
		st.Mapped++
	}
	return ok
}

// inPlace reports whether a lookup shall search data block i, which is not in the cache, in the mapped file.
func (r *Reader) inPlace(x *index, i int) bool {
	return r.mapped != nil && !r.cache.HasRoom(int(x.handles[i].decoded)) && rand.Uint32()%admitted != 0
}

// getMapped does the same as block.get in data block i of the mapped file. It returns false if the block must be read.
func (r *Reader) getMapped(x *index, i int, key []byte, t ikey.Trailer, st *Stats) (e entry, v verdict, ok bool) {
	ok = r.useMapped(x, i, st, func(data []byte) {
		b := parseBlock(data)
		e, v = b.get(key, t)
	})
	return e, v, ok
}

// copyMapped copies data block i of the mapped file into c, which has the block's length. It returns false if the block
// must be read.
func (r *Reader) copyMapped(x *index, i int, c *cache.Block, st *Stats) bool {
	return r.mapped != nil && r.useMapped(x, i, st, func(data []byte) { copy(c.Bytes(), data) })
}

// appendMapped implements Hit.AppendValue for a value in the mapped file.
func (r *Reader) appendMapped(dst []byte, h *Hit) ([]byte, error) {
	all := dst
	err := vfs.ReadMapped(func() { all = append(dst, h.value...) })
	if err != nil {
		h.x.verified[h.i].Store(0)
		return dst, fmt.Errorf("%s: offset %d: %w", r.meta.Name, h.x.handles[h.i].offset, err)
	}
	return all, nil
}
