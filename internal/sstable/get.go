package sstable

import (
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

// Bytes returns the number of bytes of the value.
func (h *Hit) Bytes() int { return len(h.value) }

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
		if i == len(x.slots) { // older versions of the key may be in the next block
			if x, i, err = r.after(x, st); x == nil {
				break
			}
		}
		st.Blocks++
		var e entry
		var v verdict
		c := r.cache.Get(&x.slots[i])
		if c != nil {
			st.CacheHits++
		} else {
			o, done := r.origin(x, i), false
			if o.mapped {
				e, v, done = r.getMapped(x, i, key, newest, st)
			}
			if !done {
				if c, err = r.loadBlock(x, i, o, st); err != nil {
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

// after returns the part of the index that has the block behind those of x, and the block's number in it, or nil.
func (r *Reader) after(x *index, st *Stats) (next *index, i int, err error) {
	if x.last {
		return nil, 0, nil
	}
	t, p, number := r.top.Load(), x.part, x.base+len(x.slots)
	if p+1 < len(t.parts) && number == t.parts[p+1].base {
		p++
	}
	if next, err = r.part(t, p, st); err != nil {
		return nil, 0, err
	}
	return next, number - next.base, nil
}

// getInPlace does the same as Get in part p, which is not in memory, and does not keep it.
func (r *Reader) getInPlace(t *top, p int, key []byte, seq ikey.Seq, st *Stats) (hit Hit, ok bool, err error) {
	x, _ := oneBlocks.Get().(*index) // the pool has no others
	st.IndexParts++
	if err = r.usePart(t, p, func(v partView) bool { return t.fillOne(x, p, &v, key) }); err == nil {
		hit, ok, err = r.search(x, 0, key, seq, st)
	}
	if x = x.emptied(); x != nil {
		oneBlocks.Put(x)
	}
	return hit, ok, err
}

// oneBlocks has indexes of one block each.
var oneBlocks = sync.Pool{New: func() any { return new(index) }}

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
