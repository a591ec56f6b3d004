// Package sstable reads and writes tables: immutable files of sorted versions, with a filter block that says which keys are
// certainly not in them.
//
// A [Writer] turns sorted versions into a file, a [Reader] answers Get from one, an [Iter] walks it. Filter and index belong
// to the Reader and stay in memory; data blocks pass through a block cache whose slots the Reader owns, so that a lookup in
// a table whose block is cached is a search of the index, one pointer load and a search in the block.
//
// Nothing that damage did is served: every byte that an answer depends on is under a checksum which also covers where the
// byte belongs (table, kind of block, offset), and is checked before it is believed. Damage is an error that Is corrupt.Err.
// A damaged filter alone is no error: lookups go on as if it had said maybe, and [Reader.FilterState] tells.
package sstable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A table is
//
//	+-------------+-----------+----------------+-------+--------------+------------+--------+
//	| data blocks | 0…63 × 00 | filter, 64·n B | index | range deletes| properties | footer |
//	+-------------+-----------+----------------+-------+--------------+------------+--------+
//	              ^ only with a filter, which   ^----------------- tail -----------------^
//	                begins at a multiple of 64
//
// All numbers are little-endian. The filter block is described in package bloomblock. Range deletes are reserved: the part
// is empty. A data, index or properties block is followed by its trailer:
//
//	0         n        n+1         n+5
//	+---------+--------+------------+
//	| payload | codec  | CRC-32C u32 |
//	+---------+--------+------------+
//
// The checksum is of: table id u64, kind u8, offset of the block u64, payload, codec. So a block of another table or of
// another place is seen as damage. Only data blocks are compressed; how long a payload is, on disk and decoded, stands in
// the index, and a codec other than none makes it shorter.
//
// The footer:
//
//	 0  table id        u64    random; the manifest has it too
//	 8  filter offset   u64    the index offset if there is no filter
//	16  filter length   u64
//	24  index offset    u64    index, range deletes and properties follow each other
//	32  index length    u64    payload only, as the next two
//	40  range deletes   u64    length; 0
//	48  properties      u64    length
//	56  filter checksum u32    of table id, kind, filter offset and the filter's header, which has those of its units, without
//	                           its last four bytes, its own checksum (a CRC over that would be the same for every filter)
//	60  reserved        u32    0
//	64  checksum        u32    CRC-32C of bytes 0…63 and 68…79
//	68  version         u32    1
//	72  magic           u64    "bloomsst"
const (
	footerSize  = 80
	trailerSize = 5
	magic       = "bloomsst"
	version     = 1
	filterAlign = 64
)

// MaxKey and MaxValue are the largest lengths of a user key and of a value, in bytes.
const (
	MaxKey   = 64 << 10
	MaxValue = 256 << 20
)

const (
	maxPlain = MaxValue + MaxKey + 64 // a block of one entry, at most
	maxCoded = 64 << 20               // decoded length of a compressed block, at most
	maxTail  = 1 << 30
)

// ErrVersion says that a table has a format of the future.
var ErrVersion = corrupt.ErrUnsupportedVersion

// Reasons for damage, which the reader wraps with file and offset.
var (
	errChecksum = errors.New("checksum mismatch")
	errShort    = errors.New("file ends too early")
)

// A kind of block is part of its checksum.
type kind uint8

