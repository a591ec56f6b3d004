package foreign

import (
	"cmp"
	"encoding/binary"
)

// Columns is a columnar block of Pebble, which has from table format 5 on:
//
//	| private, custom bytes | version 1 | columns 2 | rows 4 | kind 1, offset 4 for each column | columns | 0 |
//
// Numbers are little-endian. Offsets are from the beginning of the block, and alignment is too. Source: Pebble's
// sstable/colblk/block.go.
type columns struct {
	f     *file
	at    uint64 // offset of the block in the file
	data  []byte
	head  int // offset of the column headers
	count int
	rows  int
	err   error // the first of the columns that were read
}

// The kinds of columns: Pebble's sstable/colblk/column.go.
const (
	kindUint        = 2
	kindBytes       = 3
	kindPrefixBytes = 4
)

// newColumns checks the header of a block with custom private bytes and at least count columns.
func newColumns(f *file, b block, custom, count int) (*columns, error) {
	const header, each = 7, 5
	if len(b.data) < custom+header {
		return nil, f.damaged(b.at, "columnar block of %d bytes", len(b.data))
	}
	h := b.data[custom:]
	c := &columns{
		f: f, at: b.at, data: b.data, head: custom + header, count: int(binary.LittleEndian.Uint16(h[1:])),
	}
	if h[0] != 1 {
		return nil, f.unknown(b.at, "columnar block of version %d, want 1", h[0])
	}
	if c.count < count {
		return nil, f.damaged(b.at, "columnar block with %d columns, want at least %d", c.count, count)
	}
	rows := int64(binary.LittleEndian.Uint32(h[3:]))
	// No two rows are equal in all columns, so each takes at least a byte.
	if c.head+each*c.count >= len(b.data) || rows > int64(min(len(b.data), maxDecoded)) {
		return nil, f.damaged(b.at, "%d columns and %d rows in a block of %d bytes", c.count, rows, len(b.data))
	}
	c.rows = int(rows)
	return c, nil
}

// column returns the block up to the end of column i, and where the column begins.
func (c *columns) column(i int, kind byte) (data []byte, start int, err error) {
	h := c.data[c.head+5*i:]
	from, to := uint64(binary.LittleEndian.Uint32(h[1:])), uint64(len(c.data)-1) //nolint:gosec // not empty
	if i+1 < c.count {
		to = uint64(binary.LittleEndian.Uint32(h[6:]))
	}
	if h[0] != kind {
		return nil, 0, c.damaged("column %d is of kind %d, want %d", i, h[0], kind)
	}
	if from > to || to >= uint64(len(c.data)) {
		return nil, 0, c.damaged("column %d from %d to %d in a block of %d bytes", i, from, to, len(c.data))
	}
	return c.data[:to], int(from), nil //nolint:gosec // within the block
}

func (c *columns) damaged(format string, args ...any) error {
	return c.f.damaged(c.at, format, args...)
}

// A uintColumn has numbers of the same width, relative to a base: Pebble's sstable/colblk/uints.go.
type uintColumn struct {
	base  uint64
	width int
	data  []byte
}

// cutUints reads n numbers that begin at offset from, and returns the offset after them.
func (c *columns) cutUints(data []byte, from, n int) (u uintColumn, next int, err error) {
	if n == 0 {
		return u, from, nil
	}
	if from >= len(data) {
		return u, 0, c.damaged("%d numbers at byte %d of %d", n, from, len(data))
	}
	const relative = 1 << 7
	encoding := data[from]
	from++
	if encoding&relative != 0 {
		if len(data)-from < 8 {
			return u, 0, c.damaged("base of numbers at byte %d of %d", from, len(data))
		}
		u.base = binary.LittleEndian.Uint64(data[from:])
		from += 8
	}
	switch u.width = int(encoding &^ relative); u.width {
	case 0:
		return u, from, nil
	case 1, 2, 4, 8:
	default:
		return u, 0, c.damaged("numbers of %d bytes at byte %d, want 0, 1, 2, 4 or 8", u.width, from)
	}
	from = (from + u.width - 1) &^ (u.width - 1)
	if int64(n)*int64(u.width) > int64(len(data)-from) {
		return u, 0, c.damaged("%d numbers of %d bytes at byte %d of %d", n, u.width, from, len(data))
	}
	next = from + n*u.width
	u.data = data[from:next]
	return u, next, nil
}

