package sstable

import (
	"encoding/binary"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/step"
)

// An origin says where a block that is not in the cache comes from.
type origin struct {
	mapped bool // it is first tried in the mapped file
	cached bool // if it is not used there, it is put into the cache
}

// origin decides where data block i, which is not in the cache, comes from. If the index is in no pool, nothing would
// find the block in the cache. A block that would evict another one from the cache is put there once in a while.
func (r *Reader) origin(x *index, i int) origin {
	kept := x.kept.Load()
	return origin{
		r.mapped != nil && (!kept || !r.cache.HasRoom(int(x.handles[i].decoded)) && step.Rand(admitted) != 0),
		kept,
	}
}

// loadBlock returns data block i, which the caller may use until it leaves its guard: from the mapped file, unless that
// was tried, or from the file.
func (r *Reader) loadBlock(x *index, i int, o origin, st *Stats) (c *cache.Block, err error) {
	if offset, stored, decoded := x.extent(i); stored != decoded {
		st.read(stored + trailerSize)
		c, err = r.readPacked(x, i)
	} else {
		c = r.cache.Alloc(decoded)
		c.Resize(stored + trailerSize)
		if !o.mapped && r.mapped != nil && r.copyMapped(x, i, nil, c.Bytes()) {
			st.Mapped++
		} else {
			st.read(stored + trailerSize)
			if err = r.readAt(c.Bytes(), offset); err == nil {
				_, err = r.openBlock(x, i, c.Bytes(), nil)
			}
		}
		c.Resize(stored)
	}
	if err != nil {
		if c != nil {
			r.cache.Free(c)
		}
		return nil, err
	}
	c.Meta = binary.LittleEndian.Uint64(c.Bytes())
	if !o.cached {
		r.cache.Discard(c)
		return c, nil
	}
	c = r.cache.Insert(&x.slots[i], c)
	if !x.kept.Load() { // PartPool.remove clears it before the slots are dropped; nothing would find the block
		r.cache.Drop(x.slots[i : i+1])
	}
	return c, nil
}

// readPacked reads data block i, which is compressed. With an error, the caller frees the block, if there is one.
func (r *Reader) readPacked(x *index, i int) (c *cache.Block, err error) {
	offset, stored, _ := x.extent(i)
	buf, _ := scratches.Get().(*scratch) // the pool has no others
	defer scratches.Put(buf)
	b := buf.bytes(stored + trailerSize)
	if err := r.readAt(b, offset); err != nil {
		return nil, err
	}
	_, err = r.openBlock(x, i, b, func(n int) []byte {
		c = r.cache.Alloc(n)
		return c.Bytes()
	})
	return c, err
}