const (
	kindData       kind = 1
	kindIndex      kind = 2
	kindProperties kind = 3
	kindFilter     kind = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A sealer makes the checksums of one table's blocks.
type sealer struct{ id uint32 } // the state of the CRC after the table id

func newSealer(id uint64) sealer { return sealer{crcWord(^uint32(0), id)} }

// sum is the checksum of a block: body is the payload and the codec byte.
func (s sealer) sum(k kind, offset uint64, body []byte) uint32 {
	c := castagnoli[s.id&0xff^uint32(k)] ^ s.id>>8
	return crc32.Update(^crcWord(c, offset), castagnoli, body)
}

// filterSum binds a filter to its table and place; b begins with the filter's header.
func (s sealer) filterSum(offset uint64, b []byte) uint32 {
	return s.sum(kindFilter, offset, b[:bloomblock.HeaderSize-4])
}

// crcWord is the state of a CRC-32C after eight more bytes. Bytes on the stack would escape through crc32.Update.
func crcWord(c uint32, v uint64) uint32 {
	for range 8 {
		c = castagnoli[uint64(c&0xff)^v&0xff] ^ c>>8
		v >>= 8
	}
	return c
}

// appendTrailer appends codec and checksum to dst, whose bytes from start on are the payload.
func (s sealer) appendTrailer(dst []byte, start int, k kind, offset uint64, c Codec) []byte {
	dst = append(dst, byte(c))
	return binary.LittleEndian.AppendUint32(dst, s.sum(k, offset, dst[start:]))
}

// open checks a block that was read with its trailer and returns payload and codec.
func (s sealer) open(k kind, offset uint64, sealed []byte) ([]byte, Codec, error) {
	n := len(sealed) - trailerSize
	if n < 0 {
		return nil, 0, fmt.Errorf("block of %d bytes, want at least %d", len(sealed), trailerSize)
	}
	got, want := s.sum(k, offset, sealed[:n+1]), binary.LittleEndian.Uint32(sealed[n+1:])
	if got != want {
		return nil, 0, fmt.Errorf("%w: got %08x, want %08x", errChecksum, got, want)
	}
	return sealed[:n], Codec(sealed[n]), nil
}

type footer struct {
	id                    uint64
	filterOff, filterLen  uint64
	indexOff, indexLen    uint64
	rangeDelLen, propsLen uint64
	filterSum             uint32
	tailLen               uint64 // from the size of the file
}

func (f *footer) append(dst []byte) []byte {
	start := len(dst)
	for _, v := range [...]uint64{f.id, f.filterOff, f.filterLen, f.indexOff, f.indexLen, f.rangeDelLen, f.propsLen} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	dst = binary.LittleEndian.AppendUint32(dst, f.filterSum)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, version)
	dst = append(dst, magic...)
	binary.LittleEndian.PutUint32(dst[start+64:], footerSum(dst[start:]))
	return dst
}

func footerSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:64], castagnoli), castagnoli, b[68:footerSize])
}

// parseFooter checks every field of a footer in a file of size bytes.
func parseFooter(b []byte, size uint64) (footer, error) {
	var f footer
	if len(b) != footerSize || size < footerSize {
		return f, fmt.Errorf("footer of %d bytes in a file of %d, want %d", len(b), size, footerSize)
	}
	if got := string(b[72:]); got != magic {
		return f, fmt.Errorf("magic %q, want %q", got, magic)
	}
	if got, want := footerSum(b), binary.LittleEndian.Uint32(b[64:]); got != want {
		return f, fmt.Errorf("footer: %w: got %08x, want %08x", errChecksum, got, want)
	}
	if v := binary.LittleEndian.Uint32(b[68:]); v != version {
		return f, fmt.Errorf("%w %d, want %d", ErrVersion, v, version)
	}
	for i, p := range [...]*uint64{&f.id, &f.filterOff, &f.filterLen, &f.indexOff, &f.indexLen, &f.rangeDelLen, &f.propsLen} {
		*p = binary.LittleEndian.Uint64(b[8*i:])
	}
	f.filterSum = binary.LittleEndian.Uint32(b[56:])
	switch {
	case f.filterOff > size || f.filterLen > size || f.indexOff > size || f.indexLen > size || f.propsLen > size:
		return f, fmt.Errorf("a part of the table is longer than its %d bytes", size)
	case f.indexLen > maxTail || f.propsLen > maxTail: // so that their sum does not wrap
		return f, fmt.Errorf("index of %d and properties of %d bytes, want at most %d", f.indexLen, f.propsLen, maxTail)
	case f.rangeDelLen != 0:
		return f, fmt.Errorf("%w: %d bytes of range deletes, want 0", ErrVersion, f.rangeDelLen)
	case binary.LittleEndian.Uint32(b[60:]) != 0:
		return f, errors.New("footer: reserved bytes are not zero")
	case f.filterOff+f.filterLen != f.indexOff:
		return f, fmt.Errorf("filter ends at %d, want %d", f.filterOff+f.filterLen, f.indexOff)
	case f.filterLen != 0 && f.filterOff%filterAlign != 0:
		return f, fmt.Errorf("filter at %d, want a multiple of %d", f.filterOff, filterAlign)
	case f.filterLen == 0 && f.filterSum != 0:
		return f, errors.New("checksum of a filter without a filter")
	}
	f.tailLen = size - f.indexOff
	if want := f.indexLen + f.propsLen + 2*trailerSize + footerSize; f.tailLen != want {
		return f, fmt.Errorf("tail of %d bytes, want %d", f.tailLen, want)
	}
	if f.tailLen > maxTail {
		return f, fmt.Errorf("tail of %d bytes, want at most %d", f.tailLen, maxTail)
	}
	return f, nil
}

