package sstable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/words"
)

// An index in parts: the entries of an index that is longer than one part are cut into parts, which a lookup can search
// without the others. Each part is a block of its own, and the top, in the tail, says where each begins and which
// separators it has. A part is
//
//	0           4            8        8+p
//	+-----------+------------+--------+---------------------------------------------------------+----------
//	| count u32 | prefix u32 | prefix | count × (data end u32, decoded u32, separator end u32)  | suffixes
//	+-----------+------------+--------+---------------------------------------------------------+----------
//
// As in index.go, a separator is the prefix and its suffix. But ends stand in place of lengths, so that a search needs
// to look at few entries: the end of block i in the file, with its trailer, counts from the beginning of the part's
// first block, and the end of its suffix from that of the first suffix. The prefix is the longest of the part's own
// separators. A part has at most 1024 blocks. The top is
//
//	0           4            8        8+p
//	+-----------+------------+--------+-----------------------------------------------------------------+----------
//	| parts u32 | prefix u32 | prefix | parts × (length u32, blocks u32, data u64, suffix length u32)   | suffixes
//	+-----------+------------+--------+-----------------------------------------------------------------+----------
//
// with the last separator of each part, the length of the part's payload, and the number of its blocks and of their
// bytes with trailers. The prefix is that of all separators of the table. The first data block is at 0; the first part
// follows the trailer of the last data block, and each next one that of the part before. There are two parts at least.
const (
	partHeader = 8
	partEntry  = 12
	topHeader  = 8
	topEntry   = 20

	defaultPartSize = 4 << 10 // bytes of a part, at most, if that is enough for minPart blocks
	minPart         = 16
	maxPartBlocks   = 1 << 10 // blocks of a part that is read, at most; more do not fit 8192 bytes
	maxPart         = 2 << 20 // bytes of a part that is read, at most; also with the prefix in front of each suffix
)

// testPartSize is the size of parts for tests; 0 stands for the default.
var testPartSize atomic.Int64

// SetPartSize makes new Writers cut indexes into parts of the given number of bytes, 1 to 8192, so that a test has many
// parts in small tables. It is for tests; 0 restores the default.
func SetPartSize(n int) { testPartSize.Store(int64(n)) }

// A partBuilder collects the separators of an index, or of a part of one.
type partBuilder struct {
	fixed  []byte // count × (stored, decoded, length of the separator)
	seps   []byte
	prefix int    // bytes that all separators share
	data   uint64 // bytes of the blocks with their trailers
	last   int    // where the last separator begins in seps
	n      int
}

func (x *partBuilder) add(sep []byte, stored, decoded int) {
	x.prefix = x.common(sep)
	x.n++
	for _, v := range [...]int{stored, decoded, len(sep)} {
		x.fixed = binary.LittleEndian.AppendUint32(x.fixed, uint32(v)) //nolint:gosec // at most maxPlain
	}
	x.last = len(x.seps)
	x.seps = append(x.seps, sep...)
	x.data += uint64(stored) + trailerSize //nolint:gosec // a size
}

// common returns the number of bytes that all separators share with one more.
func (x *partBuilder) common(sep []byte) int {
	if x.n == 0 {
		return len(sep)
	}
	return ikey.CommonPrefix(x.seps[:x.prefix], sep)
}

// sizeWith returns the size of the part with one more separator.
func (x *partBuilder) sizeWith(sep []byte) int {
	p, n := x.common(sep), x.n+1
	return partHeader + p + n*partEntry + len(x.seps) + len(sep) - n*p
}

func (x *partBuilder) size() int { return indexHeader + len(x.fixed) + len(x.seps) }

func (x *partBuilder) reset() { *x = partBuilder{fixed: x.fixed[:0], seps: x.seps[:0]} }

// appendIndex appends the whole index as one block.
func (x *partBuilder) appendIndex(dst []byte) []byte {
	dst, start := x.appendHeader(dst)
	for i := range x.n {
		p := dst[start+i*indexEntry+8:]
		n := binary.LittleEndian.Uint32(p)
		binary.LittleEndian.PutUint32(p, n-uint32(x.prefix)) //nolint:gosec // at most maxKey
	}
	return x.appendSuffixes(dst)
}

// appendPart appends a part of an index.
func (x *partBuilder) appendPart(dst []byte) []byte {
	dst, start := x.appendHeader(dst)
	data, sep := uint32(0), uint32(0)
	for i := range x.n {
		p := dst[start+i*partEntry:]
		data += binary.LittleEndian.Uint32(p) + trailerSize         // the builder of the index keeps it below 2³²
		sep += binary.LittleEndian.Uint32(p[8:]) - uint32(x.prefix) //nolint:gosec // at most maxKey
		binary.LittleEndian.PutUint32(p, data)
		binary.LittleEndian.PutUint32(p[8:], sep)
	}
	return x.appendSuffixes(dst)
}

