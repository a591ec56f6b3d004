package sstable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A top is the top of an index in memory. Its separators are the last ones of the parts. An index in one block has that
// block as its only part, or no part if the table has no data block.
type top struct {
	separators
	loaded []atomic.Pointer[index] // the parts in memory, nil if they are not

	parts    []partRef
	oneBlock bool      // the index is in one block
	blocks   int       // data blocks
	end      uint64    // of the data blocks
	checked  checklist // of the data blocks

	// From the properties.
	first []byte  // the smallest key
	seqs  seqSpan // sequence numbers
}

// A partRef locates a part.
type partRef struct {
	topPart

	offset   uint64        // of the payload
	start    uint64        // offset of its first data block
	base     int           // number of its first data block
	verified atomic.Uint32 // moment when it was verified in the mapped file, or in a buffer; 0 for never
}

// parseTop parses and checks a top. The parts must end at most slack bytes before limit. It keeps no reference to b,
// and allocates at most five times its length, and two bits for each block (I30).
func parseTop(b []byte, limit, slack uint64) (*top, error) {
	if len(b) < topHeader {
		return nil, fmt.Errorf("top of %d bytes, want at least %d", len(b), topHeader)
	}
	count, prefix := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
	if rest := uint64(len(b)) - topHeader; count < 2 || prefix > maxKey || prefix+count*topEntry > rest {
		return nil, fmt.Errorf("top: %d parts and a prefix of %d do not fit %d bytes", count, prefix, len(b))
	}
	fixed, seps := b[topHeader+prefix:], b[topHeader+prefix+count*topEntry:]
	n := int(count) //nolint:gosec // below len(b)
	t := &top{
		separators: separators{
			heads: make([]uint64, 0, n), prefix: bytes.Clone(b[topHeader : topHeader+prefix]),
			ends: make([]uint32, 0, n), seps: make([]byte, 0, len(seps)),
		},
		loaded: make([]atomic.Pointer[index], n),
		parts:  make([]partRef, n),
	}
	for i := range n {
		e := fixed[i*topEntry:]
		w := topPart{
			length: binary.LittleEndian.Uint32(e), blocks: binary.LittleEndian.Uint32(e[4:]),
			data: binary.LittleEndian.Uint64(e[8:]), sep: binary.LittleEndian.Uint32(e[16:]),
		}
		if least := partHeader + uint64(w.blocks)*partEntry; w.blocks == 0 || w.blocks > maxPartBlocks ||
			w.length > maxPart || uint64(w.length) < least || w.data > limit ||
			w.data < uint64(w.blocks)*(1+trailerSize) {
			return nil, fmt.Errorf("top: part %d of %d bytes for %d blocks of %d", i, w.length, w.blocks, w.data)
		}
		if uint64(w.sep) > maxKey-prefix || uint64(w.sep) > uint64(len(seps)) {
			return nil, fmt.Errorf("top: separator %d of %d bytes", i, prefix+uint64(w.sep))
		}
		t.push(nil, seps[:w.sep])
		seps = seps[w.sep:]
		if i > 0 && bytes.Compare(t.sep(i-1), t.sep(i)) > 0 {
			return nil, fmt.Errorf("top: separator %d out of order", i)
		}
		ref := &t.parts[i]
		ref.topPart, ref.start, ref.base = w, t.end, t.blocks
		t.blocks += int(w.blocks)
		if t.end += w.data; t.end > limit { // so that no sum wraps
			return nil, fmt.Errorf("top: data blocks end at %d, want at most %d", t.end, limit)
		}
	}
	if len(seps) > 0 {
		return nil, errors.New("top: bytes after the last separator")
	}
	t.checked = makeChecklist(t.blocks)
	end := t.end
	for i := range t.parts {
		t.parts[i].offset = end
		end += uint64(t.parts[i].length) + trailerSize
	}
	if err := checkEnd(end, limit, slack); err != nil {
		return nil, fmt.Errorf("top: parts %w", err)
	}
	return t, nil
}

// topOfOne returns the top of an index in one block, which is x and has a payload of the given length at offset.
func topOfOne(x *index, offset, length uint64) *top {
	t := &top{oneBlock: true, blocks: x.blocks(), end: x.end, checked: makeChecklist(x.blocks())}
	if t.blocks > 0 {
		t.prefix = x.prefix
		t.push(nil, x.sep(t.blocks-1))
		t.loaded = make([]atomic.Pointer[index], 1)
		one := topPart{length: uint32(length), blocks: uint32(t.blocks), data: x.end} //nolint:gosec // at most maxTail
		t.parts = []partRef{{topPart: one, offset: offset}}
	}
	return t
}

// parseOne parses the payload of an index in one block again.
func (t *top) parseOne(payload []byte) (*index, error) {
	x, err := parseIndex(payload, t.end, 0)
	if err == nil && (x.blocks() != t.blocks || t.compareSep(0, x.separatorKey(t.blocks-1)) != 0) {
		err = errPart
	}
	if err != nil {
		return nil, err
	}
	x.prefix, x.first, x.seqs, x.checked = t.prefix, t.first, t.seqs, t.checked
	return x, nil
}

