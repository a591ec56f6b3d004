package sstable

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"runtime"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/prefetch"
)

// A block is a decoded data block that checkBlock has accepted, so none of its methods can fail. It is a value: a
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

// parse does the same as parseBlock, for a caller that already has the first eight bytes.
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

// offset returns the offset of entry i from the first entry. Entry n begins where the last one ends.
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
	e := b.data[b.entries+b.offset(i) : next : next] // appending to a value copies it
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

// An entryLayout holds the lengths that all entries of a block without offsets have in common. With it a cursor splits
// an entry without reading its lengths.
type entryLayout struct {
	suffix  int
	rest    int // offset in an entry of the rest of the suffix
	value   int // and of the value
	trailed bool
}

// layout sets m to the layout of the entries of a block without offsets. It reads entry i, and any other is like it.
func (b *block) layout(m *entryLayout, i int) {
	e := b.data[b.entries+i*b.stride:]
	tag, n := uint64(e[0]), 1
	if tag >= 0x80 {
		tag, n = binary.Uvarint(e)
	}
	m.suffix = int(tag >> 1)
	m.trailed = tag&1 != 0
	if m.trailed {
		n += 8
	}
	m.rest = n
	m.value = n + max(0, m.suffix-8)
}

// entryWith returns entry i of a block whose entries have layout m, unless there are offsets.
func (b *block) entryWith(i int, m *entryLayout) entry {
	if b.stride == 0 {
		return b.entry(i)
	}
	at := b.entries + i*b.stride
	e := b.data[at : at+b.stride : at+b.stride]
	x := entry{suffix: m.suffix, rest: e[m.rest:m.value], trailer: plainSet, value: e[m.value:]}
	if m.trailed {
		x.trailer = b.trailerWith(i, m)
	}
	return x
}

// trailerWith returns the trailer of entry i of a block whose entries have layout m, with trailers.
func (b *block) trailerWith(i int, m *entryLayout) ikey.Trailer {
	return ikey.Trailer(binary.LittleEndian.Uint64(b.data[b.entries+i*b.stride+m.rest-8:]))
}

// touched is the number of bytes of an entry that are loaded ahead. The processor itself prefetches longer sequential
// reads.
const touched = 512

// touch makes the processor begin to load all cache lines of entry i at once. The first line has the position of the
// value, so the other lines would otherwise be loaded only after it.
func (b *block) touch(i int) {
	start, end := b.entries+b.offset(i), b.entries+b.offset(i+1)
	end = min(end, start+touched)
	sum := b.data[end-1]
	for ; end-64 > start; end -= 64 {
		sum += b.data[end-65]
	}
	runtime.KeepAlive(sum) // else the compiler drops the loads; nothing waits for sum
}

// compare compares entry e with (suffix, t); their heads are equal.
func (e *entry) compare(suffix []byte, t ikey.Trailer) int {
	c := e.compareUser(suffix)
	if c == 0 {
		c = cmp.Compare(t, e.trailer)
	}
	return c
}

// compareUser compares the key of e with suffix; their heads are equal. Heads are padded with zeros, so if one of the
// two is at most eight bytes long it is a prefix of the other.
func (e *entry) compareUser(suffix []byte) int {
	if min(e.suffix, len(suffix)) <= 8 {
		return cmp.Compare(e.suffix, len(suffix))
	}
	return bytes.Compare(e.rest, suffix[8:])
}

// sameKey reports whether two entries with equal heads have the same key.
func (e *entry) sameKey(o *entry) bool { return e.suffix == o.suffix && bytes.Equal(e.rest, o.rest) }

// countable is the number of heads that are counted rather than searched: they fill eight cache lines.
const countable = 64

// lowerHead returns the first entry whose head is at least h, or n.
func (b *block) lowerHead(h uint64) int {
	base, n := 0, b.n
	for n > countable {
		half := n >> 1
		base += half & -ikey.Less(b.head(base+half-1), h)
		n -= half
	}
	return b.countHeads(base, n, h)
}

// countHeads does the same as lowerHead if the result is known to be base or one of the n entries after it; n is at
// most countable. It counts the groups of eight heads that end before h, and then single heads. These loads are
// independent of each other, while those of a binary search wait for each other, and each may be a cache miss.
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

// seek returns the first entry at or after (user, t), or n. It prefetches the given numbers of bytes before and after
// the start of that entry, which a cursor is likely to read next.
func (b *block) seek(user []byte, t ikey.Trailer, before, after int) int {
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
	if before+after > 0 {
		at := b.entries + b.offset(i)
		prefetch.Bytes(b.data[max(at-before, b.entries):min(at+after, len(b.data))])
	}
	if i < b.n && b.head(i) == h {
		i = b.seekEqual(i, h, suffix, t)
	}
	return i
}

// seekHead returns the first entry whose head is at least that of user plus beyond, or n. It looks at heads alone, so
// the entries before it are surely before user with 0, and those from it on surely after user with 1.
func (b *block) seekHead(user []byte, beyond uint64) int {
	p := b.data[blockHeader : blockHeader+b.prefix]
	if !bytes.HasPrefix(user, p) {
		return b.seek(user, 0, 0, 0) // before all entries, or after them
	}
	h := ikey.HeadFrom(user, b.prefix)
	if h+beyond < h {
		return b.n
	}
	return b.lowerHead(h + beyond)
}

// seekEqual returns the first entry at or after (user, t) among the entries from lo on whose head is h. suffix is the
// suffix of user.
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

// endsWith reports whether the last entry is a version of user.
func (b *block) endsWith(user []byte) bool {
	if !bytes.HasPrefix(user, b.data[blockHeader:blockHeader+b.prefix]) {
		return false
	}
	e, suffix := b.entry(b.n-1), user[b.prefix:]
	return b.head(b.n-1) == ikey.Head(suffix) && e.compareUser(suffix) == 0
}

// A verdict is what a block knows of a key.
type verdict uint8

const (
	absent verdict = iota // no version of the key is here
	newer                 // there are versions, all of them too new
	found
	further // as newer, and the block ends with them: the next block may have older ones
)

// get finds the newest version of user that is not before t.
func (b *block) get(user []byte, t ikey.Trailer) (entry, verdict) {
	p := b.data[blockHeader : blockHeader+b.prefix]
	if !bytes.HasPrefix(user, p) {
		return entry{}, absent
	}
	suffix := user[b.prefix:]
	h := ikey.HeadFrom(user, b.prefix)
	lo := b.lowerHead(h)
	if lo < b.n {
		b.touch(lo)
	}
	return b.getFrom(lo, h, suffix, t)
}

// getFrom does the same as get for the key with this suffix, whose head is h. lo is the first entry whose head is at
// least h.
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
	e = b.entry(i - 1) // i > lo, as entry lo was before (user, t)
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

// appendSuffix appends the user key of entry i without the prefix.
func (b *block) appendSuffix(dst []byte, i int, e *entry) []byte {
	n := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, b.head(i))
	if e.suffix < 8 {
		return dst[:n+e.suffix]
	}
	if len(e.rest) <= 8 && cap(e.rest) >= 8 { // faster than a copy of a few bytes; the value follows in the block
		return binary.LittleEndian.AppendUint64(dst, binary.LittleEndian.Uint64(e.rest[:8]))[:n+e.suffix]
	}
	return append(dst, e.rest...)
}
