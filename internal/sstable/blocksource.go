package sstable

import (
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/prefetch"
)

// readAhead is the number of bytes that a cursor reads from the file at once, where it reads one block after the other.
const readAhead = 256 << 10

// keepCursor is the largest buffer, in bytes, that Trim leaves.
const keepCursor = readAhead

// A blockSource gets the data blocks of a table for a cursor. Its memory has one block at a time.
type blockSource struct {
	r      *Reader
	bypass bool
	stats  Stats

	t   *top
	x   *index // the part of the index that has the current block; nil before it was used
	own *index // a part in the source's own memory, or nil

	buf      []byte    // bytes of the file
	bufOff   uint64    // where they begin
	plain    []byte    // a block in the source's own memory
	spare    []byte    // for the next one, while that one is shown
	resident residence // what the system had in memory
}

// A window is a data block as far as a cursor has it.
type window struct {
	b        block
	lo, hi   int            // entries [lo, hi) of b are in memory: all, or a part of a mapped block
	found    int            // in a part for a key: the first entry at or after that
	held     *cache.Block   // nil if the block is in the source's own memory
	prefetch prefetch.Steps // what the cursor is likely to need next; each move takes a step
}

// whole reports whether the window has all entries of its block.
func (w *window) whole() bool { return w.hi-w.lo == w.b.n }

// search returns the first entry at or after (user, t). If only a part of the block is there, entries outside of it
// cannot be compared with user, so it looks at heads alone, as block.seekHead does.
func (w *window) search(user []byte, t ikey.Trailer, beyond uint64) int {
	if w.whole() {
		return w.b.seek(user, t, 0, 0)
	}
	return w.b.seekHead(user, beyond)
}

// show makes all of block b visible, which is in the source's own memory.
func (w *window) show(b block) { w.b, w.lo, w.hi = b, 0, b.n }

// close leaves the table. The buffers stay.
func (s *blockSource) close() {
	s.r, s.t, s.x = nil, nil, nil
	if s.own != nil {
		s.own = s.own.emptied()
	}
	s.buf, s.bufOff = s.buf[:0], 0
}

// local returns the number of data block at in x.
func (s *blockSource) local(at int) int { return at - s.x.base }

// enterPart makes part p of the index the current one.
func (s *blockSource) enterPart(p int) (err error) {
	if x := s.x; x != nil && x.part == p && (x == s.own || x.kept.Load()) {
		x.use()
		return nil
	}
	x := s.t.loaded[p].Load()
	switch {
	case x != nil && s.bypass:
	case x != nil:
		x.use()
	case s.bypass || !s.r.admits(s.t, p):
		s.stats.IndexParts++
		if x, err = s.r.loadPart(s.t, p, s.own); err == nil {
			s.own = x
		}
	default:
		x, err = s.r.part(s.t, p, &s.stats)
	}
	if err != nil {
		x = nil // it may be the source's own
	}
	s.x = x
	return err
}

// reach makes the part that has data block at the current one. The block is in the current part or next to it, or the
// first or the last of the table.
func (s *blockSource) reach(at int) error {
	switch x := s.x; {
	case x != nil && at >= x.base && at < x.base+len(x.slots):
		return nil
	case at == 0:
		return s.enterPart(0)
	case at == s.t.blocks-1:
		return s.enterPart(len(s.t.parts) - 1)
	case at < x.base:
		return s.enterPart(x.part - 1)
	default:
		return s.enterPart(x.part + 1)
	}
}

// find returns the first data block whose separator is not before key, or their number, and makes its part the current
// one.
func (s *blockSource) find(key []byte) (at int, err error) {
	p, h := s.t.search(key)
	if p == len(s.t.loaded) {
		return s.t.blocks, nil
	}
	if err := s.enterPart(p); err != nil {
		return 0, err
	}
	return s.x.base + s.x.findIn(h, key), nil
}

// block gets data block at, or part p of it at least. before is the block that the cursor comes from, or -1.
func (s *blockSource) block(w *window, at, before int, p part) error {
	if err := s.reach(at); err != nil {
		return err
	}
	s.stats.Blocks++
	if !s.bypass {
		if ok, err := s.fromMemory(w, at, before, p); ok || err != nil {
			return err
		}
	}
	data, err := s.fromFile(at, s.bypass || at == before+1 && before >= 0)
	if err == nil {
		w.show(parseBlock(data))
	}
	return err
}

// fromMemory gets a block from the cache, where it is put if it is not there, or part p of it from the mapped file. It
// returns false if the block must be read into the source's own memory.
func (s *blockSource) fromMemory(w *window, at, before int, p part) (ok bool, err error) {
	g := s.r.domain.Enter()
	defer g.Leave()
	i := s.local(at)
	c := s.r.cache.Get(&s.x.slots[i])
	if c != nil {
		s.stats.CacheHits++
		switch p.from {
		case fromKey:
			s.x.touch(i + 1)
		case beforeKey:
			s.x.touch(i - 1)
		default: // Iter.expect does it
		}
	} else {
		o := s.r.origin(s.x, i)
		if o.mapped && s.fromMapped(w, at, before, p) {
			return true, nil
		}
		if !o.cached {
			return false, nil
		}
		if c, err = s.r.loadBlock(s.x, i, o, &s.stats); err != nil {
			return false, err
		}
	}
	c.Acquire()
	w.held = c
	w.b.parse(c.Meta, c.Bytes())
	w.lo, w.hi = 0, w.b.n
	return true, nil
}

