package sstable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A data block, decoded, holds entries in the order of package ikey:
//
//	0           4           7       8                 8+p           8+p+8·n         8+p+8·n+w·n
//	+-----------+-----------+-------+--------+--------+-------------+---------------+---------
//	| count u32 | prefix u24| w u8  | prefix | 0…7×00 | heads n×u64 | offsets n×w B | entries …
//	+-----------+-----------+-------+--------+--------+-------------+---------------+---------
//
// The prefix is the longest that all user keys share, padded to p, a multiple of 8. The head of an entry is the eight
// key bytes after the prefix as a number that orders as they do (package ikey), padded with zeros. The entry does not
// repeat them. A search reads heads, which lie together, and compares bytes only if heads are equal. Offsets count from
// the first entry and are w = 2 or 4 bytes wide, 4 only if needed. w = 0 means that there are no offsets, as all
// entries are equally long and begin with the same uvarint.
//
//	+------------------------------+-------------------------+------------------+-------------+
//	| suffix length·2 + t, uvarint | trailer u64, if t is 1  | suffix from 8 on | value       |
//	+------------------------------+-------------------------+------------------+-------------+
//
// The suffix is the key after the prefix. Without a trailer the version is a Set at sequence number 0, which most are
// in the last level. The value ends where the next entry begins.
const (
	blockHeader = 8
	maxPrefix   = 1<<24 - 1
	leastEntry  = 8 + 1                  // bytes of a head and an entry
	plainSet    = ikey.Trailer(ikey.Set) // Set at sequence number 0
)

// A blockBuilder collects the entries of one block. The order of calls is ((with add)+ append reset)*.
type blockBuilder struct {
	shape
	entries []pending
	keys    []byte // user keys, one after the other
	values  []byte
	large   []byte // the value of a block's only entry, which is not copied; then values is empty
}

// A shape determines the size of a block.
type shape struct {
	n       int  // entries
	prefix  int  // bytes that all keys share
	bytes   int  // of all entries, at this prefix
	uniform bool // all keys and values are as long as the first, and all or none have a trailer
}

// width returns the width of an offset in bytes.
func (s *shape) width() int {
	switch {
	case s.uniform:
		return 0
	case s.bytes <= 1<<16:
		return 2
	default:
		return 4
	}
}

// size returns the length of the block in bytes.
func (s *shape) size() int { return blockHeader + (s.prefix+7)&^7 + s.n*(8+s.width()) + s.bytes }

type pending struct {
	keyEnd, valueEnd int
	trailer          ikey.Trailer
}

func (b *blockBuilder) reset() {
	b.shape = shape{}
	b.entries, b.keys, b.values, b.large = b.entries[:0], b.keys[:0], b.values[:0], nil
}

func (b *blockBuilder) key(i int) []byte {
	start := 0
	if i > 0 {
		start = b.entries[i-1].keyEnd
	}
	return b.keys[start:b.entries[i].keyEnd]
}

func (b *blockBuilder) value(i int) []byte {
	if b.large != nil {
		return b.large
	}
	start := 0
	if i > 0 {
		start = b.entries[i-1].valueEnd
	}
	return b.values[start:b.entries[i].valueEnd]
}

// entryLen returns the length of an entry without its value.
func entryLen(key, prefix int, t ikey.Trailer) int {
	n := (bits.Len(uint(key-prefix)<<1|1)+6)/7 + max(0, key-prefix-8) // a byte of a uvarint has seven bits
	if t != plainSet {
		n += 8
	}
	return n
}

// with returns the shape of the block with one more entry.
func (b *blockBuilder) with(k ikey.Key, value []byte) shape {
	s := b.shape
	if s.n == 0 {
		s.prefix, s.uniform = len(k.User), true
	} else {
		s.uniform = s.uniform && b.same(k, value)
		if p := ikey.CommonPrefix(b.keys[:s.prefix], k.User); p != s.prefix {
			s.prefix, s.bytes = p, len(b.values)
			start := 0
			for _, e := range b.entries {
				s.bytes += entryLen(e.keyEnd-start, p, e.trailer)
				start = e.keyEnd
			}
		}
	}
	s.n++
	s.bytes += entryLen(len(k.User), s.prefix, k.Trailer) + len(value)
	return s
}