// at returns number i.
func (u *uintColumn) at(i int) uint64 {
	var b [8]byte
	copy(b[:], u.data[i*u.width:][:u.width])
	return u.base + binary.LittleEndian.Uint64(b[:])
}

// uints returns column i as numbers, one for each row.
func (c *columns) uints(i int) (u uintColumn) {
	data, from, err := c.column(i, kindUint)
	if err == nil {
		u, _, err = c.cutUints(data, from, c.rows)
	}
	c.err = cmp.Or(c.err, err)
	return u
}

// A bytesColumn has byte strings, one after the other, after their n+1 offsets: Pebble's sstable/colblk/raw_bytes.go.
type bytesColumn struct {
	offsets uintColumn
	data    []byte
}

// cutBytes reads n strings that begin at offset from.
func (c *columns) cutBytes(data []byte, from, n int) (b bytesColumn, err error) {
	if n == 0 {
		return b, nil
	}
	b.offsets, from, err = c.cutUints(data, from, n+1)
	if err == nil {
		b.data = data[from:]
	}
	return b, err
}

// at returns string i.
func (b *bytesColumn) at(i int) ([]byte, bool) {
	from, to := b.offsets.at(i), b.offsets.at(i+1)
	if from > to || to > uint64(len(b.data)) {
		return nil, false
	}
	return b.data[from:to], true
}

// strings returns column i as byte strings, one for each row.
func (c *columns) strings(i int) (b bytesColumn) {
	data, from, err := c.column(i, kindBytes)
	if err == nil {
		b, err = c.cutBytes(data, from, c.rows)
	}
	c.err = cmp.Or(c.err, err)
	return b
}

// A prefixColumn has byte strings in ascending order without the prefix of all and the prefix of each bundle of 2^shift
// rows. Its strings are the common prefix, and then for each bundle its prefix and its rows. An empty row is equal to
// the row before it. The first offset is where the common prefix ends. Source: Pebble's sstable/colblk/prefix_bytes.go.
type prefixColumn struct {
	bytesColumn
	shift int
	rows  int
	key   []byte // of the row that at has returned last
	shown int    // length of the prefixes in key
}

// prefixes returns column i, which has one string for each row.
func (c *columns) prefixes(i int) (p prefixColumn) {
	data, from, err := c.column(i, kindPrefixBytes)
	if err == nil && c.rows > 0 && (from >= len(data) || data[from] > 31) {
		err = c.damaged("column %d has no bundles of at most 2³¹ rows", i)
	}
	if err != nil || c.rows == 0 {
		c.err = cmp.Or(c.err, err)
		return p
	}
	p.shift, p.rows = int(data[from]), c.rows
	bundles := 1 + (c.rows-1)>>p.shift
	p.bytesColumn, err = c.cutBytes(data, from+1, c.rows+bundles)
	if err == nil && p.offsets.at(0) > uint64(len(p.data)) {
		err = c.damaged("column %d: common prefix of %d bytes", i, p.offsets.at(0))
	}
	c.err = cmp.Or(c.err, err)
	return p
}

// next returns the string of a row. Rows are asked in their order, beginning with 0. The string is overwritten by the
// next call.
func (p *prefixColumn) next(row int) ([]byte, bool) {
	bundle := row >> p.shift
	if first := bundle << p.shift; row == first {
		own, ok := p.at(bundle + first)
		if !ok {
			return nil, false
		}
		p.key = append(append(p.key[:0], p.data[:p.offsets.at(0)]...), own...)
		p.shown = len(p.key)
	}
	own, ok := p.at(1 + bundle + row)
	if !ok {
		return nil, false
	}
	if len(own) > 0 {
		p.key = append(p.key[:p.shown], own...)
	}
	return p.key, true
}