// fromFile reads a block into the source's memory, and those after it, if it is one of a sequence.
func (s *blockSource) fromFile(at int, sequence bool) ([]byte, error) {
	i := s.local(at)
	sealed, err := s.sealed(i, sequence)
	if err != nil {
		return nil, err
	}
	return s.r.openBlock(s.x, i, sealed, func(n int) []byte {
		if cap(s.plain) < n {
			s.plain = make([]byte, n)
		}
		return s.plain[:n]
	})
}

// sealed reads block i of the current part with its trailer, as fromFile does, and checks nothing. What it has read of
// the block before, it keeps.
func (s *blockSource) sealed(i int, sequence bool) ([]byte, error) {
	offset, stored, _ := s.x.extent(i)
	need := uint64(stored + trailerSize) //nolint:gosec // a size
	if offset < s.bufOff || offset+need > s.bufOff+uint64(len(s.buf)) {
		n := need
		if sequence {
			n = min(max(need, readAhead), s.t.end-offset)
		}
		var begun []byte
		if offset >= s.bufOff && offset < s.bufOff+uint64(len(s.buf)) {
			begun = s.buf[offset-s.bufOff:]
		}
		if uint64(cap(s.buf)) < n {
			s.buf = make([]byte, n)
		}
		s.buf, s.bufOff = s.buf[:n], offset
		rest := s.buf[copy(s.buf, begun):]
		s.stats.read(len(rest))
		if err := s.r.readAt(rest, offset+n-uint64(len(rest))); err != nil {
			s.buf = s.buf[:0]
			return nil, err
		}
	}
	return s.buf[offset-s.bufOff:][:need], nil
}

// Copying a block that is in no cache of the processor takes a microsecond, as much as the rest of a seek. So where a
// cursor begins to read in a mapped block, it copies only what it is likely to need, and the whole block once it moves
// on.

// A part says which entries of a block a cursor needs at first: those from the given one on, or up to it.
type part struct {
	from where
	key  ikey.Key // for fromKey and beforeKey
}

type where uint8

const (
	all where = iota
	fromStart
	beforeEnd
	fromKey
	beforeKey
)

// partBytes is the number of bytes of entries that a part has, about, if the block has as many.
const partBytes = 3 << 9

// copied returns the entries [lo, hi) that are in part p of the block, at least one; p is not all. found is the first
// entry at or after the part's key, if it has one.
func (b *block) copied(p part) (lo, hi, found int) {
	switch p.from {
	case fromStart:
		return 0, b.away(0, 1), 0
	case beforeEnd:
		return b.away(b.n, -1), b.n, 0
	case fromKey:
		found = b.seek(p.key.User, p.key.Trailer, 0, prefetched)
		return min(found, b.n-1), b.away(found, 1), found
	default: // beforeKey
		found = b.seek(p.key.User, p.key.Trailer, prefetched, 1)
		return b.away(found, -1), max(found, 1), found
	}
}

// away returns where the entries from i on end, or with a step of -1 those before i begin, that are partBytes long
// together, or as many as there are.
func (b *block) away(i, step int) (to int) {
	if b.stride != 0 {
		return min(max(i+step*(1+partBytes/b.stride), 0), b.n)
	}
	for to = i; to+step >= 0 && to+step <= b.n && step*(b.offset(to)-b.offset(i)) < partBytes; {
		to += step
	}
	return to
}

// fromMapped copies data block at, or part p of it, from the mapped file into the source's own memory. It returns false
// if the block must be read. The caller is inside a guard.
func (s *blockSource) fromMapped(w *window, at, before int, p part) (ok bool) {
	i := s.local(at)
	_, stored, decoded := s.x.extent(i)
	if stored != decoded {
		return false
	}
	if cap(s.plain) < stored+trailerSize {
		s.plain = make([]byte, stored+trailerSize)
	}
	own := s.plain[:stored]
	if p.from != all {
		ok = s.r.useMapped(s.x, i, func(data []byte) bool {
			b := parseBlock(data)
			lo, hi, found := b.copied(p)
			copy(own, data[:b.entries])
			copied, err := checkHeader(own)
			if err != nil || copied.n != b.n || !copied.copyEntries(data, lo, hi, s.x.seqs) {
				return false
			}
			w.b, w.lo, w.hi, w.found = copied, lo, hi, found
			if p.from == fromKey || p.from == fromStart {
				w.prefetch = prefetch.InSteps(data[b.entries+b.offset(hi):], hi-lo)
			}
			return true
		})
	} else {
		var in *residence
		if before >= 0 && at == before+1 {
			in = &s.resident
		}
		if ok = s.r.copyMapped(s.x, i, in, own[:stored+trailerSize]); ok {
			w.show(parseBlock(own))
		}
	}
	if ok {
		s.stats.Mapped++
	}
	return ok
}

// copyEntries copies the entries [lo, hi) of data, the mapped block of which b is a copy, and checks them.
func (b *block) copyEntries(data []byte, lo, hi int, s seqSpan) bool {
	from, to := b.entries+b.offset(lo), b.entries+b.offset(hi)
	copy(b.data[from:to], data[from:to])
	return b.fits(lo, hi, s)
}

// widen adds all entries behind those of a window that has a part of data block at, or all before them. It returns
// false if the block must be read.
func (s *blockSource) widen(w *window, at int, back bool) bool {
	lo, hi := w.hi, w.b.n
	if back {
		lo, hi = 0, w.lo
	}
	g := s.r.domain.Enter()
	defer g.Leave()
	if !s.r.useMapped(s.x, s.local(at), func(data []byte) bool { return w.b.copyEntries(data, lo, hi, s.x.seqs) }) {
		return false
	}
	w.lo, w.hi = min(w.lo, lo), max(w.hi, hi)
	return true
}
