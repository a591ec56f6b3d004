package sstable

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A RemainsIter is a cursor over the versions that can be read from a damaged table. It moves forward, once.
type RemainsIter struct {
	r      *Remains
	lost   []Loss       // since the last TakeLosses
	x      *index       // of the blocks that are read: all of the table, or those of a part; nil without an index
	next   int          // block of x
	search *blockSearch // without an index
	parts  int          // parts of the index before which all blocks were read, or are in x or search
	at     uint64       // where the next block begins, or was expected

	b        block
	i        int
	last     ikey.Key // the version before the current one, by the trailers in the blocks
	started  bool
	n        uint64 // versions read
	key      []byte
	trailer  ikey.Trailer
	value    []byte
	plain    []byte
	ahead    []byte
	aheadOff uint64
	failed   error // of the last read of the file
}

// Iter returns a cursor that stands before the first version.
func (r *Remains) Iter() *RemainsIter {
	it := &RemainsIter{r: r, x: r.index}
	if r.index == nil && r.top == nil && r.Readable() {
		end, _ := r.dataEnd()
		it.searchUpTo(end)
	}
	return it
}

// searchUpTo makes the cursor find blocks before end by their checksums.
func (it *RemainsIter) searchUpTo(end uint64) {
	r := it.r
	it.search = newBlockSearch(r.src, r.seal, kindData, min(end, r.src.Size()), func(payload []byte, c Codec) bool {
		_, err := it.decode(payload, c)
		return err == nil
	})
}

// nextPart goes on with the blocks of the next part of the index, if there is one.
func (it *RemainsIter) nextPart() bool {
	it.x, it.search = nil, nil
	t := it.r.top
	if t == nil || it.parts == len(t.parts) {
		return false
	}
	p := it.parts
	w := &t.parts[p]
	it.parts++
	x, err := it.r.readPart(p)
	if err != nil {
		l := Loss{
			Offset: w.offset, Bytes: uint64(w.length) + trailerSize, Part: "part of the index", Harmless: true,
			Lower: it.lowerOf(p), Upper: t.separatorKey(p), Err: err,
		}
		it.lost = append(it.lost, l)
		it.searchUpTo(w.start + w.data)
	}
	it.x, it.next, it.at = x, 0, w.start
	return true
}

// lowerOf returns a lower bound of the keys of part p.
func (it *RemainsIter) lowerOf(p int) []byte {
	switch {
	case p > 0:
		return it.r.top.separatorKey(p - 1)
	case it.r.props != nil:
		return it.r.props.Smallest
	}
	return nil
}

// Next moves to the next version, past blocks that cannot be read. TakeLosses returns what was lost on the way.
func (it *RemainsIter) Next() bool {
	for {
		for ; it.i < it.b.n; it.i++ {
			e := it.b.entry(it.i)
			it.key = it.b.appendKey(it.key[:0], it.i, &e)
			k := ikey.Key{User: it.key, Trailer: e.trailer}
			if it.started && ikey.Compare(it.last, k) >= 0 {
				it.refuse(k)
				break
			}
			it.started = true
			it.n++
			it.last = ikey.Key{User: append(it.last.User[:0], k.User...), Trailer: k.Trailer}
			it.trailer, it.value = e.trailer, e.value
			if it.r.meta.Seq != 0 {
				it.trailer = ikey.MakeTrailer(it.r.meta.Seq, e.trailer.Kind())
			}
			it.i++
			return true
		}
		if !it.load() {
			it.b = block{}
			return false
		}
	}
}

// TakeLosses returns the losses that the cursor has come to since the last call, valid until Next.
func (it *RemainsIter) TakeLosses() []Loss {
	lost := it.lost
	it.lost = it.lost[:0]
	return lost
}

// Key returns the current version, valid until Next.
func (it *RemainsIter) Key() ikey.Key { return ikey.Key{User: it.key, Trailer: it.trailer} }

// Value returns its value, valid until Next.
func (it *RemainsIter) Value() []byte { return it.value }

// Last returns the largest user key so far, also at the end.
func (it *RemainsIter) Last() []byte { return it.last.User }

// Offset returns the cursor's position in the file, in bytes.
func (it *RemainsIter) Offset() uint64 { return it.at }

// refuse reports the rest of a block as lost, since its keys are out of order though its checksum is right.
func (it *RemainsIter) refuse(k ikey.Key) {
	it.lost = append(it.lost, Loss{
		Offset: it.at, Part: "rest of the block before", Lower: bytes.Clone(it.last.User), Upper: it.r.upper(),
		Err: outOfOrder(it.last, k),
	})
}

