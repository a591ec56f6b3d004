package sstable

import (
	"errors"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/prefetch"
	"github.com/bloomkv/bloomkv/vfs"
)

// If loading a part of an index would evict another one, a lookup searches it in place, and does not keep it: in the
// mapped file, if the system has it in memory, or in a buffer that it is read into. It uses the data block likewise.
// One lookup in 32 loads the part all the same, so that the parts that are used most often get into the pool, and only
// then their blocks into the cache, as these need the part's slots. A lookup in place allocates nothing.

// admits reports whether a lookup or a cursor shall load part p, which is not in memory.
func (r *Reader) admits(t *top, p int) bool {
	n := t.partBytes(p)
	return t.oneBlock || r.parts.hasRoom(n) || n <= r.parts.limit.Load() && rand.Uint32()%admitted == 0
}

// partBytes estimates the bytes of memory that part p would take.
func (t *top) partBytes(p int) int64 {
	w := &t.parts[p]
	const entry = 8 + 4 + 16 + 8 // see index.bytes
	return int64(unsafe.Sizeof(index{})) + int64(w.blocks)*(entry-partEntry) + int64(w.length)
}

// spot returns the data block in part p that a search for key leads to. It is false if something of the part is wrong;
// nothing of the view is believed that was not checked here or in find.
func (t *top) spot(p int, v *partView, key []byte) (s spot, ok bool) {
	if v.blocks() != int(t.parts[p].blocks) {
		return spot{}, false
	}
	i, ok := v.find(key)
	if !ok {
		return spot{}, false
	}
	start, end := v.span(i)
	from, to := v.suffixEnds(i)
	if !v.fits(i) || uint64(end) > t.parts[p].data {
		return spot{}, false
	}
	s = spot{
		offset: t.parts[p].start + uint64(start), stored: int(end-start) - trailerSize, decoded: int(v.decoded(i)),
		number: t.parts[p].base + i, last: t.parts[p].base+i+1 == t.blocks,
		upper: joined{v.prefix, v.seps[from:to]}, first: t.first, seqs: t.seqs,
	}
	switch {
	case i > 0:
		before, _ := v.suffixEnds(i - 1)
		if before > from {
			return spot{}, false
		}
		s.lower = joined{v.prefix, v.seps[before:from]}
	case p > 0:
		s.lower = joined{t.prefix, t.sep(p - 1)}
	}
	return s, true
}

