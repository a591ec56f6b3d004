package sstable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/prefetch"
)

// The index has one separator for each data block: a user key not before the last one in the block, and before the
// first one in the next unless versions of one key continue there. The last separator is the largest key. It is kept
// short.
//
//	0           4            8        8+p
//	+-----------+------------+--------+------------------------------------------------------+----------
//	| count u32 | prefix u32 | prefix | count × (stored u32, decoded u32, suffix length u32) | suffixes
//	+-----------+------------+--------+------------------------------------------------------+----------
//
// A separator is the prefix and its suffix. Stored is the length of the block's payload in the file, and equal to
// decoded unless the block is compressed. The first data block is at 0, each next one follows the trailer of the one
// before. In a table without data blocks, all is 0.
const (
	indexHeader = 8
	indexEntry  = 12
)

// An index is an index block in memory: flat arrays with one element for each data block.
type index struct {
	prefix  []byte
	heads   []uint64 // of the separators, after the prefix
	handles []handle
	seps    []byte       // separators after the prefix, one after the other
	slots   []cache.Slot // of the table's cached blocks (I28)
	end     uint64       // of the data blocks

	verified []atomic.Uint32 // moments when the blocks in the mapped file were verified, 0 for never

	// From the properties, for all blocks.
	first []byte  // the smallest key
	seqs  seqSpan // sequence numbers
}

// A handle locates a data block.
type handle struct {
	offset  uint64
	decoded uint32
	sepEnd  uint32
}

// bytes returns the bytes of memory that the index takes.
func (x *index) bytes() int64 {
	return int64(len(x.heads))*(8+16+8+4) + int64(len(x.prefix)+len(x.seps))
}

func (x *index) blocks() int { return len(x.heads) }

// touch prefetches what leads to the bytes of the cached block i and returns that block, or nil if there is none. The
// caller is inside a guard.
func (x *index) touch(i int) *cache.Block {
	if i < 0 || i >= len(x.slots) {
		return nil
	}
	c := x.slots[i].Load()
	if c != nil {
		prefetch.Line(&c.Meta)
	}
	return c
}

// extent returns the offset of block i's payload, its length in the file, and its decoded length.
func (x *index) extent(i int) (offset uint64, stored, decoded int) {
	h := &x.handles[i]
	next := x.end
	if i+1 < len(x.handles) {
		next = x.handles[i+1].offset
	}
	return h.offset, int(next-h.offset) - trailerSize, int(h.decoded) //nolint:gosec // parseIndex bounds it
}

// sep returns separator i without the prefix.
func (x *index) sep(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = x.handles[i-1].sepEnd
	}
	return x.seps[start:x.handles[i].sepEnd]
}

// separatorKey returns separator i with the prefix.
func (x *index) separatorKey(i int) []byte { return append(bytes.Clone(x.prefix), x.sep(i)...) }

// compareSep compares separator i with key.
func (x *index) compareSep(i int, key []byte) int {
	n := min(len(x.prefix), len(key))
	if c := bytes.Compare(x.prefix[:n], key[:n]); c != 0 {
		return c
	}
	if n < len(x.prefix) {
		return 1
	}
	return bytes.Compare(x.sep(i), key[n:])
}

// checkBounds checks a block that checkBlock has accepted against the index, so that keys ascend from block to block
// (I34) and a search by separators finds every key. The keys are after the separator before the block, or begin with it
// if versions of one key continue, and none is after the block's own separator. The table's smallest and largest key
// are those of the properties.
func (x *index) checkBounds(i int, data []byte) error {
	b := parseBlock(data)
	var buf [128]byte // so that short keys are not allocated for each block that is read
	first, last := b.entry(0), b.entry(b.n-1)
	key := b.appendKey(buf[:0], 0, &first)
	switch {
	case i == 0 && !bytes.Equal(key, x.first):
		return fmt.Errorf("first key %q, want %q", string(key), x.first)
	case i > 0 && x.compareSep(i-1, key) > 0:
		return fmt.Errorf("first key %q is before the separator %q in front of it", string(key), x.separatorKey(i-1))
	}
	key = b.appendKey(buf[:0], b.n-1, &last)
	if c := x.compareSep(i, key); c < 0 || c != 0 && i+1 == x.blocks() {
		return fmt.Errorf("last key %q, want it up to %q", string(key), x.separatorKey(i))
	}
	return nil
}