// search returns the first part whose last separator is not before key, or the number of parts. h is what findIn needs
// to go on in the part.
func (t *top) search(key []byte) (p int, h searchHead) {
	p, n := t.span(key)
	if n == 0 {
		return p, searchHead{}
	}
	h = searchHead{ikey.HeadFrom(key, len(t.prefix)), true}
	return t.findHead(h.head, key), h
}

// A searchHead is the head of a key after the prefix of the table, if it has that.
type searchHead struct {
	head uint64
	is   bool
}

// findIn does the same as find in the part that top.search has found for key.
func (x *index) findIn(h searchHead, key []byte) int {
	if !h.is {
		return 0 // key is before the prefix
	}
	return x.findHead(h.head, key)
}

// bytes returns the bytes of memory that the top takes, without the parts.
func (t *top) bytes() int64 {
	return int64(unsafe.Sizeof(*t)) + t.separators.bytes() + int64(len(t.prefix)) +
		int64(len(t.parts))*int64(unsafe.Sizeof(partRef{})+8) + t.checked.bytes()
}

// partsEnd returns where the parts end.
func (t *top) partsEnd() uint64 {
	last := &t.parts[len(t.parts)-1]
	return last.offset + uint64(last.length) + trailerSize
}

// checkPart checks the payload of part p.
func (t *top) checkPart(p int, payload []byte) (partView, error) {
	v, err := viewPart(payload)
	if err != nil {
		return v, err
	}
	var lower []byte
	if p > 0 {
		lower = t.separatorKey(p - 1)
	}
	return v, v.check(&t.parts[p].topPart, t.prefix, lower, t.separatorKey(p))
}

// parsePart parses and checks the payload of part p.
func (t *top) parsePart(p int, payload []byte) (*index, error) {
	v, err := t.checkPart(p, payload)
	if err != nil {
		return nil, err
	}
	x := new(index)
	t.fill(x, p, &v)
	return x, nil
}

// fill makes x part p of the index. It checks the view again, except the order of its separators, since the view may be
// one of a mapped file that was checked before: it returns false if something is wrong.
func (t *top) fill(x *index, p int, v *partView) bool {
	w, n, more := &t.parts[p], v.blocks(), len(v.prefix)-len(t.prefix)
	if n != int(w.blocks) || more < 0 || n*more+len(v.seps) > maxPart {
		return false
	}
	x.reset(n, t.prefix, n*more+len(v.seps))
	x.part, x.base, x.last = p, w.base, p+1 == len(t.parts)
	if x.lower = nil; p > 0 {
		x.lower = t.sep(p - 1)
	}
	x.first, x.seqs, x.checked = t.first, t.seqs, t.checked
	start, from := uint32(0), uint32(0) // of the block, and of its suffix
	handles, heads, ends := x.handles[:n], x.heads[:n], x.ends[:n]
	for i := range n {
		e := v.entries[i*partEntry:][:partEntry]
		end, decoded := binary.LittleEndian.Uint32(e), binary.LittleEndian.Uint32(e[4:])
		to := binary.LittleEndian.Uint32(e[8:])
		if end < start || end-start < trailerSize || !possible(end-start-trailerSize, decoded) ||
			to < from || uint64(to) > uint64(len(v.seps)) {
			return false
		}
		handles[i].offset, handles[i].decoded = w.start+uint64(start), decoded
		at := len(x.seps)
		if more > 0 {
			x.seps = append(x.seps, v.prefix[len(t.prefix):]...)
		}
		x.seps = append(x.seps, v.seps[from:to]...)
		heads[i], ends[i] = ikey.Head(x.seps[at:]), uint32(len(x.seps)) //nolint:gosec // at most maxPart
		start, from = end, to
	}
	x.handles, x.heads, x.ends, x.end = handles, heads, ends, w.start+uint64(start)
	return x.end == w.start+w.data
}

// fillOne makes x the data block in part p that a search for key leads to. It checks what it uses of the view, except
// the order of the separators. It returns false if something is wrong.
func (t *top) fillOne(x *index, p int, v *partView, key []byte) bool {
	w, more := &t.parts[p], len(v.prefix)-len(t.prefix)
	i, ok := v.find(key)
	if !ok || more < 0 || v.blocks() != int(w.blocks) || !v.fits(i) {
		return false
	}
	start, end := v.span(i)
	from, to := v.suffixEnds(i)
	if uint64(end) > w.data {
		return false
	}
	x.reset(1, t.prefix, 0)
	x.part, x.base, x.last = p, w.base+i, w.base+i+1 == t.blocks
	x.first, x.seqs, x.checked = t.first, t.seqs, t.checked
	x.end = w.start + uint64(start)
	x.push(end-start-trailerSize, v.decoded(i), v.prefix[len(t.prefix):], v.seps[from:to])
	switch x.lower = nil; {
	case i > 0:
		before, _ := v.suffixEnds(i - 1)
		if before > from {
			return false
		}
		n := len(x.seps)
		x.seps = append(append(x.seps, v.prefix[len(t.prefix):]...), v.seps[before:from]...)
		x.lower = x.seps[n:]
	case p > 0:
		x.lower = t.sep(p - 1)
	}
	return true
}