// load makes the next readable block the current one.
func (it *RemainsIter) load() bool {
	for it.r.src.Err() == nil {
		data, more := it.block()
		if data != nil {
			it.b, it.i = parseBlock(data), 0
			return true
		}
		if !more {
			return false
		}
	}
	return false
}

// block returns the next block, nil if it cannot be read, and whether there may be others after it.
func (it *RemainsIter) block() (data []byte, more bool) {
	switch x := it.x; {
	case x != nil:
		if it.next == x.blocks() {
			return nil, it.nextPart()
		}
		i := it.next
		it.next++
		offset, stored, _ := x.extent(i)
		data, err := it.read(offset, stored)
		if err != nil {
			l := Loss{Offset: offset, Bytes: it.at - offset, Part: "data block", Upper: x.separatorKey(i), Err: err}
			if i > 0 {
				l.Lower = x.separatorKey(i - 1)
			} else {
				l.Lower = it.lowerOf(it.parts - 1)
			}
			it.lost = append(it.lost, l)
		}
		return data, true
	case it.search == nil:
		return nil, it.nextPart()
	}
	offset, stored, ok := it.search.next(it.at)
	if !ok {
		if l, lost := it.unread(); lost {
			l.Lower = it.lower()
			it.lost = append(it.lost, l)
		}
		return nil, it.nextPart()
	}
	before := it.at
	data, err := it.read(offset, stored)
	if err != nil { // the file has changed since
		return nil, true
	}
	if offset > before {
		b := parseBlock(data)
		e := b.entry(0)
		it.lost = append(it.lost, Loss{
			Offset: before, Bytes: offset - before, Part: "data blocks",
			Lower: it.lower(), Upper: b.appendKey(nil, 0, &e), Err: errNoBlock,
		})
	}
	return data, true
}

// unread returns the loss, if any, behind the last block that a search has found.
func (it *RemainsIter) unread() (Loss, bool) {
	t := it.r.top
	if t == nil {
		return it.r.unreadBehind(it.at, it.n)
	}
	w := &t.parts[it.parts-1]
	end := w.start + w.data
	return Loss{
		Offset: it.at, Bytes: end - min(it.at, end), Part: "data blocks",
		Upper: t.separatorKey(it.parts - 1), Err: errNoBlock,
	}, it.at < end
}

// lower returns a lower bound of all keys after the cursor.
func (it *RemainsIter) lower() []byte {
	if it.started || it.r.props == nil {
		return bytes.Clone(it.last.User)
	}
	return it.r.props.Smallest
}

// read reads the block at offset and returns it decoded.
func (it *RemainsIter) read(offset uint64, stored int) ([]byte, error) {
	need := uint64(stored + trailerSize) //nolint:gosec // a length
	it.at = offset + need
	if offset < it.aheadOff || offset+need > it.aheadOff+uint64(len(it.ahead)) {
		n := max(need, min(defaultReadAhead, it.r.src.Size()-min(it.r.src.Size(), offset)))
		if n > it.r.src.Size() { // longer than the file: a forged index must not cost memory
			return nil, fmt.Errorf("%w: %d bytes, want %d", errShort, it.r.src.Size(), offset+need)
		}
		it.ahead = slices.Grow(it.ahead[:0], int(n))[:n] //nolint:gosec // at most the file's size, or defaultReadAhead
		it.failed, it.aheadOff = it.r.src.Read(it.ahead, offset), offset
	}
	sealed := it.ahead[offset-it.aheadOff:][:need]
	payload, c, err := it.r.seal.open(kindData, offset, sealed)
	if err != nil {
		return nil, cmp.Or(it.failed, err)
	}
	return it.decode(payload, c)
}

// decode decompresses and checks a payload. The result is in the cursor's memory, or is the payload itself.
func (it *RemainsIter) decode(payload []byte, c Codec) ([]byte, error) {
	n, err := decodedLen(payload, c)
	if err != nil {
		return nil, err
	}
	data := payload
	if c != None {
		if most := min(uint64(len(payload))*maxRatio, maxCoded); n > most { // before memory is taken for it
			return nil, fmt.Errorf("%w: %d, want at most %d", errDecoded, n, most)
		}
		it.plain = slices.Grow(it.plain[:0], int(n))[:n] //nolint:gosec // at most maxCoded
		if err := decompress(it.plain, payload, c); err != nil {
			return nil, err
		}
		data = it.plain
	}
	if err := checkBlock(data, seqSpan{0, ikey.MaxSeq}); err != nil {
		return nil, err
	}
	return data, nil
}