// appendHeader appends everything in front of the suffixes; the entries have lengths of blocks and whole separators.
func (x *partBuilder) appendHeader(dst []byte) (with []byte, entries int) {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(x.n))      //nolint:gosec // below the size of the table
	dst = binary.LittleEndian.AppendUint32(dst, uint32(x.prefix)) //nolint:gosec // at most maxKey
	dst = append(dst, x.seps[:x.prefix]...)
	return append(dst, x.fixed...), len(dst)
}

func (x *partBuilder) appendSuffixes(dst []byte) []byte {
	seps := x.seps
	for i := range x.n {
		n := binary.LittleEndian.Uint32(x.fixed[i*indexEntry+8:])
		dst = append(dst, seps[x.prefix:n]...)
		seps = seps[n:]
	}
	return dst
}

// An indexBuilder collects the separators of a table, and cuts them into parts.
type indexBuilder struct {
	limit   int // bytes of a part, at most
	part    partBuilder
	first   []byte // separator of the table, once there is more than one part
	encoded []byte // payloads of the parts before
	tops    []topPart
	seps    []byte // last separators of the parts before
}

// reset forgets everything, keeps the memory, and sets the limit.
func (x *indexBuilder) reset(limit int) {
	x.part.reset()
	*x = indexBuilder{limit: limit, part: x.part, encoded: x.encoded[:0], tops: x.tops[:0], seps: x.seps[:0]}
}

// A topPart is the entry of a part in the top.
type topPart struct {
	length, blocks uint32
	data           uint64
	sep            uint32 // length of its last separator
}

func (x *indexBuilder) add(sep []byte, stored, decoded int) {
	if p := &x.part; p.n >= min(minPart, x.limit/256+1) && p.sizeWith(sep) > x.limit ||
		p.data+uint64(stored)+trailerSize > math.MaxUint32 { //nolint:gosec // a size
		x.cut()
	}
	x.part.add(sep, stored, decoded)
}

// cut ends the current part.
func (x *indexBuilder) cut() {
	p, start := &x.part, len(x.encoded)
	if len(x.tops) == 0 {
		x.first = append([]byte(nil), p.seps[:binary.LittleEndian.Uint32(p.fixed[8:])]...)
	}
	x.encoded = p.appendPart(x.encoded)
	sep := p.seps[p.last:]
	//nolint:gosec // the lengths of a part and a separator, a number of blocks
	x.tops = append(x.tops, topPart{uint32(len(x.encoded) - start), uint32(p.n), p.data, uint32(len(sep))})
	x.seps = append(x.seps, sep...)
	p.reset()
}

// inParts reports whether the index has more than one part.
func (x *indexBuilder) inParts() bool { return len(x.tops) > 0 }

// size estimates the bytes of the index in the file.
func (x *indexBuilder) size() int {
	return x.part.size() + len(x.encoded) + len(x.tops)*(topEntry+trailerSize) + len(x.seps)
}

// eachPart ends the last part and calls write with the payload of each. Only an index in parts has them.
func (x *indexBuilder) eachPart(write func(payload []byte)) {
	x.cut()
	rest := x.encoded
	for _, p := range x.tops {
		write(rest[:p.length])
		rest = rest[p.length:]
	}
}

// appendTop appends the payload of the top, after eachPart.
func (x *indexBuilder) appendTop(dst []byte) []byte {
	last := x.tops[len(x.tops)-1].sep
	prefix := ikey.CommonPrefix(x.first, x.seps[len(x.seps)-int(last):])
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(x.tops))) //nolint:gosec // below the size of the table
	dst = binary.LittleEndian.AppendUint32(dst, uint32(prefix))      //nolint:gosec // at most maxKey
	dst = append(dst, x.first[:prefix]...)
	for _, p := range x.tops {
		dst = binary.LittleEndian.AppendUint32(dst, p.length)
		dst = binary.LittleEndian.AppendUint32(dst, p.blocks)
		dst = binary.LittleEndian.AppendUint64(dst, p.data)
		dst = binary.LittleEndian.AppendUint32(dst, p.sep-uint32(prefix)) //nolint:gosec // at most maxKey
	}
	seps := x.seps
	for _, p := range x.tops {
		dst = append(dst, seps[prefix:p.sep]...)
		seps = seps[p.sep:]
	}
	return dst
}

// A partView is the payload of a part. Its methods do not fail for any payload that checkPart has accepted, and search
// does not fail for any other.
type partView struct {
	prefix  []byte
	entries []byte // partEntry bytes each
	seps    []byte // suffixes
}

