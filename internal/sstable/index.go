package sstable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/prefetch"
	"github.com/bloomkv/bloomkv/internal/words"
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

// separators are sorted keys that are searched by their heads: those of an index, or the last ones of its parts.
type separators struct {
	heads  []uint64 // of the separators, after the prefix
	prefix []byte   // that all have in common
	ends   []uint32 // of each separator in seps
	seps   []byte   // separators after the prefix, one after the other
}

// An index is an index block, or a part of an index, in memory: flat arrays with one element for each data block.
type index struct {
	// What a lookup touches comes first.
	slots  []cache.Slot  // of the blocks that are cached (I28)
	recent atomic.Uint32 // 1 if the index was used since the hand of its pool came by
	kept   atomic.Bool   // the index is in a pool; cached blocks of any other are dropped: see Reader.insert
	separators

	handles []handle
	end     uint64    // of its data blocks
	checked checklist // of the table's blocks

	part  int    // number of the part; 0 if the index is not in parts
	base  int    // number of its first block in the table
	lower []byte // the separator in front of its first block, after the prefix; nil if there is none
	last  bool   // its last block is that of the table

	// From the properties, for all blocks.
	first []byte  // the smallest key
	seqs  seqSpan // sequence numbers

	place
}

// A handle locates a data block.
type handle struct {
	offset  uint64
	decoded uint32
}

// reset makes x an index without blocks, with space for n of them and for seps bytes of separators after the prefix.
// Its slots are empty.
func (x *index) reset(n int, prefix []byte, seps int) {
	if cap(x.slots) < n {
		x.slots = make([]cache.Slot, n)
	}
	x.slots = x.slots[:n]
	x.handles = slices.Grow(x.handles[:0], n)
	s := &x.separators
	s.prefix = prefix
	s.heads, s.ends = slices.Grow(s.heads[:0], n), slices.Grow(s.ends[:0], n)
	s.seps = slices.Grow(s.seps[:0], seps)
	x.end = 0
}

// emptied returns x without what it refers to of its table, for reuse, or nil if it is too large to be kept.
func (x *index) emptied() *index {
	if cap(x.seps) > keepCursor {
		return nil
	}
	x.prefix, x.lower, x.first, x.checked = nil, nil, nil, nil
	return x
}

// push adds a block of the given lengths, without and with compression, and its separator, which is the prefix, more
// of it, and suffix.
func (x *index) push(stored, decoded uint32, more, suffix []byte) {
	x.handles = append(x.handles, handle{x.end, decoded})
	x.end += uint64(stored) + trailerSize
	x.separators.push(more, suffix)
}

// push adds a separator: the prefix, more of it, and suffix.
func (s *separators) push(more, suffix []byte) {
	n := len(s.seps)
	s.seps = append(append(s.seps, more...), suffix...)
	s.heads = append(s.heads, ikey.Head(s.seps[n:]))
	s.ends = append(s.ends, uint32(len(s.seps))) //nolint:gosec // at most maxTail
}

// bytes returns the bytes of memory that the index takes. Its prefix and checklist are the top's.
func (x *index) bytes() int64 {
	return int64(unsafe.Sizeof(*x)) + x.separators.bytes() + int64(len(x.handles))*(8+16)
}

// bytes returns the bytes of memory of the separators, without the prefix.
func (s *separators) bytes() int64 { return int64(len(s.heads))*(8+4) + int64(len(s.seps)) }

// use tells the clock of the pool that the index is used.
func (x *index) use() {
	if x.recent.Load() == 0 {
		x.recent.Store(1) // only if clear: readers of a hot index share its line
	}
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
func (s *separators) sep(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = s.ends[i-1]
	}
	return s.seps[start:s.ends[i]]
}

// separatorKey returns separator i with the prefix.
func (s *separators) separatorKey(i int) []byte { return append(bytes.Clone(s.prefix), s.sep(i)...) }

// compareSep compares separator i with key.
func (s *separators) compareSep(i int, key []byte) int { return compareJoined(s.prefix, s.sep(i), key) }

// compareJoined compares prefix and suffix together with key.
func compareJoined(prefix, suffix, key []byte) int {
	n := min(len(prefix), len(key))
	if c := bytes.Compare(prefix[:n], key[:n]); c != 0 {
		return c
	}
	if n < len(prefix) {
		return 1
	}
	return bytes.Compare(suffix, key[n:])
}

// before returns the separator in front of block i without the prefix, nil for the first block of the table.
func (x *index) before(i int) []byte {
	if i > 0 {
		return x.sep(i - 1)
	}
	return x.lower
}

// checkBounds checks block i that checkBlock has accepted against the index, so that keys ascend from block to block
// (I34) and a search by separators finds every key. The keys are after the separator before the block, or begin with it
// if versions of one key continue, and none is after the block's own separator. The table's smallest and largest key
// are those of the properties.
func (x *index) checkBounds(i int, data []byte) error {
	b := parseBlock(data)
	var buf [128]byte // so that short keys are not allocated for each block that is read
	first, last := b.entry(0), b.entry(b.n-1)
	key := b.appendKey(buf[:0], 0, &first)
	switch number, lower := x.base+i, x.before(i); {
	case number == 0 && !bytes.Equal(key, x.first):
		return fmt.Errorf("first key %s, want %s", words.Quoted(key), words.Quoted(x.first))
	case number > 0 && compareJoined(x.prefix, lower, key) > 0:
		return fmt.Errorf("first key %s is before the separator %s in front of it",
			words.Quoted(key), words.Quoted(slices.Concat(x.prefix, lower)))
	}
	key = b.appendKey(buf[:0], b.n-1, &last)
	if c := x.compareSep(i, key); c < 0 || c != 0 && x.last && i+1 == x.blocks() {
		return fmt.Errorf("last key %s, want it up to %s", words.Quoted(key), words.Quoted(x.separatorKey(i)))
	}
	return nil
}

