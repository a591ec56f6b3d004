package sstable

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A pairSeries lets a cursor step through a table without the merge, and shows keys and values. In a block whose
// entries have one length it makes several keys at once: that takes fewer calls, and a caller that copies a key does
// not wait for the stores that made it.
type pairSeries struct {
	back   bool         // it goes backward
	newest ikey.Trailer // that it shows, as in the file
	until  []byte       // the key before which it ends, or nil; not backward
	end    int          // the entry of the block before which it ends, or going backward the one at which it ends

	i, n          int // pair i of the n that were made is the current one
	at, direction int // the entry at which the cursor stands with pair 0, and from pair to pair
	value, step   int // offset in the block of the value of pair 0, and from value to value; 0 if entries differ
	valueLen      int
	keys          []byte
	slot, keyLen  int // bytes from key to key in keys, and of a key
	most          int // keys that have room in keys, if entries do not differ
}

const (
	// seriesKeys is the number of keys that are made at once. With 16, the prefetches of so many moves wait for each
	// other.
	seriesKeys = 8

	// seriesBytes is the number of bytes of keys from which on fewer are made at once. In each block, the bytes that
	// all keys share are copied for each of them.
	seriesBytes = 1 << 10
)

// EnterPairs prepares for calls of Advance, which then end before the key end, if it is not nil, and show what a reader
// at seq may see. end must not change before LeavePairs. The cursor stands at a version that such a reader sees.
// EnterPairs reports whether there is more ahead.
func (it *Iter) EnterPairs(end []byte, seq ikey.Seq) bool {
	l := &it.series
	l.until = end
	it.limit()
	if it.i+1 >= l.end {
		return false
	}
	it.enter(false, seq)
	return true
}

// limit sets the end of a series forward, for now: see lengthen.
func (it *Iter) limit() {
	l := &it.series
	l.end = it.hi
	if l.until != nil {
		l.end = min(l.end, it.search(l.until, ^ikey.Trailer(0), 0))
	}
	if it.prefetchFrom >= max(it.i, 0) {
		l.end = min(l.end, it.prefetchFrom+1)
	}
}

// EnterPairsBack prepares for calls of Advance, which then show the version that the cursor stands at and move back.
// They end behind the key end, or with the block if end is nil. EnterPairsBack reports whether there is one version at
// least that a reader at seq may see.
func (it *Iter) EnterPairsBack(end []byte, seq ikey.Seq) bool {
	l := &it.series
	l.end = it.lo
	if end != nil {
		l.end = max(l.end, it.search(end, 0, 1))
	}
	if it.seq > seq || it.i <= l.end {
		return false
	}
	it.enter(true, seq)
	_, ok := l.first(&it.b, &it.layout, it.i)
	return ok
}

// Advance moves to the next key that the reader may see. It returns false if the next version is not a Set, and at the
// end of the block, unless the series goes on in the next one. Going backward, it shows the version that the cursor
// stands at and moves to the one before. That must have another key, so that the version is the newest of its key. Key
// and Value may not be called before LeavePairs.
func (it *Iter) Advance() bool {
	it.series.i++
	return it.series.i < it.series.n || it.fill()
}

// Pair returns the pair that Advance has moved to. Both slices are valid until the next move.
func (it *Iter) Pair() (key, value []byte) {
	l := &it.series
	v := l.value + l.i*l.step
	return l.key(l.i), it.b.data[v : v+l.valueLen : v+l.valueLen]
}

func (l *pairSeries) key(i int) []byte {
	return l.keys[i*l.slot : i*l.slot+l.keyLen : i*l.slot+l.keyLen]
}

// LeavePairs ends the calls of Advance.
func (it *Iter) LeavePairs() {
	if l := &it.series; l.n > 0 {
		it.i = l.at + l.i*l.direction
	}
	it.stand(it.i)
}

// enter prepares the series for pairs of the current block.
func (it *Iter) enter(back bool, seq ikey.Seq) {
	l := &it.series
	l.back, l.newest, l.i, l.n = back, it.r.firstVisible(seq), -1, 0
	l.at, l.direction = it.i, 1
	if back {
		l.direction = -1
	}
	l.shape(&it.b, &it.layout, it.key)
}

// shape prepares the series for the lengths of the entries of block b. key begins with the prefix of the block.
func (l *pairSeries) shape(b *block, m *entryLayout, key []byte) {
	l.step = 0
	if b.stride == 0 || m.suffix > 16 || m.suffix > 8 && m.rest+8 > b.stride {
		return
	}
	l.step = b.stride * l.direction
	l.slot, l.keyLen, l.valueLen = b.prefix+16, b.prefix+m.suffix, b.stride-m.value
	l.most = min(seriesKeys, max(1, seriesBytes/l.slot))
	l.keys = slices.Grow(l.keys[:0], l.most*l.slot)[:l.most*l.slot]
	copy(l.keys, key[:b.prefix])
	for n := l.slot; n < len(l.keys); n *= 2 {
		copy(l.keys[n:], l.keys[:n])
	}
}

// fill makes the next pairs, after the last one was shown, and reports whether there are any.
func (it *Iter) fill() bool {
	l := &it.series
	if l.n > 0 {
		it.i = l.at + (l.n-1)*l.direction
		if !l.back && it.i+1 >= l.end {
			it.lengthen(l.key(l.n - 1))
		}
	}
	i := it.i
	if !l.back {
		i++
	}
	if l.i, l.n = 0, 0; l.step != 0 {
		it.fillEven(i)
	}
	if l.n == 0 {
		if l.back {
			it.fillBack(i)
		} else {
			it.fillForward(i)
		}
	}
	it.prefetch.Take(l.n)
	return l.n > 0
}