// offsetOf returns the offset of the block that key is in, or would be in.
func (x *index) offsetOf(key []byte) uint64 {
	if i := x.find(key); i < x.blocks() {
		return x.handles[i].offset
	}
	return x.end
}

// shareBefore returns the share of the data in front of key. The block that key is in, or would be in, counts half.
func (x *index) shareBefore(key []byte) float64 {
	i := x.find(key)
	if i >= x.blocks() {
		return 1
	}
	end := x.end
	if i+1 < x.blocks() {
		end = x.handles[i+1].offset
	}
	return float64(x.handles[i].offset+end) / 2 / float64(x.end)
}

// find returns the first block whose separator is not before key, or the number of blocks if key is after the last
// separator.
func (x *index) find(key []byte) int {
	lo, n := x.span(key)
	if n == 0 {
		return lo
	}
	h := ikey.Head(key[len(x.prefix):])
	heads := x.heads
	for n > 1 {
		half := n >> 1
		lo += half & -ikey.Less(heads[lo+half-1], h)
		n -= half
	}
	return x.finish(lo, h, key)
}

// finish ends find with one block left to look at: lo. h is the head of key, which has the prefix.
func (x *index) finish(lo int, h uint64, key []byte) int {
	heads := x.heads
	lo += ikey.Less(heads[lo], h)
	if lo == len(heads) || heads[lo] != h {
		return lo
	}
	return x.findEqual(lo, h, key[len(x.prefix):])
}

// span returns the range that find has to search: n blocks from lo on. If n is 0, lo is the result of find.
func (x *index) span(key []byte) (lo, n int) {
	n = len(x.heads)
	if !bytes.HasPrefix(key, x.prefix) {
		if bytes.Compare(key, x.prefix) < 0 {
			return 0, 0
		}
		return n, 0
	}
	return 0, n
}

