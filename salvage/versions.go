package salvage

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/words"
)

// versions yields the versions that can be read from a damaged table, in order, with bytes that are valid until the
// next one. lose is called for each part that cannot be read, when the walk comes there.
func (r *remains) versions(lose func(Loss)) iter.Seq2[ikey.Key, []byte] {
	return func(yield func(ikey.Key, []byte) bool) {
		w, more := &walk{r: r, lose: lose, yield: yield}, true
		if r.blocks != nil {
			more = w.indexed(r.blocks, w.lowerOf(0))
		}
		for p := 0; more && r.parts != nil && p < r.parts.Len(); p++ {
			more = w.part(p)
		}
		if r.blocks == nil && r.parts == nil && r.readable() {
			end, _ := r.dataEnd()
			w.search(end, nil)
		}
	}
}

// A walk goes through the data blocks of a table. Its methods that return a bool return false if no more versions are
// wanted.
type walk struct {
	r     *remains
	lose  func(Loss)
	yield func(ikey.Key, []byte) bool

	block sstable.Block // the last one that was read
	last  ikey.Key      // the last version, by the trailers in the blocks
	spare []byte        // memory for the next key
	n     uint64        // versions read
}

// part reads the blocks of a part of the index: without the part, by their checksums.
func (w *walk) part(p int) bool {
	e, start, end := w.r.parts.Extent(p)
	w.r.at = start
	payload, err := w.r.open(e)
	if err == nil {
		var x sstable.Index
		if x, err = w.r.parts.Part(p, payload); err == nil {
			return w.indexed(&x, w.lowerOf(p))
		}
	}
	upper := w.r.parts.Upper(p)
	l := lossOf(e.Offset, e.Offset+e.Length+sstable.TrailerSize, "part of the index", w.lowerOf(p), upper, err)
	l.Harmless = true
	w.lose(l)
	return w.search(end, upper)
}

// lowerOf returns a lower bound of the keys of part p of the index, or of the table if p is 0.
func (w *walk) lowerOf(p int) []byte {
	switch {
	case p > 0:
		return w.r.parts.Upper(p - 1)
	case w.r.props != nil:
		return w.r.props.Smallest
	}
	return nil
}

// indexed reads the blocks of an index, the first of which has keys from lower on.
func (w *walk) indexed(x *sstable.Index, lower []byte) bool {
	for i := range x.Len() {
		if w.r.src.ctx.Err() != nil {
			return false
		}
		e, _, _ := x.Extent(i)
		if err := w.read(e.Offset, e.Length); err != nil {
			w.lose(lossOf(e.Offset, w.r.at, "data block", lower, x.Upper(i), err))
		} else if !w.entries() {
			return false
		}
		lower = x.Upper(i)
	}
	return true
}

// search finds blocks before end by their checksums. upper is the largest key of a part of the index.
func (w *walk) search(end uint64, upper []byte) bool {
	q := newBlockSearch(w.r.src, w.r.seal, sstable.KindData, min(end, w.r.src.size),
		func(payload []byte, c sstable.Codec) bool { return w.block.Decode(payload, c) == nil })
	for w.r.src.ctx.Err() == nil {
		before := w.r.at
		offset, stored, ok := q.next(before)
		if !ok {
			l, lost := lossOf(before, end, "data blocks", nil, upper, errNoBlock), before < end
			if w.r.parts == nil {
				l, lost = w.r.unreadBehind(before, w.n)
			}
			if l.Lower = w.lower(); lost {
				w.lose(l)
			}
			return true
		}
		if w.read(offset, uint64(stored)) != nil { //nolint:gosec // a length
			continue // the file has changed since
		}
		if offset > before {
			first, _ := w.block.Entry(0, nil)
			w.lose(lossOf(before, offset, "data blocks", w.lower(), first.User, errNoBlock))
		}
		if !w.entries() {
			return false
		}
	}
	return false
}

// lower returns a lower bound of all keys that have not been read.
func (w *walk) lower() []byte {
	if w.n > 0 || w.r.props == nil {
		return bytes.Clone(w.last.User)
	}
	return w.r.props.Smallest
}

// read reads and decodes the block at offset.
func (w *walk) read(offset, stored uint64) error {
	need := stored + sstable.TrailerSize
	w.r.at = offset + need
	if need > w.r.src.size { // longer than the file: a forged index must not cost memory
		return fmt.Errorf("%w: %d bytes, want %d", errShort, w.r.src.size, offset+need)
	}
	b := w.r.src.bytes(offset, int(need)) //nolint:gosec // at most the file's size
	payload, c, err := w.r.seal.Open(sstable.KindData, offset, b)
	if err != nil {
		return cmp.Or(w.r.src.failed, err)
	}
	return w.block.Decode(payload, c)
}

// entries yields the versions of the block that was read. If its keys are out of order, though its checksum is right,
// the rest of it is lost.
func (w *walk) entries() bool {
	for i := range w.block.Len() {
		k, value := w.block.Entry(i, w.spare[:0])
		w.spare = k.User
		if last := w.last; w.n > 0 && ikey.Compare(last, k) >= 0 {
			w.lose(lossOf(w.r.at, w.r.at, "rest of the block before", bytes.Clone(last.User), w.r.upper(),
				fmt.Errorf("%w: %s@%d after %s@%d", sstable.ErrOrder,
					words.Quoted(k.User), k.Trailer.Seq(), words.Quoted(last.User), last.Trailer.Seq())))
			break
		}
		w.spare, w.last = w.last.User, k
		w.n++
		if w.r.meta.Seq != 0 {
			k.Trailer = ikey.MakeTrailer(w.r.meta.Seq, k.Trailer.Kind())
		}
		if !w.yield(k, value) {
			return false
		}
	}
	return true
}