// add copies an entry. s is the shape of the block with it. The caller keeps the order.
func (b *blockBuilder) add(k ikey.Key, value []byte, s shape) {
	b.shape = s
	b.keys = append(b.keys, k.User...)
	b.values = append(b.values, value...)
	b.entries = append(b.entries, pending{len(b.keys), len(b.values), k.Trailer})
}

// addLarge adds the only entry of a block. It keeps the value until reset.
func (b *blockBuilder) addLarge(k ikey.Key, value []byte, s shape) {
	b.add(k, nil, s)
	b.large = value
}

// same reports whether an entry is as long as the first.
func (b *blockBuilder) same(k ikey.Key, value []byte) bool {
	f := &b.entries[0]
	return len(k.User) == f.keyEnd && len(value) == f.valueEnd && (k.Trailer == plainSet) == (f.trailer == plainSet)
}

// append appends the block to dst. There is at least one entry.
func (b *blockBuilder) append(dst []byte) []byte {
	return append(b.appendHead(slices.Grow(dst, b.size())), b.value(b.n-1)...)
}

// appendHead appends the block without the value of its last entry, which is the end of the block.
func (b *blockBuilder) appendHead(dst []byte) []byte {
	n, width := b.n, b.width()
	dst = slices.Grow(dst, b.size()-len(b.value(n-1)))
	start := len(dst)
	//nolint:gosec // bounded by the block's size
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(b.prefix)|uint32(width)<<24) //nolint:gosec // at most maxKey
	dst = append(dst, b.keys[:b.prefix]...)
	for (len(dst)-start)%8 != 0 {
		dst = append(dst, 0)
	}
	for i := range n {
		dst = binary.LittleEndian.AppendUint64(dst, ikey.Head(b.key(i)[b.prefix:]))
	}
	offsets := len(dst)
	dst = dst[:offsets+n*width]
	first := len(dst)
	for i := range n {
		switch off := len(dst) - first; width {
		case 2:
			binary.LittleEndian.PutUint16(dst[offsets+2*i:], uint16(off)) //nolint:gosec // at most 64 KiB by width
		case 4:
			binary.LittleEndian.PutUint32(dst[offsets+4*i:], uint32(off)) //nolint:gosec // below maxPlain
		}
		suffix := b.key(i)[b.prefix:]
		if t := b.entries[i].trailer; t != plainSet {
			dst = binary.AppendUvarint(dst, uint64(len(suffix))<<1|1)
			dst = binary.LittleEndian.AppendUint64(dst, uint64(t))
		} else {
			dst = binary.AppendUvarint(dst, uint64(len(suffix))<<1)
		}
		if len(suffix) > 8 {
			dst = append(dst, suffix[8:]...)
		}
		if i < n-1 {
			dst = append(dst, b.value(i)...)
		}
	}
	return dst
}

// Reasons for a block to be refused.
var (
	errBlockLayout = errors.New("block: header does not fit its length")
	errBlockHeads  = errors.New("block: heads out of order")
)

// checkBlock checks a whole decoded block, so that afterwards no search and no step in it can fail, and each step of a
// cursor makes progress (I34). It checks lengths, offsets, kinds, that sequence numbers are within s, and that the
// entries ascend strictly. It reads the first bytes of each entry, more of a key only if its head is that of the entry
// before, and no value.
func checkBlock(data []byte, s seqSpan) error {
	b, err := checkHeader(data)
	if err != nil {
		return err
	}
	return b.check(0, b.n, s)
}

// checkHeader checks what is in front of the entries of a decoded block, apart from heads and offsets.
func checkHeader(data []byte) (block, error) {
	if len(data) < blockHeader || len(data) > maxPlain {
		return block{}, errBlockLayout
	}
	count := binary.LittleEndian.Uint32(data)
	word := binary.LittleEndian.Uint32(data[4:])
	prefix, width := uint64(word&maxPrefix), uint64(word>>24)
	if width != 0 && width != 2 && width != 4 || prefix > maxKey || count == 0 {
		return block{}, errBlockLayout
	}
	first := blockHeader + (prefix+7)&^7 + uint64(count)*(8+width)
	if first+uint64(count) > uint64(len(data)) { // an entry has one byte at least
		return block{}, errBlockLayout
	}
	b := parseBlock(data)
	if width == 0 && (len(data)-b.entries)%b.n != 0 {
		return block{}, errBlockLayout
	}
	for _, c := range data[blockHeader+prefix : b.heads] {
		if c != 0 {
			return block{}, errors.New("block: padding is not zero")
		}
	}
	if b.offset(0) != 0 {
		return block{}, errors.New("block: first entry is not at 0")
	}
	return b, nil
}