// Properties are what a table says of itself.
type Properties struct {
	Entries       uint64   // versions, tombstones included; at least 1
	Deletes       uint64   // point tombstones among them
	RawKeyBytes   uint64   // sum of the lengths of user keys
	RawValueBytes uint64   // and of values
	Blocks        uint64   // data blocks
	BlockSize     uint64   // what the writer aimed at, in bytes of memory
	FilterKeys    uint64   // distinct user keys, as the filter counts them; 0 without a filter
	MinSeq        ikey.Seq // smallest sequence number
	MaxSeq        ikey.Seq // largest
	Smallest      []byte   // first user key
	Largest       []byte   // last
}

// The properties block: nine u64 in the order of the fields, then for smallest and largest a length u32 and the bytes.
func (p *Properties) append(dst []byte) []byte {
	for _, v := range [...]uint64{
		p.Entries, p.Deletes, p.RawKeyBytes, p.RawValueBytes, p.Blocks, p.BlockSize, p.FilterKeys,
		uint64(p.MinSeq), uint64(p.MaxSeq),
	} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	for _, k := range [...][]byte{p.Smallest, p.Largest} {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(k))) //nolint:gosec // at most MaxKey
		dst = append(dst, k...)
	}
	return dst
}

// parseProperties checks a properties block. It keeps no reference to b.
func parseProperties(b []byte) (Properties, error) {
	var p Properties
	if len(b) < 9*8 {
		return p, fmt.Errorf("properties of %d bytes, want at least %d", len(b), 9*8)
	}
	for i, v := range [...]*uint64{
		&p.Entries, &p.Deletes, &p.RawKeyBytes, &p.RawValueBytes, &p.Blocks, &p.BlockSize, &p.FilterKeys,
		(*uint64)(&p.MinSeq), (*uint64)(&p.MaxSeq),
	} {
		*v = binary.LittleEndian.Uint64(b[8*i:])
	}
	b = b[9*8:]
	for _, k := range [...]*[]byte{&p.Smallest, &p.Largest} {
		if len(b) < 4 {
			return p, errors.New("properties: a bound is cut off")
		}
		n := binary.LittleEndian.Uint32(b)
		b = b[4:]
		if n > MaxKey || int(n) > len(b) {
			return p, fmt.Errorf("properties: bound of %d bytes, want at most %d", n, min(len(b), MaxKey))
		}
		*k = append([]byte{}, b[:n]...)
		b = b[n:]
	}
	switch {
	case len(b) != 0:
		return p, fmt.Errorf("properties: %d bytes too many", len(b))
	case p.Blocks < 1 || p.Entries < p.Blocks || p.Deletes > p.Entries || p.FilterKeys > p.Entries:
		return p, fmt.Errorf("properties: %d entries, %d deletes, %d filter keys in %d blocks",
			p.Entries, p.Deletes, p.FilterKeys, p.Blocks)
	case p.MinSeq > p.MaxSeq || p.MaxSeq > ikey.MaxSeq:
		return p, fmt.Errorf("properties: sequence numbers %d…%d", p.MinSeq, p.MaxSeq)
	case p.RawKeyBytes > math.MaxInt64 || p.RawValueBytes > math.MaxInt64 || p.BlockSize > maxCoded:
		return p, errors.New("properties: a size is out of range")
	}
	return p, nil
}
