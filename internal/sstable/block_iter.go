package sstable

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"runtime"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A block is a decoded data block that checkBlock has accepted; so none of its methods can fail. It is a value: a
// lookup makes one on its stack.
type block struct {
	data    []byte
	n       int // entries, at least 1
	prefix  int // bytes of the shared prefix
	heads   int // offset of the heads in data
	entries int // offset of the first entry in data
	stride  int // length of every entry, or 0 if there are offsets
	wide    bool
}

func parseBlock(data []byte) (b block) {
	b.parse(binary.LittleEndian.Uint64(data), data)
	return b
}

// parse is parseBlock for a block whose first eight bytes are at hand.
func (b *block) parse(header uint64, data []byte) {
	word := uint32(header >> 32)
	b.data = data
	b.n = int(uint32(header)) //nolint:gosec // the low half
	b.prefix = int(word & maxPrefix)
	b.heads = blockHeader + (b.prefix+7)&^7
	width := int(word >> 24)
	b.entries = b.heads + b.n*(8+width)
	b.stride = 0
	if width == 0 {
		b.stride = int(uint32(len(data)-b.entries) / uint32(b.n)) //nolint:gosec // below maxPlain
	}
	b.wide = width == 4
}

func (b *block) head(i int) uint64 { return binary.LittleEndian.Uint64(b.data[b.heads+8*i:]) }

// offset is where entry i begins, from the first entry on; entry n begins where the last one ends.
func (b *block) offset(i int) int {
	switch {
	case b.stride != 0:
		return i * b.stride
	case i == b.n:
		return len(b.data) - b.entries
	case b.wide:
		return int(binary.LittleEndian.Uint32(b.data[b.heads+8*b.n+4*i:]))
	default:
		return int(binary.LittleEndian.Uint16(b.data[b.heads+8*b.n+2*i:]))
	}
}

// An entry is one version in a block. The slices refer to the block.
type entry struct {
	suffix  int    // length of the key after the prefix
	rest    []byte // suffix from its ninth byte on
	trailer ikey.Trailer
	value   []byte
}

func (b *block) entry(i int) entry {
	next := b.entries + b.offset(i+1)
	e := b.data[b.entries+b.offset(i) : next : next] // who appends to a value gets a copy
	tag, n := uint64(e[0]), 1
	if tag >= 0x80 {
		tag, n = binary.Uvarint(e)
	}
	x := entry{suffix: int(tag >> 1), trailer: plainSet}
	if tag&1 != 0 {
		x.trailer = ikey.Trailer(binary.LittleEndian.Uint64(e[n:]))
		n += 8
	}
	end := n + max(0, x.suffix-8)
	x.rest, x.value = e[n:end], e[end:]
	return x
}

// A mould is what all entries of a block without offsets have in common: they are equally long, and so are their parts.
// With it a cursor takes an entry apart without reading its lengths.
type mould struct {
	suffix  int
	rest    int // offset in an entry of the rest of the suffix
	value   int // and of the value
	trailed bool
}

// mould is that of the block, if it has no offsets.
func (b *block) mould() mould {
	e := b.entry(0)
	m := mould{suffix: e.suffix, value: b.stride - len(e.value), trailed: b.data[b.entries]&1 != 0}
	m.rest = m.value - len(e.rest)
	return m
}

// moulded is entry i of a block whose entries have that mould.
func (b *block) moulded(i int, m *mould) entry {
	at := b.entries + i*b.stride
	e := b.data[at : at+b.stride : at+b.stride]
	x := entry{suffix: m.suffix, rest: e[m.rest:m.value], trailer: plainSet, value: e[m.value:]}
	if m.trailed {
		x.trailer = ikey.Trailer(binary.LittleEndian.Uint64(e[m.rest-8:]))
	}
	return x
}

// touched is how many bytes of an entry are loaded ahead. Where more are read in a row the processor sees it by itself.
const touched = 512

// touch has the processor begin to load entry i, all lines of it at once. Where the value begins stands in the first
// line, so that the others would be waited for after it.
func (b *block) touch(i int) {
	start, end := b.entries+b.offset(i), b.entries+b.offset(i+1)
	end = min(end, start+touched)
	sum := b.data[end-1]
	for ; end-64 > start; end -= 64 {
		sum += b.data[end-65]
	}
	runtime.KeepAlive(sum) // else there would be no loads; nothing waits for it
}

// compare orders entry e, whose head is that of suffix, against (suffix, t).
func (e *entry) compare(suffix []byte, t ikey.Trailer) int {
	c := e.compareUser(suffix)
	if c == 0 {
		c = cmp.Compare(t, e.trailer)
	}
	return c
}

// compareUser orders the key of e, whose head is that of suffix, against suffix. Heads are padded with zeros, so where
// one of the two is at most eight bytes long it is a prefix of the other.
func (e *entry) compareUser(suffix []byte) int {
	if min(e.suffix, len(suffix)) <= 8 {
		return cmp.Compare(e.suffix, len(suffix))
	}
	return bytes.Compare(e.rest, suffix[8:])
}