// findEqual does the same as find among the separators from lo on, the first whose head is h. h is the head of suffix.
func (x *index) findEqual(lo int, h uint64, suffix []byte) int {
	if bytes.Compare(x.sep(lo), suffix) >= 0 {
		return lo
	}
	heads := x.heads
	lo++
	hi := lo
	for step := 1; hi < len(heads) && heads[hi] == h && bytes.Compare(x.sep(hi), suffix) < 0; step *= 2 {
		lo = hi + 1
		hi += step
	}
	hi = min(hi, len(heads))
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if heads[mid] == h && bytes.Compare(x.sep(mid), suffix) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// parseIndex parses and checks an index block. The data blocks must end at most slack bytes before limit. It keeps no
// reference to b, and allocates at most three times its length (I30).
func parseIndex(b []byte, limit, slack uint64) (*index, error) {
	if len(b) < indexHeader {
		return nil, fmt.Errorf("index of %d bytes, want at least %d", len(b), indexHeader)
	}
	count, prefix := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
	rest := uint64(len(b)) - indexHeader
	if prefix > MaxKey || prefix+count*indexEntry > rest || count == 0 && prefix > 0 {
		return nil, fmt.Errorf("index: %d blocks and a prefix of %d do not fit %d bytes", count, prefix, len(b))
	}
	n := int(count) //nolint:gosec // below len(b)
	x := &index{
		prefix:  bytes.Clone(b[indexHeader : indexHeader+prefix]),
		heads:   make([]uint64, n),
		handles: make([]handle, n),
		seps:    bytes.Clone(b[indexHeader+prefix+count*indexEntry:]),
		slots:   make([]cache.Slot, n),

		verified: make([]atomic.Uint32, n),
	}
	fixed := b[indexHeader+prefix:]
	sepEnd := uint64(0)
	for i := range n {
		e := fixed[i*indexEntry:]
		stored, decoded := binary.LittleEndian.Uint32(e), binary.LittleEndian.Uint32(e[4:])
		suffix := uint64(binary.LittleEndian.Uint32(e[8:]))
		if stored == 0 || stored > decoded || decoded > maxPlain ||
			stored < decoded && (decoded > maxCoded || uint64(decoded) > uint64(stored)*maxRatio) {
			return nil, fmt.Errorf("index: block %d of %d bytes, %d decoded", i, stored, decoded)
		}
		sepEnd += suffix
		if suffix > MaxKey-prefix || sepEnd > uint64(len(x.seps)) {
			return nil, fmt.Errorf("index: separator %d of %d bytes", i, prefix+suffix)
		}
		x.handles[i] = handle{x.end, decoded, uint32(sepEnd)} //nolint:gosec // at most maxTail
		x.heads[i] = ikey.Head(x.sep(i))
		if i > 0 && bytes.Compare(x.sep(i-1), x.sep(i)) > 0 {
			return nil, fmt.Errorf("index: separator %d out of order", i)
		}
		x.end += uint64(stored) + trailerSize
	}
	if sepEnd != uint64(len(x.seps)) {
		return nil, errors.New("index: bytes after the last separator")
	}
	if x.end > limit || limit-x.end > slack {
		return nil, fmt.Errorf("index: data blocks end at %d, want %d", x.end, limit)
	}
	return x, nil
}

// An indexBuilder collects the separators of a table.
type indexBuilder struct {
	fixed  []byte // count × (stored, decoded, length of the separator)
	seps   []byte
	prefix int // bytes that all separators share
	n      int
}

func (x *indexBuilder) add(sep []byte, stored, decoded int) {
	if x.n == 0 {
		x.prefix = len(sep)
	} else {
		x.prefix = ikey.CommonPrefix(x.seps[:x.prefix], sep)
	}
	x.n++
	for _, v := range [...]int{stored, decoded, len(sep)} {
		x.fixed = binary.LittleEndian.AppendUint32(x.fixed, uint32(v)) //nolint:gosec // at most maxPlain
	}
	x.seps = append(x.seps, sep...)
}

func (x *indexBuilder) size() int { return indexHeader + len(x.fixed) + len(x.seps) }

func (x *indexBuilder) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(x.n))      //nolint:gosec // below the size of the table
	dst = binary.LittleEndian.AppendUint32(dst, uint32(x.prefix)) //nolint:gosec // at most MaxKey
	dst = append(dst, x.seps[:x.prefix]...)
	start := len(dst)
	dst = append(dst, x.fixed...)
	seps := x.seps
	for i := range x.n {
		p := dst[start+i*indexEntry+8:]
		n := int(binary.LittleEndian.Uint32(p))
		binary.LittleEndian.PutUint32(p, uint32(n-x.prefix)) //nolint:gosec // n ≥ prefix
		dst = append(dst, seps[x.prefix:n]...)
		seps = seps[n:]
	}
	return dst
}

// appendSeparator appends a short key s with a ≤ s < b to dst, where a < b; with a nil b it appends a.
func appendSeparator(dst, a, b []byte) []byte {
	if b == nil {
		return append(dst, a...)
	}
	n := ikey.CommonPrefix(a, b)
	switch {
	case n >= len(a) || n >= len(b): // a is a prefix of b, or they are equal
		return append(dst, a...)
	case a[n]+1 < b[n]:
		return append(append(dst, a[:n]...), a[n]+1)
	case n+1 < len(b):
		return append(dst, b[:n+1]...)
	}
	for i := n + 1; i < len(a); i++ {
		if a[i] != 0xff {
			return append(append(dst, a[:i]...), a[i]+1)
		}
	}
	return append(dst, a...)
}