// find returns the first separator that is not before key, or their number if key is after the last one.
func (s *separators) find(key []byte) int {
	lo, n := s.span(key)
	if n == 0 {
		return lo
	}
	return s.findHead(ikey.HeadFrom(key, len(s.prefix)), key)
}

// findHead does the same as find for a key with the prefix, whose head after that is h. There is a separator.
func (s *separators) findHead(h uint64, key []byte) int {
	heads := s.heads
	lo := 0
	for n := len(heads); n > 1; {
		half := n >> 1
		lo += half & -ikey.Less(heads[lo+half-1], h)
		n -= half
	}
	return s.finish(lo, h, key)
}

// finish ends find with one separator left to look at: lo. h is the head of key, which has the prefix.
func (s *separators) finish(lo int, h uint64, key []byte) int {
	heads := s.heads
	lo += ikey.Less(heads[lo], h)
	if lo == len(heads) || heads[lo] != h {
		return lo
	}
	return s.findEqual(lo, h, key[len(s.prefix):])
}

// span returns the range that find has to search: n separators from lo on. If n is 0, lo is the result of find.
func (s *separators) span(key []byte) (lo, n int) {
	n = len(s.heads)
	if !bytes.HasPrefix(key, s.prefix) {
		if bytes.Compare(key, s.prefix) < 0 {
			return 0, 0
		}
		return n, 0
	}
	return 0, n
}

// findEqual does the same as find among the separators from lo on, the first whose head is h. h is the head of suffix.
func (s *separators) findEqual(lo int, h uint64, suffix []byte) int {
	if bytes.Compare(s.sep(lo), suffix) >= 0 {
		return lo
	}
	heads := s.heads
	lo++
	hi := lo
	for step := 1; hi < len(heads) && heads[hi] == h && bytes.Compare(s.sep(hi), suffix) < 0; step *= 2 {
		lo = hi + 1
		hi += step
	}
	hi = min(hi, len(heads))
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if heads[mid] == h && bytes.Compare(s.sep(mid), suffix) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// parseIndex parses and checks an index in one block. The data blocks must end at most slack bytes before limit. It
// keeps no reference to b, and allocates at most three times its length (I30).
func parseIndex(b []byte, limit, slack uint64) (*index, error) {
	if len(b) < indexHeader {
		return nil, fmt.Errorf("index of %d bytes, want at least %d", len(b), indexHeader)
	}
	count, prefix := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
	rest := uint64(len(b)) - indexHeader
	if prefix > maxKey || prefix+count*indexEntry > rest || count == 0 && prefix > 0 {
		return nil, fmt.Errorf("index: %d blocks and a prefix of %d do not fit %d bytes", count, prefix, len(b))
	}
	n := int(count) //nolint:gosec // below len(b)
	fixed, seps := b[indexHeader+prefix:], b[indexHeader+prefix+count*indexEntry:]
	x := new(index)
	x.reset(n, bytes.Clone(b[indexHeader:indexHeader+prefix]), len(seps))
	for i := range n {
		e := fixed[i*indexEntry:]
		stored, decoded := binary.LittleEndian.Uint32(e), binary.LittleEndian.Uint32(e[4:])
		if !possible(stored, decoded) {
			return nil, fmt.Errorf("index: block %d of %d bytes, %d decoded", i, stored, decoded)
		}
		suffix := uint64(binary.LittleEndian.Uint32(e[8:]))
		if suffix > maxKey-prefix || suffix > uint64(len(seps)) {
			return nil, fmt.Errorf("index: separator %d of %d bytes", i, prefix+suffix)
		}
		x.push(stored, decoded, nil, seps[:suffix])
		seps = seps[suffix:]
		if i > 0 && bytes.Compare(x.sep(i-1), x.sep(i)) > 0 {
			return nil, fmt.Errorf("index: separator %d out of order", i)
		}
	}
	if len(seps) > 0 {
		return nil, errors.New("index: bytes after the last separator")
	}
	if err := checkEnd(x.end, limit, slack); err != nil {
		return nil, fmt.Errorf("index: data blocks %w", err)
	}
	x.last = true
	return x, nil
}

// checkEnd checks that what ends at end does so at most slack bytes before limit.
func checkEnd(end, limit, slack uint64) error {
	if end > limit || limit-end > slack {
		return fmt.Errorf("end at %d, want %d", end, limit)
	}
	return nil
}

// possible reports whether a block may have these lengths: stored in the file, without trailer, and decoded.
func possible(stored, decoded uint32) bool {
	return stored == decoded && stored-1 < maxPlain ||
		stored < decoded && stored > 0 && decoded <= maxCoded && uint64(decoded) <= uint64(stored)*maxRatio
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
