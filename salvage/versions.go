package salvage

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/words"
)

// Versions are a cursor over the versions that can be read from a damaged table. It moves forward, once.
type versions struct {
	r      *remains
	lost   []Loss         // since the last takeLosses
	x      *sstable.Index // of the blocks that are read: all of the table, or those of a part; nil without an index
	next   int            // block of x
	search *blockSearch   // without an index
	parts  int            // parts of the index before which all blocks were read, or are in x or search
	end    uint64         // of the data blocks of the last of these parts
	at     uint64         // where the next block begins, or was expected

	b       sstable.Block
	i       int      // entry of b
	last    ikey.Key // the current version, by the trailers in the blocks
	value   []byte
	spare   []byte // memory for the next key
	started bool
	n       uint64 // versions read
}

// versions returns a cursor that stands before the first version.
func (r *remains) versions() *versions {
	it := &versions{r: r, x: r.blocks}
	if r.blocks == nil && r.parts == nil && r.readable() {
		end, _ := r.dataEnd()
		it.searchUpTo(end)
	}
	return it
}

// searchUpTo makes the cursor find blocks before end by their checksums.
func (it *versions) searchUpTo(end uint64) {
	r := it.r
	it.search = newBlockSearch(r.src, r.seal, sstable.KindData, min(end, r.src.size),
		func(payload []byte, c sstable.Codec) bool { return it.b.Decode(payload, c) == nil })
}

// nextPart goes on with the blocks of the next part of the index, if there is one.
func (it *versions) nextPart() bool {
	it.x, it.search = nil, nil
	t := it.r.parts
	if t == nil || it.parts == t.Len() {
		return false
	}
	p := it.parts
	it.parts++
	e, start, end := t.Extent(p)
	it.next, it.at, it.end = 0, start, end
	payload, err := it.r.open(e)
	if err == nil {
		var x sstable.Index
		if x, err = t.Part(p, payload); err == nil {
			it.x = &x
			return true
		}
	}
	l := lossOf(e.Offset, e.Offset+e.Length+sstable.TrailerSize, "part of the index", it.lowerOf(p), t.Upper(p), err)
	l.Harmless = true
	it.lost = append(it.lost, l)
	it.searchUpTo(end)
	return true
}

// lowerOf returns a lower bound of the keys of part p.
func (it *versions) lowerOf(p int) []byte {
	switch {
	case p > 0:
		return it.r.parts.Upper(p - 1)
	case it.r.props != nil:
		return it.r.props.Smallest
	}
	return nil
}

// Next moves to the next version, past blocks that cannot be read. takeLosses returns what was lost on the way.
func (it *versions) Next() bool {
	for {
		if it.i < it.b.Len() {
			k, value := it.b.Entry(it.i, it.spare[:0])
			it.spare = k.User
			if !it.started || ikey.Compare(it.last, k) < 0 {
				it.spare, it.last, it.value = it.last.User, k, value
				it.started = true
				it.i++
				it.n++
				return true
			}
			it.refuse(k)
		}
		if !it.load() {
			it.b = sstable.Block{}
			return false
		}
	}
}

// takeLosses returns the losses that the cursor has come to since the last call, valid until Next.
func (it *versions) takeLosses() []Loss {
	lost := it.lost
	it.lost = it.lost[:0]
	return lost
}

// Key returns the current version, valid until Next. At the end it is the last one.
func (it *versions) Key() ikey.Key {
	k := it.last
	if it.r.meta.Seq != 0 {
		k.Trailer = ikey.MakeTrailer(it.r.meta.Seq, k.Trailer.Kind())
	}
	return k
}

// refuse reports the rest of a block as lost, since its keys are out of order though its checksum is right.
func (it *versions) refuse(k ikey.Key) {
	last := it.last
	it.lost = append(it.lost, lossOf(it.at, it.at, "rest of the block before", bytes.Clone(last.User), it.r.upper(),
		fmt.Errorf("%w: %s@%d after %s@%d", sstable.ErrOrder,
			words.Quoted(k.User), k.Trailer.Seq(), words.Quoted(last.User), last.Trailer.Seq())))
}

// load makes the next readable block the current one.
func (it *versions) load() bool {
	for it.r.src.ctx.Err() == nil {
		read, more := it.block()
		if read || !more {
			it.i = 0
			return read
		}
	}
	return false
}

// block decodes the next block. It returns whether that can be read, and whether there may be others after it.
func (it *versions) block() (read, more bool) {
	switch x := it.x; {
	case x != nil:
		if it.next == x.Len() {
			return false, it.nextPart()
		}
		i := it.next
		it.next++
		e, _, _ := x.Extent(i)
		err := it.read(e.Offset, e.Length)
		if err != nil {
			l := lossOf(e.Offset, it.at, "data block", nil, x.Upper(i), err)
			if i > 0 {
				l.Lower = x.Upper(i - 1)
			} else {
				l.Lower = it.lowerOf(it.parts - 1)
			}
			it.lost = append(it.lost, l)
		}
		return err == nil, true
	case it.search == nil:
		return false, it.nextPart()
	}
	offset, stored, ok := it.search.next(it.at)
	if !ok {
		if l, lost := it.unread(); lost {
			l.Lower = it.lower()
			it.lost = append(it.lost, l)
		}
		return false, it.nextPart()
	}
	before := it.at
	if it.read(offset, uint64(stored)) != nil { //nolint:gosec // a length
		return false, true // the file has changed since
	}
	if offset > before {
		first, _ := it.b.Entry(0, nil)
		it.lost = append(it.lost, lossOf(before, offset, "data blocks", it.lower(), first.User, errNoBlock))
	}
	return true, true
}

// unread returns the loss, if any, behind the last block that a search has found.
func (it *versions) unread() (Loss, bool) {
	if it.r.parts == nil {
		return it.r.unreadBehind(it.at, it.n)
	}
	return lossOf(it.at, it.end, "data blocks", nil, it.r.parts.Upper(it.parts-1), errNoBlock), it.at < it.end
}

// lower returns a lower bound of all keys after the cursor.
func (it *versions) lower() []byte {
	if it.started || it.r.props == nil {
		return bytes.Clone(it.last.User)
	}
	return it.r.props.Smallest
}

// read reads and decodes the block at offset.
func (it *versions) read(offset, stored uint64) error {
	need, src := stored+sstable.TrailerSize, it.r.src
	it.at = offset + need
	if need > src.size { // longer than the file: a forged index must not cost memory
		return fmt.Errorf("%w: %d bytes, want %d", errShort, src.size, offset+need)
	}
	b := src.bytes(offset, int(need)) //nolint:gosec // at most the file's size
	payload, c, err := it.r.seal.Open(sstable.KindData, offset, b)
	if err != nil {
		return cmp.Or(src.failed, err)
	}
	return it.b.Decode(payload, c)
}
