package sstable

import (
	"encoding/binary"
	"sync"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A Hit is a version that a lookup found.
type Hit struct {
	Trailer ikey.Trailer

	value  []byte
	block  *cache.Block // of the value; nil if that is in the mapped file
	r      *Reader      // with a value in the mapped file; otherwise nil, as the next two
	number int          // of the block
	offset uint64       // of the block
}

// Held returns the value if it is in the cache, where it is valid until the caller leaves its guard, and between Hold
// and Release. Otherwise ok is false, and only AppendValue returns the value.
func (h *Hit) Held() (value []byte, ok bool) { return h.value, h.block != nil }

// AppendValue appends the value to dst. The caller is inside the guard of the lookup, or holds the hit. An error is one
// of the file, which was changed since the lookup or cannot be read any more.
func (h *Hit) AppendValue(dst []byte) ([]byte, error) {
	if h.r == nil {
		return append(dst, h.value...), nil
	}
	return h.r.appendMapped(dst, h)
}

// Hold keeps the value valid beyond the guard, until Release, if it is in the cache. The caller is inside the guard of
// the lookup, or already holds the hit. Hold allocates nothing. A block that the cache evicts meanwhile is given back
// by the last Release.
func (h *Hit) Hold() {
	if h.block != nil {
		h.block.Acquire()
	}
}

// Release ends one Hold. A Hit may be copied between the two. Nobody may use the value after the last Release.
func (h *Hit) Release() {
	if h.block != nil {
		h.block.Release()
	}
}

// Get finds the newest version of key that a reader at seq may see. It does not ask the filter, and the caller applies
// range tombstones. The caller is inside a guard of the domain. If index and block are in memory, Get allocates
// nothing.
func (r *Reader) Get(key []byte, seq ikey.Seq, st *Stats) (hit Hit, ok bool, err error) {
	t := r.top.Load()
	if t == nil {
		if t, err = r.load(st); err != nil {
			return Hit{}, false, err
		}
	}
	p, h := t.search(key)
	if p == len(t.loaded) {
		return Hit{}, false, nil
	}
	x := t.loaded[p].Load()
	if x != nil {
		x.use()
	} else if !r.admits(t, p) {
		return r.getInPlace(t, p, key, seq, st)
	} else if x, err = r.part(t, p, st); err != nil {
		return Hit{}, false, err
	}
	return r.search(x, x.findIn(h, key), key, seq, st)
}

// firstVisible returns the newest trailer that a reader at seq may see in a block.
func (r *Reader) firstVisible(seq ikey.Seq) ikey.Trailer {
	if r.seq != 0 {
		return ^ikey.Trailer(0) // all versions have sequence r.seq: find any, then hit compares r.seq with seq
	}
	return ikey.Search(nil, seq).Trailer
}

// search does the same as Get, starting at block i of x.
func (r *Reader) search(x *index, i int, key []byte, seq ikey.Seq, st *Stats) (hit Hit, ok bool, err error) {
	newest := r.firstVisible(seq)
	var b block
	some := uint64(0) // 1 if a version was found that is too new
	for ; ; i++ {
		if i == len(x.slots) { // the key is behind all blocks, or older versions of it may be in the next part
			if x, err = r.after(x, st); x == nil {
				break
			}
			i = 0
		}
		st.Blocks++
		var e entry
		var v verdict
		c := r.cache.Get(&x.slots[i])
		if c != nil {
			st.CacheHits++
		} else {
			inPlace, mapped := r.inPlace(x, i), false
			if inPlace {
				e, v, mapped = r.getMapped(x, i, key, newest, st)
			}
			if !mapped {
				if c, err = r.loadBlock(x, i, inPlace, st); err != nil {
					return Hit{}, false, err
				}
			}
		}
		if c != nil {
			b.parse(c.Meta, c.Bytes())
			e, v = b.get(key, newest)
		}
		if v == found {
			st.Present++
			if hit, ok = r.hit(&e, c, seq); ok && c == nil {
				hit.r, hit.number, hit.offset = r, x.base+i, x.handles[i].offset
			}
			return hit, ok, nil
		}
		if v != absent {
			some = 1
		}
		if v != further { // else the next block may begin with older versions
			break
		}
	}
	st.Present += some
	return Hit{}, false, err
}

// after returns the part of the index behind x, or nil.
func (r *Reader) after(x *index, st *Stats) (*index, error) {
	if x.last {
		return nil, nil
	}
	return r.part(r.top.Load(), x.part+1, st)
}

// hit returns what a reader at seq sees of entry e, which was found in c.
func (r *Reader) hit(e *entry, c *cache.Block, seq ikey.Seq) (Hit, bool) {
	if r.seq > seq {
		return Hit{}, false
	}
	return Hit{Trailer: r.override(e.trailer), value: e.value, block: c}, true
}

// override returns the trailer that callers see for trailer t in the file.
func (r *Reader) override(t ikey.Trailer) ikey.Trailer {
	if r.seq != 0 {
		return ikey.MakeTrailer(r.seq, t.Kind())
	}
	return t
}

// loadBlock puts data block i into the cache, from the mapped file if that has it, unless notMapped says that it does
// not. The caller is inside a guard.
func (r *Reader) loadBlock(x *index, i int, notMapped bool, st *Stats) (*cache.Block, error) {
	if _, stored, decoded := x.extent(i); stored == decoded && !notMapped && r.mapped != nil {
		c := r.cache.Alloc(decoded)
		c.Resize(stored + trailerSize)
		if r.copyMapped(x, i, nil, c.Bytes()) {
			st.Mapped++
			c.Resize(stored)
			c.Meta = binary.LittleEndian.Uint64(c.Bytes())
			return r.insert(x, i, c), nil
		}
		r.cache.Free(c)
	}
	s := x.spot(i)
	c, err := r.readBlock(&s, st)
	if err != nil {
		return nil, err
	}
	return r.insert(x, i, c), nil
}

// readBlock reads a data block from the file into a block of the cache that is not published.
func (r *Reader) readBlock(s *spot, st *Stats) (c *cache.Block, err error) {
	st.read(s.stored + trailerSize)
	if s.stored == s.decoded {
		c = r.cache.Alloc(s.decoded)
		c.Resize(s.stored + trailerSize)
		if err = r.readAt(c.Bytes(), s.offset); err == nil {
			_, err = r.openBlock(s, c.Bytes())
		}
		c.Resize(s.stored)
	} else {
		c, err = r.readPacked(s)
	}
	if err != nil {
		if c != nil {
			r.cache.Free(c)
		}
		return nil, err
	}
	c.Meta = binary.LittleEndian.Uint64(c.Bytes())
	return c, nil
}

// readPacked reads a data block that is compressed. With an error, the caller frees the block, if there is one.
func (r *Reader) readPacked(s *spot) (*cache.Block, error) {
	buf, _ := scratches.Get().(*scratch) // the pool has no others
	defer scratches.Put(buf)
	b := buf.bytes(s.stored + trailerSize)
	if err := r.readAt(b, s.offset); err != nil {
		return nil, err
	}
	p, err := r.unseal(s, b)
	if err != nil {
		return nil, err
	}
	c := r.cache.Alloc(s.decoded)
	return c, r.unpack(s, p, c.Bytes())
}

// insert puts data block i into the cache. If the index is in no pool any more, the block is dropped again: nothing
// would find it. The caller is inside a guard, and may use the block until it leaves that.
func (r *Reader) insert(x *index, i int, c *cache.Block) *cache.Block {
	c = r.cache.Insert(&x.slots[i], c)
	if !x.kept.Load() { // PartPool.remove clears it before the slots are dropped
		r.cache.Drop(x.slots[i : i+1])
	}
	return c
}

// A scratch holds a compressed block while it is decompressed, or a part of an index while it is searched.
type scratch struct {
	b    []byte
	keys []byte // copies of separators
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (s *scratch) bytes(n int) []byte {
	if n > keepBuffer {
		return make([]byte, n)
	}
	if cap(s.b) < n {
		s.b = make([]byte, n+n/4)
	}
	return s.b[:n]
}