// keep makes the separators of a spot copies.
func (b *scratch) keep(s *spot) {
	b.keys = slices.Grow(b.keys[:0], len(s.lower.prefix)+len(s.lower.suffix)+len(s.upper.prefix)+len(s.upper.suffix))
	for _, k := range [...]*[]byte{&s.lower.prefix, &s.lower.suffix, &s.upper.prefix, &s.upper.suffix} {
		n := len(b.keys)
		b.keys = append(b.keys, *k...)
		*k = b.keys[n:]
	}
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

// openOne parses an index in one block, which was read with its trailer.
func (r *Reader) openOne(t *top, sealed []byte) (*index, error) {
	offset := t.parts[0].offset
	payload, err := r.openPlain(KindIndex, offset, sealed)
	if err != nil {
		return nil, err
	}
	x, err := t.parseOne(payload)
	if err != nil {
		return nil, r.damaged(offset, err)
	}
	return x, nil
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

// An inPlace is a lookup in a part that is searched in place.
type inPlace struct {
	t      *top
	key    []byte
	newest ikey.Trailer // that the reader may see, as in the file
	at     moment       // of the lookup

	spot  spot
	found bool // spot is the block to search
	e     entry
	v     verdict
	done  bool // e and v are what the block says
}

// getInPlace does the same as Get in part p, which is not in memory, and leaves it there.
func (r *Reader) getInPlace(t *top, p int, key []byte, seq ikey.Seq, st *Stats) (hit Hit, ok bool, err error) {
	buf, _ := scratches.Get().(*scratch) // the pool has no others
	defer scratches.Put(buf)
	l := inPlace{t: t, key: key, newest: r.firstVisible(seq), at: now()}
	st.IndexParts++
	if err = r.findInPlace(&l, p, buf); err != nil {
		return Hit{}, false, err
	}
	st.Blocks++
	var c *cache.Block
	if l.done {
		st.Mapped++
	} else {
		if c, err = r.readBlock(&l.spot, st); err != nil {
			return Hit{}, false, err
		}
		var b block
		b.parse(c.Meta, c.Bytes())
		l.e, l.v = b.get(key, l.newest)
	}
	if l.v == found {
		if hit, ok = r.hit(&l.e, c, seq); ok && c == nil {
			hit.r, hit.number, hit.offset = r, l.spot.number, l.spot.offset
		}
	}
	switch {
	case hit.block != nil:
		r.cache.Discard(c) // once the caller of Get has left its guard
	case c != nil:
		r.cache.Free(c)
	}
	if l.v == further {
		return r.goOn(t, p, l.spot.number+1, key, seq, st)
	}
	if l.v != absent {
		st.Present++
	}
	return hit, ok, nil
}

// goOn goes on with a lookup in place that has found versions which are too new at the end of a block: it loads part p,
// and searches from block number on.
func (r *Reader) goOn(t *top, p, number int, key []byte, seq ikey.Seq, st *Stats) (hit Hit, ok bool, err error) {
	x, err := r.part(t, p, st)
	if err != nil {
		return Hit{}, false, err
	}
	present := st.Present + 1
	hit, ok, err = r.search(x, number-x.base, key, seq, st)
	st.Present = present
	return hit, ok, err
}

// findInPlace finds the block that a lookup has to search, and searches it, if it is in the mapped file. buf has
// separators of the spot until the caller puts it back.
func (r *Reader) findInPlace(l *inPlace, p int, buf *scratch) error {
	if r.mapped != nil && r.findMapped(l, p, buf) {
		return nil
	}
	w := &l.t.parts[p]
	b := buf.bytes(int(w.length) + trailerSize)
	if err := r.readAt(b, w.offset); err != nil {
		return err
	}
	v, err := r.openPart(l.t, p, b, l.at)
	if err != nil {
		return err
	}
	if l.spot, l.found = l.t.spot(p, &v, l.key); !l.found { // it was sound once, and has the same checksum
		w.verified.Store(0)
		return r.damaged(w.offset, errPart)
	}
	if r.mapped != nil && vfs.ReadMapped(func() { r.searchMapped(l) }) != nil {
		l.t.checked.remove(l.spot.number)
		l.done = false
	}
	return nil
}

var errPart = errors.New("part of the index: it does not fit its length")

// findMapped implements findInPlace in the mapped file. It returns false if the part must be read.
func (r *Reader) findMapped(l *inPlace, p int, buf *scratch) bool {
	err := vfs.ReadMapped(func() {
		v, ok := r.mappedPart(l.t, p, l.at)
		if !ok {
			return
		}
		if l.spot, ok = l.t.spot(p, &v, l.key); !ok {
			return
		}
		if r.searchMapped(l); !l.done {
			buf.keep(&l.spot)
		}
		l.found = true
	})
	if err != nil {
		l.t.parts[p].verified.Store(0)
		l.t.checked.remove(l.spot.number)
		l.found, l.done = false, false
	}
	return l.found
}

// searchMapped searches the block of a lookup in the mapped file, if the system has it in memory and it is not
// compressed. It is verified once per residence. The caller is inside vfs.ReadMapped and a guard.
func (r *Reader) searchMapped(l *inPlace) {
	s := &l.spot
	if s.stored != s.decoded {
		return
	}
	verified := l.t.checked.has(s.number, l.at)
	sealed := r.mapped.Mapped(int64(s.offset), s.stored+trailerSize, !verified) //nolint:gosec // in a file
	if sealed == nil {
		return
	}
	prefetch.Bytes(sealed[:min(len(sealed), ahead/2)]) // the heads
	if !verified {
		if _, err := r.openBlock(s, sealed); err != nil {
			return
		}
		l.t.checked.add(s.number, l.at)
	}
	b := parseBlock(sealed[:s.stored])
	l.e, l.v = b.get(l.key, l.newest)
	l.done = true
}

// loadPart parses part p into x, or into a new index if x is nil: from the mapped file, if the system has it in memory.
func (r *Reader) loadPart(t *top, p int, x *index) (*index, error) {
	if x == nil {
		x = new(index)
	}
	at, done := now(), false
	if r.mapped != nil && !t.oneBlock {
		err := vfs.ReadMapped(func() {
			v, ok := r.mappedPart(t, p, at)
			done = ok && t.fill(x, p, &v)
		})
		if err != nil {
			t.parts[p].verified.Store(0)
			done = false
		}
		if done {
			return x, nil
		}
	}
	buf, _ := scratches.Get().(*scratch) // the pool has no others
	defer scratches.Put(buf)
	w := &t.parts[p]
	b := buf.bytes(int(w.length) + trailerSize)
	if err := r.readAt(b, w.offset); err != nil {
		return nil, err
	}
	if t.oneBlock {
		return r.openOne(t, b)
	}
	v, err := r.openPart(t, p, b, at)
	if err != nil {
		return nil, err
	}
	if !t.fill(x, p, &v) {
		w.verified.Store(0)
		return nil, r.damaged(w.offset, errPart)
	}
	return x, nil
}
