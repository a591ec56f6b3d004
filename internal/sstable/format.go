// Package sstable reads and writes tables: immutable files of sorted versions, with a filter block that knows which
// keys are certainly not in them.
//
// A [Writer] writes sorted versions and range tombstones to a file. A [Reader] answers Get from one file, [GetMany]
// asks several at once, and an [Iter] walks one. The Reader keeps filter, range tombstones and the top of the index in
// memory. Parts of the index are loaded into a [PartPool], and data blocks into a block cache whose slots a part has:
// if both are in memory, a lookup costs a search of the top and of the part, two pointer loads and a search in the
// block. The caller applies range tombstones to versions, since it has those of all tables.
//
// Every byte that an answer depends on is covered by a checksum, which is verified before the byte is used and which
// includes the byte's position (table, kind of block, offset). Damage is an error matching corrupt.Err. A damaged
// filter is not an error: lookups go on without it, and [TableFilter.State] reports it.
//
// Package sstable at the top of the module is a small face of this one for programs outside.
package sstable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
)

// A table is
//
//	+-------------+-------+-----------+--------+----------------+--------------+--------------+------------+--------+
//	| data blocks | parts | 0…63 × 00 | sample | filter, 64·n B | index or top | range deletes| properties | footer |
//	+-------------+-------+-----------+--------+----------------+--------------+--------------+------------+--------+
//	               ^ of    ^ only with a filter, which begins    ^--------------------- tail ---------------------^
//	                 the     at a multiple of 64
//	                 index
//
// All numbers are little-endian. The filter is a filter block of the keys, as package bloomblock describes it, and the
// sample is a sample block of the hashes in it. If a PrefixRule was given, a filter block of the keys' prefixes
// follows; the properties have its length. A filter has no sample if the table has no versions, or was written before
// there were samples. Data blocks or range deletes may be missing, but not both.
//
// A small index is one block in the tail (index.go). A larger one is cut into parts, which follow the data blocks, and
// its top is in the tail (parts.go). Range deletes usually do not overlap, but may (rangedel.go). Only a table with one
// of these has version 2, so that older programs read all others.
//
// A data, sample, index, range delete or properties block, a part and a top are followed by their trailer:
//
//	0         n        n+1         n+5
//	+---------+--------+------------+
//	| payload | codec  | CRC-32C u32 |
//	+---------+--------+------------+
//
// The checksum covers: table id u64, kind u8, offset of the block u64, payload, codec. So a block of another table or
// from another offset is detected as damage. Only data blocks are compressed. The index has the length of each payload,
// on disk and decoded. A codec other than none makes it shorter, by a factor of at most 1024 (maxRatio).
//
// The footer of version 1, and the end of every later one:
//
//	 0  table id        u64    random; the manifest has it too
//	 8  filter offset   u64    the index offset if there is no filter
//	16  filter length   u64    of both blocks, if there is one of prefixes; at most 1 GiB
//	24  index offset    u64    of the index or the top; range deletes and properties follow
//	32  index length    u64    payload only, as the next two
//	40  range deletes   u64    length; 0 without range deletes, and then they have no trailer either
//	48  properties      u64    length
//	56  filter checksum u32    of table id, kind, filter offset and the filter's header, which has the checksums of
//	                           its units, without its last four bytes, which are its own checksum (with them, the
//	                           CRC would be the same for every filter)
//	60  sample          u32    length of its payload; 0 without a sample, and then it has no trailer either
//	64  checksum        u32    CRC-32C of bytes 0…63 and 68…79
//	68  version         u32    1 or 2
//	72  magic           u64    "bloomsst"
//
// In front of it version 2 has:
//
//	 0  flags           u64    1: the index is in parts; 2: range deletes overlap
//	 8  reserved        9×u32  0
//	44  checksum        u32    as that of a block, of bytes 0…43
//
// A program refuses a table with a flag that it does not know, as one of a later version. The reserved bytes have space
// for the offset and the length of a third filter and for two moments.
const (
	footerSize  = 80
	extraSize   = 48 // in front of the footer in version 2
	trailerSize = 5
	magic       = "bloomsst"
	version     = 2
	filterAlign = 64

	flagParts   = 1
	flagOverlap = 2
	knownFlags  = flagParts | flagOverlap
)

// FormatVersion is the latest version of tables that a Writer writes. A Reader reads all up to it.
const FormatVersion = version

// maxKey and maxValue are the largest lengths of a user key and of a value, in bytes.
const (
	maxKey   = 64 << 10
	maxValue = 256 << 20
)

const (
	maxPlain = maxValue + maxKey + 64 // a block of one entry, at most
	maxCoded = 64 << 20               // decoded length of a compressed block, at most
	maxRatio = 1024                   // decoded length of a compressed block, as a multiple of the stored one, at most
	maxTail  = 1 << 30

	maxFilter = 1 << 30 // of both filters: those of some 800 million keys
	maxSample = 1 << 16 // of a sample block
)

