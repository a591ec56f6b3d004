package sstable

import (
	"encoding/binary"
	"sync"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A Hit is a version that a lookup found.
type Hit struct {
	Value   []byte // of the block; valid until the lookup's caller leaves its guard, or from Hold to Release
	Trailer ikey.Trailer

	block *cache.Block
}

// Hold keeps Value as it is beyond the guard, until Release. The caller is inside the guard of the lookup, or holds the
// hit already. It allocates nothing: a block that is held when its memory is wanted is left to the collector.
func (h *Hit) Hold() {
	if h.block != nil {
		h.block.Acquire()
	}
}

// Release ends one Hold. A Hit may be copied between the two.
func (h *Hit) Release() {
	if h.block != nil {
		h.block.Release()
	}
}

// Get finds the newest version of key that a reader at seq may see; it does not ask the filter, and range deletes are
// the caller's to apply. The caller is inside a guard of the domain. A lookup whose block is cached allocates nothing.
func (r *Reader) Get(key []byte, seq ikey.Seq, st *Stats) (hit Hit, ok bool, err error) {
	x := r.index.Load()
	if x == nil {
		if x, err = r.loadIndex(st); err != nil {
			return Hit{}, false, err
		}
	}
	return r.search(x, x.find(key), key, seq, st)
}

// place is where a block is searched for what a reader at seq may see.
func (r *Reader) place(seq ikey.Seq) ikey.Trailer {
	if r.seq != 0 {
		return ^ikey.Trailer(0) // every version is equally new: see one, then see whether the reader may
	}
	return ikey.Search(nil, seq).Trailer
}

// search is Get from block i on.
func (r *Reader) search(x *index, i int, key []byte, seq ikey.Seq, st *Stats) (hit Hit, ok bool, err error) {
	place := r.place(seq)
	var b block
	some := uint64(0) // 1 if a version was seen, though too new
	for ; i < len(x.slots); i++ {
		st.Blocks++
		c := r.cache.Get(&x.slots[i])
		if c == nil {
			if c, err = r.loadBlock(x, i, st); err != nil {
				return Hit{}, false, err
			}
		} else {
			st.CacheHits++
		}
		b.parse(c.Meta, c.Bytes())
		e, v := b.get(key, place)
		if v == found {
			st.Present++
			hit, ok = r.hit(&e, c, seq)
			return hit, ok, nil
		}
		if v != absent {
			some = 1
		}
		if v != further { // else older versions may begin the next block
			break
		}
	}
	st.Present += some
	return Hit{}, false, nil
}

// hit is what a reader at seq sees of an entry that was found in c.
func (r *Reader) hit(e *entry, c *cache.Block, seq ikey.Seq) (Hit, bool) {
	if r.seq > seq {
		return Hit{}, false
	}
	return Hit{e.value, r.override(e.trailer), c}, true
}

// override is the trailer that a version has to the caller.
func (r *Reader) override(t ikey.Trailer) ikey.Trailer {
	if r.seq != 0 {
		return ikey.MakeTrailer(r.seq, t.Kind())
	}
	return t
}

// loadBlock reads data block i into the cache. The caller is inside a guard.
func (r *Reader) loadBlock(x *index, i int, st *Stats) (*cache.Block, error) {
	offset, stored, decoded := x.extent(i)
	st.FileReads++
	st.FileBytes += uint64(stored + trailerSize) //nolint:gosec // a size
	var c *cache.Block
	var err error
	if stored == decoded {
		c = r.cache.Alloc(decoded)
		c.Resize(stored + trailerSize)
		if err = r.readAt(c.Bytes(), offset); err == nil {
			_, err = r.openBlock(x, i, c.Bytes())
		}
		c.Resize(decoded)
	} else {
		s, _ := scratches.Get().(*scratch) // the pool has no others
		b := s.bytes(stored + trailerSize)
		if err = r.readAt(b, offset); err == nil {
			var p packed
			if p, err = r.unseal(x, i, b); err == nil {
				c = r.cache.Alloc(decoded)
				err = r.unpack(x, i, p, c.Bytes())
			}
		}
		scratches.Put(s)
	}
	if err != nil {
		if c != nil {
			r.cache.Free(c)
		}
		return nil, err
	}
	c.Meta = binary.LittleEndian.Uint64(c.Bytes())
	return r.cache.Insert(&x.slots[i], c), nil
}

// A scratch holds a compressed block while it is decoded.
type scratch struct{ b []byte }

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