// countable is how many heads are counted rather than searched: they lie in a handful of lines.
const countable = 64

// lowerHead is the first entry whose head is at least h, or n.
func (b *block) lowerHead(h uint64) int {
	base, n := 0, b.n
	for n > countable {
		half := n >> 1
		base += half & -ikey.Less(b.head(base+half-1), h)
		n -= half
	}
	return b.countHeads(base, n, h)
}

// countHeads is lowerHead where the answer is known to be base or one of the n after it, and n is at most countable. It
// counts the eighths that end before h, and then single heads. These loads do not wait for each other; those of a
// binary search do, and each may be a cache miss.
func (b *block) countHeads(base, n int, h uint64) int {
	rest := b.data[b.heads+8*base : b.heads+8*(base+n)]
	skip := 0
	for b := rest; len(b) >= 64; b = b[64:] {
		skip += ikey.Less(binary.LittleEndian.Uint64(b[56:]), h)
	}
	rest = rest[64*skip:]
	base += 8 * skip
	for b := rest[:min(len(rest), 64)]; len(b) >= 8; b = b[8:] {
		base += ikey.Less(binary.LittleEndian.Uint64(b), h)
	}
	return base
}

// seek is the first entry not before (user, t), or n.
func (b *block) seek(user []byte, t ikey.Trailer) int {
	p := b.data[blockHeader : blockHeader+b.prefix]
	if !bytes.HasPrefix(user, p) {
		if bytes.Compare(user, p) < 0 {
			return 0
		}
		return b.n
	}
	suffix := user[b.prefix:]
	h := ikey.Head(suffix)
	i := b.lowerHead(h)
	if i < b.n && b.head(i) == h {
		i = b.seekEqual(i, h, suffix, t)
	}
	return i
}

// seekEqual is seek among the entries from lo on whose head is h.
func (b *block) seekEqual(lo int, h uint64, suffix []byte, t ikey.Trailer) int {
	hi := lo + 1
	for step := 1; hi < b.n && b.before(hi, h, suffix, t); step *= 2 { // gallop: most often there is one
		lo = hi + 1
		hi += step
	}
	hi = min(hi, b.n)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if b.before(mid, h, suffix, t) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// before reports whether entry i, whose head is h or larger, is before (suffix, t).
func (b *block) before(i int, h uint64, suffix []byte, t ikey.Trailer) bool {
	if b.head(i) != h {
		return false
	}
	e := b.entry(i)
	return e.compare(suffix, t) < 0
}

// A verdict is what a block knows of a key.
type verdict uint8

const (
	absent verdict = iota // no version of the key is here
	newer                 // some are, and all are too new
	found
	further // as newer, and the block ends with them: the next one may have older ones
)

// get finds the newest version of user that is not before t.
func (b *block) get(user []byte, t ikey.Trailer) (entry, verdict) {
	p := b.data[blockHeader : blockHeader+b.prefix]
	if !bytes.HasPrefix(user, p) {
		return entry{}, absent
	}
	suffix := user[b.prefix:]
	h := ikey.Head(suffix)
	lo := b.lowerHead(h)
	if lo < b.n {
		b.touch(lo)
	}
	return b.getFrom(lo, h, suffix, t)
}

// getFrom is get for the key of suffix, whose head is h; lo is the first entry whose head is at least h.
func (b *block) getFrom(lo int, h uint64, suffix []byte, t ikey.Trailer) (entry, verdict) {
	if lo == b.n || b.head(lo) != h {
		return entry{}, absent
	}
	e := b.entry(lo)
	c := e.compareUser(suffix)
	if c == 0 && e.trailer <= t {
		return e, found
	}
	if c > 0 {
		return entry{}, absent
	}
	i := b.seekEqual(lo, h, suffix, t)
	if i < b.n && b.head(i) == h {
		if e = b.entry(i); e.compareUser(suffix) == 0 {
			return e, found
		}
	}
	e = b.entry(i - 1) // the first was before (user, t), so i > lo
	if e.compareUser(suffix) != 0 {
		return entry{}, absent
	}
	if i == b.n {
		return entry{}, further
	}
	return entry{}, newer
}

// appendKey appends the user key of entry i, which is e, to dst.
func (b *block) appendKey(dst []byte, i int, e *entry) []byte {
	return b.appendSuffix(append(dst, b.data[blockHeader:blockHeader+b.prefix]...), i, e)
}

// appendSuffix is appendKey without the prefix.
func (b *block) appendSuffix(dst []byte, i int, e *entry) []byte {
	n := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, b.head(i))
	if e.suffix < 8 {
		return dst[:n+e.suffix]
	}
	return append(dst, e.rest...)
}