// ErrVersion is returned for a table in a format of a later version.
var ErrVersion = corrupt.ErrUnsupportedVersion

// Reasons for damage, which the reader wraps with file and offset.
var (
	errChecksum = errors.New("checksum mismatch")
	errShort    = errors.New("file ends too early")
)

// A Kind of block is part of its checksum.
type Kind uint8

const (
	KindData       Kind = 1
	KindIndex      Kind = 2
	KindProperties Kind = 3
	KindFilter     Kind = 4
	KindRangeDels  Kind = 5
	KindSample     Kind = 6
	KindPrefixes   Kind = 7
	KindPart       Kind = 8
	KindTop        Kind = 9
	KindExtra      Kind = 10 // what is in front of the footer
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A Seal makes and checks the checksums of one table's blocks.
type Seal struct{ id uint32 } // the state of the CRC after the table id

// NewSeal returns the Seal of the table with that id.
func NewSeal(id uint64) Seal { return Seal{crcWord(^uint32(0), id)} }

// sum returns the checksum of a block (I24). body is the payload and the codec byte.
func (s Seal) sum(k Kind, offset uint64, body []byte) uint32 {
	return crc32.Update(^s.Before(k, offset), castagnoli, body)
}

// Before returns the state of the CRC before a payload at that offset.
func (s Seal) Before(k Kind, offset uint64) uint32 {
	return crcWord(castagnoli[s.id&0xff^uint32(k)]^s.id>>8, offset)
}

// filterSum returns a checksum that binds a filter, of keys or of prefixes, to its table and offset. b begins with the
// filter's header.
func (s Seal) filterSum(k Kind, offset uint64, b []byte) uint32 {
	return s.sum(k, offset, b[:bloomblock.HeaderSize-4])
}

// crcWord returns the state of a CRC-32C after eight more bytes. It avoids crc32.Update, through which bytes on the
// stack would escape.
func crcWord(c uint32, v uint64) uint32 {
	for range 8 {
		c = castagnoli[uint64(c&0xff)^v&0xff] ^ c>>8
		v >>= 8
	}
	return c
}

// appendTrailer appends codec and checksum to dst. The payload is dst[start:].
func (s Seal) appendTrailer(dst []byte, start int, k Kind, offset uint64, c Codec) []byte {
	dst = append(dst, byte(c))
	return binary.LittleEndian.AppendUint32(dst, s.sum(k, offset, dst[start:]))
}

// Open checks a block that was read with its trailer, and returns payload and codec.
func (s Seal) Open(k Kind, offset uint64, sealed []byte) ([]byte, Codec, error) {
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
	sampleLen             uint32
	version               uint32 // 1 or 2
	flags                 uint64
	tailLen               uint64 // from the size of the file
}

// inParts reports whether the index is in parts, so that the tail has its top.
func (f *footer) inParts() bool { return f.flags&flagParts != 0 }

// overlaps reports whether range deletes overlap.
func (f *footer) overlaps() bool { return f.flags&flagOverlap != 0 }

// indexKind returns the kind of the block at the index offset.
func (f *footer) indexKind() Kind {
	if f.inParts() {
		return KindTop
	}
	return KindIndex
}

// size returns the length of the footer, with what is in front of it.
func (f *footer) size() uint64 {
	if f.version == version {
		return extraSize + footerSize
	}
	return footerSize
}

// append appends the footer, which begins at offset.
func (f *footer) append(dst []byte, offset uint64) []byte {
	if f.version == version {
		start := len(dst)
		dst = binary.LittleEndian.AppendUint64(dst, f.flags)
		dst = append(dst, make([]byte, extraSize-8-4)...)
		dst = binary.LittleEndian.AppendUint32(dst, NewSeal(f.id).sum(KindExtra, offset, dst[start:]))
	}
	start := len(dst)
	for _, v := range [...]uint64{f.id, f.filterOff, f.filterLen, f.indexOff, f.indexLen, f.rangeDelLen, f.propsLen} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	dst = binary.LittleEndian.AppendUint32(dst, f.filterSum)
	dst = binary.LittleEndian.AppendUint32(dst, f.sampleLen)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, f.version)
	dst = append(dst, magic...)
	binary.LittleEndian.PutUint32(dst[start+64:], footerSum(dst[start:]))
	return dst
}

// slack returns the number of bytes that may lie between the data blocks, or the parts of the index, and the sample.
func (f *footer) slack() uint64 {
	if f.filterLen == 0 {
		return 0
	}
	return filterAlign - 1
}

// sampleOff returns the offset of the sample, or of the filter if there is no sample. The padding before the filter
// ends there.
func (f *footer) sampleOff() uint64 {
	if f.sampleLen == 0 {
		return f.filterOff
	}
	return f.filterOff - uint64(f.sampleLen) - trailerSize
}