// check checks the entries [lo, hi) of a block whose header was checked, as checkBlock does. It reads no others.
func (b *block) check(lo, hi int, s seqSpan) error {
	var tag []byte // that all entries have, if there are no offsets
	if b.stride != 0 && lo < hi {
		first := b.data[b.entries+b.offset(lo):]
		_, n := binary.Uvarint(first)
		tag = first[:max(n, 0)]
	}
	last := uint64(0)
	for i := lo; i < hi; i++ {
		start, end := b.offset(i), b.offset(i+1)
		if end <= start || end > len(b.data)-b.entries {
			return fmt.Errorf("block: entry %d at %d…%d of %d bytes", i, start, end, len(b.data)-b.entries)
		}
		if !bytes.HasPrefix(b.data[b.entries+start:], tag) {
			return fmt.Errorf("block: entry %d is not like the first, and there are no offsets", i)
		}
		head := b.head(i)
		if head < last {
			return errBlockHeads
		}
		entry := b.data[b.entries+start : b.entries+end]
		if err := checkEntry(entry, head, uint64(maxKey-b.prefix), s); err != nil { //nolint:gosec // at most maxKey
			return fmt.Errorf("block: entry %d: %w", i, err)
		}
		if i > lo && head == last && !b.ascends(i) {
			return fmt.Errorf("block: entry %d: %w", i, ErrOrder)
		}
		last = head
	}
	return nil
}

// fits reports whether no search or step among the entries [lo, hi) of a block whose header was checked can fail. The
// block has passed check before, but its bytes may have changed. In a block without offsets it suffices that all these
// entries begin alike and that one is long enough.
func (b *block) fits(lo, hi int, s seqSpan) bool {
	if b.stride == 0 || lo == hi {
		return b.check(lo, hi, s) == nil
	}
	at := b.entries + lo*b.stride
	first := b.data[at : at+b.stride]
	tag, n := binary.Uvarint(first)
	if n <= 0 || uint64(n)+8*(tag&1)+max(tag>>1, 8)-8 > uint64(len(first)) {
		return false
	}
	if n == 1 { // the usual case: without it a seek with ten steps past the cache takes 5 % longer
		for i := lo; i < hi; i++ {
			if b.data[b.entries+i*b.stride] != first[0] {
				return false
			}
		}
		return true
	}
	for i := lo; i < hi; i++ {
		if !bytes.HasPrefix(b.data[b.entries+i*b.stride:], first[:n]) {
			return false
		}
	}
	return true
}

// ascends reports whether entry i, which has the head of the one before it, is greater than that one.
func (b *block) ascends(i int) bool {
	before, e := b.entry(i-1), b.entry(i)
	if before.sameKey(&e) {
		return before.trailer > e.trailer
	}
	if min(before.suffix, e.suffix) <= 8 {
		return before.suffix < e.suffix
	}
	return bytes.Compare(before.rest, e.rest) < 0
}

var (
	errEntryLength = errors.New("suffix or value does not fit")
	errEntryHead   = errors.New("head is longer than the key")
)

// A seqSpan is the range of sequence numbers in a table's properties.
type seqSpan struct{ low, high ikey.Seq }

func (s seqSpan) check(seq ikey.Seq) error {
	if seq < s.low || seq > s.high {
		return fmt.Errorf("sequence %d, want %d to %d", seq, s.low, s.high)
	}
	return nil
}

func checkEntry(e []byte, head, maxSuffix uint64, s seqSpan) error {
	tag, n := uint64(e[0]), 1
	if tag >= 0x80 {
		if tag, n = binary.Uvarint(e); n <= 0 || n > 3 || e[n-1] == 0 {
			return errEntryLength
		}
	}
	suffix := tag >> 1
	need := uint64(n) + 8*(tag&1)
	if suffix > 8 {
		need += suffix - 8
	} else if head<<(8*suffix) != 0 {
		return errEntryHead
	}
	if suffix > maxSuffix || uint64(len(e))-need > maxValue { // also if need is longer than the entry
		return errEntryLength
	}
	t := plainSet
	if tag&1 != 0 {
		t = ikey.Trailer(binary.LittleEndian.Uint64(e[n:]))
		if k := t.Kind(); k != ikey.Set && k != ikey.Delete {
			return fmt.Errorf("%w: %v", errKind, k)
		}
	}
	return s.check(t.Seq())
}