// lengthen moves the end of a series forward, before which the cursor stands, if the series can go on: beyond the entry
// from which on the next block is expected, over the rest of a block of which the cursor has a part, or into the next
// block. last is the key that the cursor stands at.
func (it *Iter) lengthen(last []byte) {
	switch {
	case it.i == it.prefetchFrom:
		it.expect(1, it.hi-it.i)
	case it.i+1 == it.b.n && it.goOn(last):
	case it.i+1 == it.hi && it.hi < it.b.n && it.copyRest(false):
	default:
		return
	}
	it.limit()
}

// goOn makes the series go on in the next block, and the cursor stand before its first entry. It returns false if that
// block begins with a version that the series does not show, or may begin with another version of last, the last key of
// the current block. Then, and after an error, the next call of Next moves there: it also takes a part of a mapped
// block first, where that is enough.
func (it *Iter) goOn(last []byte) bool {
	at, l := it.at+1, &it.series
	i := it.local(at)
	if i == len(it.x.slots) || it.bypass || !it.sequential && it.x.slots[i].Load() == nil {
		return false // at the end of a part of the index, too
	}
	it.plain, it.spare = it.spare, it.plain // the current block may be in the former
	var w window
	ok, _ := it.fromMemory(&w, at, it.at, part{})
	if ok {
		it.stats.Blocks++
		b, e := &w.b, w.b.entry(0)
		p := b.data[blockHeader : blockHeader+b.prefix]
		ok = e.trailer <= l.newest && e.trailer.Kind() == ikey.Set &&
			(l.until == nil || w.search(l.until, ^ikey.Trailer(0), 0) > 0) &&
			!(bytes.HasPrefix(last, p) && ikey.HeadFrom(last, b.prefix) == b.head(0))
	}
	if !ok {
		it.plain, it.spare = it.spare, it.plain
		if w.held != nil {
			w.held.Release()
		}
		return false
	}
	it.release()
	it.window = w
	it.begin(at, it.at)
	if it.b.stride != 0 {
		it.b.layout(&it.layout, 0)
	}
	it.i = -1
	l.shape(&it.b, &it.layout, it.key)
	return true
}

// fillEven makes pairs from entry i on, in a block whose entries are alike, up to one that needs a closer look.
func (it *Iter) fillEven(i int) {
	l, b, m := &it.series, &it.b, &it.layout
	l.value, l.at = b.entries+i*b.stride+m.value, i
	if l.back {
		l.at--
	}
	data := b.data
	head, rest := b.heads+8*i, l.value-m.value+m.rest
	key := b.prefix
	n := min((l.end-i)*l.direction, l.most)
	for j := range n {
		h := binary.LittleEndian.Uint64(data[head:])
		if m.trailed {
			t := ikey.Trailer(binary.LittleEndian.Uint64(data[rest-8:]))
			if t > l.newest || t.Kind() != ikey.Set || h == binary.LittleEndian.Uint64(data[head-8:]) {
				n = j
				break
			}
		}
		k := l.keys[key : key+16]
		binary.BigEndian.PutUint64(k, h)
		if m.suffix > 8 { // else the entry is not read
			binary.LittleEndian.PutUint64(k[8:], binary.LittleEndian.Uint64(data[rest:]))
		}
		key += l.slot
		head += 8 * l.direction
		rest += l.step
	}
	l.n = max(n, 0)
}

// fillForward makes a pair of entry i or one after it.
func (it *Iter) fillForward(i int) {
	l := &it.series
	for ; i < l.end; i++ {
		e := it.b.entryWith(i, &it.layout)
		if e.trailer > l.newest {
			continue // too new
		}
		if it.i >= 0 && it.b.head(i) == it.b.head(it.i) {
			if before := it.b.entryWith(it.i, &it.layout); e.sameKey(&before) {
				continue // an older version of the same key
			}
		}
		if e.trailer.Kind() == ikey.Set {
			it.add(i, i, &e)
		}
		return
	}
}

// fillBack makes a pair of entry i.
func (it *Iter) fillBack(i int) {
	l := &it.series
	if i <= l.end {
		return
	}
	if e, ok := l.first(&it.b, &it.layout, i); ok {
		it.add(i, i-1, &e)
	}
}

// add makes entry i, which is e, the only pair, with which the cursor stands at entry at.
func (it *Iter) add(i, at int, e *entry) {
	l, b := &it.series, &it.b
	if l.step != 0 {
		b.appendSuffix(l.keys[:b.prefix], i, e)
	} else {
		l.keys = b.appendSuffix(append(l.keys[:0], it.key[:b.prefix]...), i, e)
		l.keyLen = len(l.keys)
		l.valueLen = len(e.value)
	}
	l.value = b.entries + b.offset(i+1) - len(e.value)
	l.at, l.n = at, 1
}

// first returns entry i > 0 of a series, and reports whether the reader may see it, it is a Set, and no newer version
// of its key is before it.
func (l *pairSeries) first(b *block, m *entryLayout, i int) (e entry, ok bool) {
	e = b.entryWith(i, m)
	if e.trailer > l.newest || e.trailer.Kind() != ikey.Set {
		return e, false
	}
	if b.head(i-1) != b.head(i) {
		return e, true
	}
	before := b.entryWith(i-1, m)
	return e, !before.sameKey(&e)
}