// rangeDelOff returns the offset of the range deletes block, if there is one.
func (f *footer) rangeDelOff() uint64 { return f.indexOff + f.indexLen + trailerSize }

// propsOff returns the offset of the properties.
func (f *footer) propsOff() uint64 {
	if f.rangeDelLen == 0 {
		return f.rangeDelOff()
	}
	return f.rangeDelOff() + f.rangeDelLen + trailerSize
}

func footerSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:64], castagnoli), castagnoli, b[68:footerSize])
}

// parseFooter checks every field of a footer in a file of size bytes (I29, I30). b is the end of the file:
// footerSize bytes at least, and extraSize more if the file has as many.
func parseFooter(b []byte, size uint64) (footer, error) {
	var f footer
	if len(b) < footerSize || size < uint64(len(b)) {
		return f, fmt.Errorf("footer of %d bytes in a file of %d, want %d", len(b), size, footerSize)
	}
	before := b[:len(b)-footerSize]
	b = b[len(before):]
	if got := string(b[72:]); got != magic {
		return f, fmt.Errorf("magic %q, want %q", got, magic)
	}
	if got, want := footerSum(b), binary.LittleEndian.Uint32(b[64:]); got != want {
		return f, fmt.Errorf("footer: %w: got %08x, want %08x", errChecksum, got, want)
	}
	if f.version = binary.LittleEndian.Uint32(b[68:]); f.version == 0 || f.version > version {
		return f, fmt.Errorf("%w %d, want at most %d", ErrVersion, f.version, version)
	}
	for i, p := range [...]*uint64{
		&f.id, &f.filterOff, &f.filterLen, &f.indexOff, &f.indexLen, &f.rangeDelLen, &f.propsLen,
	} {
		*p = binary.LittleEndian.Uint64(b[8*i:])
	}
	f.filterSum, f.sampleLen = binary.LittleEndian.Uint32(b[56:]), binary.LittleEndian.Uint32(b[60:])
	if f.version == version {
		if err := f.parseExtra(before, size-footerSize); err != nil {
			return f, err
		}
	}
	switch {
	case f.filterOff > size || f.filterLen > size || f.indexOff > size:
		return f, fmt.Errorf("a part of the table is longer than its %d bytes", size)
	case max(f.indexLen, f.rangeDelLen, f.propsLen) > maxTail: // so that their sum does not wrap
		return f, fmt.Errorf("index of %d, range deletes of %d and properties of %d bytes, want at most %d",
			f.indexLen, f.rangeDelLen, f.propsLen, maxTail)
	case f.filterLen > maxFilter:
		return f, fmt.Errorf("filter of %d bytes, want at most %d", f.filterLen, maxFilter)
	case f.sampleLen > maxSample ||
		f.sampleLen > 0 && (f.filterLen == 0 || f.filterOff < uint64(f.sampleLen)+trailerSize):
		return f, fmt.Errorf("sample of %d bytes before a filter of %d at %d, want at most %d",
			f.sampleLen, f.filterLen, f.filterOff, maxSample)
	case f.filterOff+f.filterLen != f.indexOff:
		return f, fmt.Errorf("filter ends at %d, want %d", f.filterOff+f.filterLen, f.indexOff)
	case f.filterLen != 0 && f.filterOff%filterAlign != 0:
		return f, fmt.Errorf("filter at %d, want a multiple of %d", f.filterOff, filterAlign)
	case f.filterLen == 0 && f.filterSum != 0:
		return f, errors.New("checksum of a filter without a filter")
	}
	f.tailLen = size - f.indexOff
	if want := f.propsOff() - f.indexOff + f.propsLen + trailerSize + f.size(); f.tailLen != want {
		return f, fmt.Errorf("tail of %d bytes, want %d", f.tailLen, want)
	}
	if f.tailLen > maxTail {
		return f, fmt.Errorf("tail of %d bytes, want at most %d", f.tailLen, maxTail)
	}
	return f, nil
}

// parseExtra checks what is in front of the footer, at the end of b and of the first end bytes of the file.
func (f *footer) parseExtra(b []byte, end uint64) error {
	if len(b) < extraSize {
		return fmt.Errorf("footer: %d bytes in front of it, want %d", len(b), extraSize)
	}
	const sealed = extraSize - 4
	b = b[len(b)-extraSize:]
	got, want := NewSeal(f.id).sum(KindExtra, end-extraSize, b[:sealed]), binary.LittleEndian.Uint32(b[sealed:])
	if got != want {
		return fmt.Errorf("footer: %w in front of it: got %08x, want %08x", errChecksum, got, want)
	}
	if f.flags = binary.LittleEndian.Uint64(b); f.flags&^knownFlags != 0 {
		return fmt.Errorf("%w: flags %#x, want none but %#x", ErrVersion, f.flags, uint64(knownFlags))
	}
	if len(bytes.TrimLeft(b[8:sealed], "\x00")) > 0 {
		return errors.New("footer: reserved bytes are not zero")
	}
	return nil
}