func viewPart(b []byte) (partView, error) {
	if len(b) < partHeader || len(b) > maxPart {
		return partView{}, fmt.Errorf("part of the index of %d bytes, want %d to %d", len(b), partHeader, maxPart)
	}
	count, prefix := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
	if rest := uint64(len(b)) - partHeader; count == 0 || prefix > maxKey || prefix+count*partEntry > rest {
		return partView{}, fmt.Errorf("part of the index: %d blocks and a prefix of %d do not fit %d bytes",
			count, prefix, len(b))
	}
	b = b[partHeader:]
	return partView{b[:prefix], b[prefix : prefix+count*partEntry], b[prefix+count*partEntry:]}, nil
}

func (v *partView) blocks() int { return len(v.entries) / partEntry }

// span returns where block i begins and ends, with its trailer, from the beginning of the part's first block on.
func (v *partView) span(i int) (start, end uint32) {
	if i > 0 {
		start = binary.LittleEndian.Uint32(v.entries[(i-1)*partEntry:])
	}
	return start, binary.LittleEndian.Uint32(v.entries[i*partEntry:])
}

// decoded returns the decoded length of block i.
func (v *partView) decoded(i int) uint32 {
	return binary.LittleEndian.Uint32(v.entries[i*partEntry+4:])
}

// suffixEnds returns where suffix i begins and ends in seps.
func (v *partView) suffixEnds(i int) (start, end uint32) {
	if i > 0 {
		start = binary.LittleEndian.Uint32(v.entries[(i-1)*partEntry+8:])
	}
	return start, binary.LittleEndian.Uint32(v.entries[i*partEntry+8:])
}

// suffix returns separator i without the prefix.
func (v *partView) suffix(i int) []byte {
	start, end := v.suffixEnds(i)
	return v.seps[start:end]
}

// fits reports whether the entry of block i is possible.
func (v *partView) fits(i int) bool {
	start, end := v.span(i)
	from, to := v.suffixEnds(i)
	return start <= end && end-start >= trailerSize && possible(end-start-trailerSize, v.decoded(i)) &&
		from <= to && uint64(to) <= uint64(len(v.seps)) && int64(to-from) <= int64(maxKey-len(v.prefix))
}

// check checks a whole part against the top: w is its entry there, lower the last separator of the part before, nil for
// the first part, and upper its own. prefix is that of the table.
func (v *partView) check(w *topPart, prefix, lower, upper []byte) error {
	n := v.blocks()
	switch {
	case n != int(w.blocks):
		return fmt.Errorf("part of the index: %d blocks, want %d", n, w.blocks)
	case !bytes.HasPrefix(v.prefix, prefix):
		return fmt.Errorf("part of the index: prefix %s, want one that begins with %s",
			words.Quoted(v.prefix), words.Quoted(prefix))
	case n*(len(v.prefix)-len(prefix))+len(v.seps) > maxPart:
		return fmt.Errorf("part of the index: %d separators with a prefix of %d bytes", n, len(v.prefix))
	}
	for i := range n {
		if !v.fits(i) {
			start, end := v.span(i)
			from, to := v.suffixEnds(i)
			return fmt.Errorf("part of the index: block %d from %d to %d, %d decoded, separator from %d to %d", i,
				start, end, v.decoded(i), from, to)
		}
		if i > 0 && bytes.Compare(v.suffix(i-1), v.suffix(i)) > 0 {
			return fmt.Errorf("part of the index: separator %d out of order", i)
		}
	}
	_, data := v.span(n - 1)
	_, seps := v.suffixEnds(n - 1)
	switch {
	case uint64(data) != w.data:
		return fmt.Errorf("part of the index: blocks of %d bytes, want %d", data, w.data)
	case int(seps) != len(v.seps):
		return errors.New("part of the index: bytes after the last separator")
	case v.compare(n-1, upper) != 0:
		return fmt.Errorf("part of the index: last separator %s%s, want %s",
			words.Quoted(v.prefix), words.Quoted(v.suffix(n-1)), words.Quoted(upper))
	case lower != nil && v.compare(0, lower) < 0:
		return fmt.Errorf("part of the index: first separator %s%s is before %s",
			words.Quoted(v.prefix), words.Quoted(v.suffix(0)), words.Quoted(lower))
	}
	return nil
}

// find returns the first block whose separator is not before key, which is not after the last one. It looks at no more
// of the part than it needs, and checks that; ok is false if something of it is wrong.
func (v *partView) find(key []byte) (i int, ok bool) {
	n := min(len(v.prefix), len(key))
	if c := bytes.Compare(v.prefix[:n], key[:n]); c > 0 || c == 0 && n < len(v.prefix) {
		return 0, true // key is before all separators
	} else if c < 0 {
		return 0, false // key is after all of them
	}
	key = key[n:]
	lo, hi := 0, v.blocks()
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		start, end := v.suffixEnds(mid)
		if start > end || uint64(end) > uint64(len(v.seps)) {
			return 0, false
		}
		if bytes.Compare(v.seps[start:end], key) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < v.blocks()
}

// compare compares separator i with key.
func (v *partView) compare(i int, key []byte) int {
	return compareJoined(v.prefix, v.suffix(i), key)
}
