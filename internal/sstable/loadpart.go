package sstable

import (
	"errors"
	"unsafe"

	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/vfs"
)

// If loading a part of an index would evict another one, a lookup searches it in place, and does not keep it: in the
// mapped file, if the system has it in memory, or in a buffer that it is read into. It uses the data block likewise.
// One lookup in 32 loads the part all the same, so that the parts that are used most often get into the pool, and only
// then their blocks into the cache, as these need the part's slots. A lookup in place allocates nothing.

// admits reports whether a lookup or a cursor shall load part p, which is not in memory.
func (r *Reader) admits(t *top, p int) bool {
	n := t.partBytes(p)
	return t.oneBlock || r.parts.hasRoom(n) || n <= r.parts.limit.Load() && step.Rand(admitted) == 0
}

// part returns part p of the index, and loads it if need be.
func (r *Reader) part(t *top, p int, st *Stats) (*index, error) {
	if x := t.loaded[p].Load(); x != nil {
		x.use()
		return x, nil
	}
	st.IndexParts++
	st.PartLoads++
	x, err := r.loadPart(t, p, nil)
	if err != nil {
		return nil, err
	}
	x = r.parts.put(r, &t.loaded[p], x)
	if grown := r.parts.Grown; grown != nil {
		grown()
	}
	return x, nil
}

// partBytes estimates the bytes of memory that part p would take.
func (t *top) partBytes(p int) int64 {
	w := &t.parts[p]
	const entry = 8 + 4 + 16 + 8 // see index.bytes
	return int64(unsafe.Sizeof(index{})) + int64(w.blocks)*(entry-partEntry) + int64(w.length)
}

// openPart checks the payload of part p with its trailer, which was read or is mapped, as of a moment.
func (r *Reader) openPart(t *top, p int, sealed []byte, at moment) (v partView, err error) {
	w := &t.parts[p]
	payload, err := r.openPlain(KindPart, w.offset, sealed)
	if err != nil {
		return v, err
	}
	if w.verified.Load() == 0 {
		v, err = t.checkPart(p, payload)
	} else { // a part with this checksum was found to be sound
		v, err = viewPart(payload)
	}
	if err != nil {
		return v, r.damaged(w.offset, err)
	}
	w.verified.Store(at)
	return v, nil
}

// mappedPart returns part p in the mapped file, if the system has it in memory. It is verified once per residence. The
// caller is inside vfs.ReadMapped and a guard.
func (r *Reader) mappedPart(t *top, p int, at moment) (v partView, ok bool) {
	w := &t.parts[p]
	fresh := at-w.verified.Load() <= 1
	b := r.mapped.Mapped(int64(w.offset), int(w.length)+trailerSize, !fresh) //nolint:gosec // in a file
	if b == nil {
		return v, false
	}
	var err error
	if fresh {
		v, err = viewPart(b[:w.length])
	} else {
		v, err = r.openPart(t, p, b, at)
	}
	return v, err == nil
}

var errPart = errors.New("part of the index: it does not fit its length")

// usePart calls use with part p, checked, in the mapped file, if the system has it in memory, or in a buffer that it is
// read into. It is an error if use returns false there.
func (r *Reader) usePart(t *top, p int, use func(v partView) bool) error {
	at, done, w := now(), false, &t.parts[p]
	if r.mapped != nil {
		err := vfs.ReadMapped(func() {
			v, ok := r.mappedPart(t, p, at)
			done = ok && use(v)
		})
		if err == nil && done {
			return nil
		}
		if err != nil {
			w.verified.Store(0)
		}
	}
	buf, _ := scratches.Get().(*scratch) // the pool has no others
	defer scratches.Put(buf)
	b := buf.bytes(int(w.length) + trailerSize)
	if err := r.readAt(b, w.offset); err != nil {
		return err
	}
	v, err := r.openPart(t, p, b, at)
	if err != nil {
		return err
	}
	if !use(v) { // it was sound once, and has the same checksum
		w.verified.Store(0)
		return r.damaged(w.offset, errPart)
	}
	return nil
}

// loadPart parses part p into x, or into a new index if x is nil.
func (r *Reader) loadPart(t *top, p int, x *index) (*index, error) {
	if t.oneBlock {
		return r.loadOne(t)
	}
	if x == nil {
		x = new(index)
	}
	return x, r.usePart(t, p, func(v partView) bool { return t.fill(x, p, &v) })
}

// loadOne reads an index in one block.
func (r *Reader) loadOne(t *top) (*index, error) {
	w := &t.parts[0]
	b := make([]byte, w.length+trailerSize)
	if err := r.readAt(b, w.offset); err != nil {
		return nil, err
	}
	payload, err := r.openPlain(KindIndex, w.offset, b)
	if err != nil {
		return nil, err
	}
	x, err := t.parseOne(payload)
	if err != nil {
		return nil, r.damaged(w.offset, err)
	}
	return x, nil
}
