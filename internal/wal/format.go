// Package wal writes and reads logs of records. A record is whole or absent, and a lost record is distinguished from
// one that was never finished.
//
// The content of records is opaque to it. Writer appends and syncs; Replay reads back. A log is written once, by one
// Writer, from its first byte to its last: it is never appended to after it was read (I10) and never reused for another
// number (I11). Space for records may be reserved ahead (NewReserving) as zeros, which are never a record: zeros up to
// the file's end mark the end of the log. The length of the file therefore means nothing, except that a Writer makes no
// file longer than MaxSize: a longer one, which may be sparse, is damaged and is not read (I41).
package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/bloomkv/bloomkv/internal/corrupt"
)

// A log, all numbers little-endian:
//
//	0             32
//	+-------------+--------+--------+---+-------+
//	| file header | record | record | … | zeros |
//	+-------------+--------+--------+---+-------+
//
// The file header:
//
//	0          8             12        16           24       32
//	+----------+-------------+---------+------------+--------+
//	| bloomwal | version u32 | crc u32 | number u64 | id u64 |
//	+----------+-------------+---------+------------+--------+
//
// crc is the CRC-32C of the other 28 bytes. It keeps its position in every later version, so that an unknown version is
// distinguished from a damaged one.
//
// A record:
//
//	0         4             8            12         16            22      23     24
//	+---------+-------------+------------+----------+-------------+-------+------+---------+
//	| crc u32 | payload crc | length u32 | salt u32 | promise u48 | flags | kind | payload |
//	+---------+-------------+------------+----------+-------------+-------+------+---------+
//
// crc is the CRC-32C of the header's other 20 bytes, seeded with the log's number and the record's offset: a header is
// valid only in this log and at this offset (I7). salt is the log's id folded to 32 bits: a header is valid only in
// this file and not in an older one with the same number, whose bytes may lie in a disk's unwritten blocks or in a
// user's value. The salt is in the header, not in the seed, so that the log's own headers are recognized even if the
// file header is lost.
//
// promise is an offset: when the record was written, the log was durable up to there, so it is at most the record's own
// offset and never decreases. flagOlder promises the same of every log with a smaller number, in full. A bad record
// before a promise is damage; a bad record that no promise covers is where writing stopped (I8).
//
// kind is always recordKind, which is not 0: zeros are never a record.
const (
	magic            = "bloomwal"
	version          = 1
	fileHeaderSize   = 32
	recordHeaderSize = 24

	saltAt     = 12 // in a record's header
	kindAt     = 23
	recordKind = 0xb7
	flagOlder  = 0x01 // in flags; the other bits are 0

	maxPromise = 1<<48 - 1
	maxLength  = 512 << 20 // of a payload, on any machine
)

// FormatVersion is the version of the logs that this package writes. It reads no other.
const FormatVersion = version

// HeaderSize is the number of bytes that Append needs in front of a payload.
const HeaderSize = recordHeaderSize

// FirstRecord is the offset of the first record of a log, in bytes.
const FirstRecord = fileHeaderSize

// MaxSize is the largest length of a log's file, in bytes, reserved space included: 2 GiB, about four of the largest
// records. The owner of a Writer begins a new log before that.
const MaxSize = 2 << 30

// MaxPayload is the largest payload this machine writes and reads, in bytes: 512 MiB, or 128 MiB where int has 32 bits.
const MaxPayload = 128 << 20 << (2 * (^uint(0) >> 63))

var (
	// ErrUnsupportedVersion means that a log has a format which this program does not know. It is not damage.
	ErrUnsupportedVersion = corrupt.ErrUnsupportedVersion
	// ErrTooLarge means that a payload exceeds MaxPayload.
	ErrTooLarge = errors.New("log record too large")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// saltOf folds a log's id. The first byte is never 0, so that a search for a salt finds nothing in zeros.
func saltOf(id uint64) uint32 { return uint32(id>>32) ^ uint32(id&0xffffffff) | 1 }

// seed returns the initial value of the CRC of a record's header.
func seed(number uint64, offset int64) uint32 {
	at := uint64(offset) //nolint:gosec // not negative
	return uint32((number*0x9e3779b97f4a7c15 ^ at*0xc2b2ae3d27d4eb4f) >> 32)
}

func appendFileHeader(dst []byte, number, id uint64) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint32(dst, version)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint64(dst, number)
	dst = binary.LittleEndian.AppendUint64(dst, id)
	h := dst[start:]
	binary.LittleEndian.PutUint32(h[12:], fileHeaderCRC(h))
	return dst
}

func fileHeaderCRC(h []byte) uint32 {
	return crc32.Update(crc32.Checksum(h[:12], castagnoli), castagnoli, h[16:fileHeaderSize])
}

// errBroken marks errors that an interrupted write can cause; any other reason is certain damage.
var errBroken = errors.New("broken")

// ParseFileHeader returns the salt of all records of a log with that number. h is the file header: the file's first
// FirstRecord bytes, or all of a shorter file.
func ParseFileHeader(h []byte, number uint64) (salt uint32, err error) {
	if len(h) < fileHeaderSize {
		return 0, fmt.Errorf("%w file header: %d bytes, want %d", errBroken, len(h), fileHeaderSize)
	}
	if string(h[:8]) != magic {
		return 0, fmt.Errorf("%w file header: magic %q, want %q", errBroken, h[:8], magic)
	}
	if got, want := binary.LittleEndian.Uint32(h[12:]), fileHeaderCRC(h); got != want {
		return 0, fmt.Errorf("%w file header: checksum %08x, want %08x", errBroken, got, want)
	}
	if got := binary.LittleEndian.Uint32(h[8:]); got != version {
		return 0, fmt.Errorf("%w: log version %d, want %d", ErrUnsupportedVersion, got, version)
	}
	if got := binary.LittleEndian.Uint64(h[16:]); got != number {
		return 0, fmt.Errorf("file header: log number %d, want %d", got, number)
	}
	return saltOf(binary.LittleEndian.Uint64(h[24:])), nil
}

// A RecordHeader is the header of a record without its own checksum.
type RecordHeader struct {
	payloadCRC uint32
	length     uint32
	salt       uint32
	promise    int64 // 0..maxPromise
	flags      uint8
}

// Length returns the length of the payload in bytes.
func (h RecordHeader) Length() int64 { return int64(h.length) }

// Salt returns the salt of the log, which is not 0.
func (h RecordHeader) Salt() uint32 { return h.salt }

// CheckLength returns an error if the payload does not fit the given number of bytes after the header, or is larger
// than MaxPayload.
func (h RecordHeader) CheckLength(left int64) error {
	switch {
	case h.Length() > left:
		return fmt.Errorf("%w record: %d bytes of payload, want %d", errBroken, left, h.length)
	case h.length > MaxPayload:
		return fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, h.length, MaxPayload)
	}
	return nil
}

// Check returns an error if the payload is not the one that was written with the header.
func (h RecordHeader) Check(payload []byte) error {
	if got := crc32.Checksum(payload, castagnoli); got != h.payloadCRC {
		return fmt.Errorf("%w record: payload checksum %08x, want %08x", errBroken, got, h.payloadCRC)
	}
	return nil
}

func appendRecordHeader(dst []byte, h RecordHeader, number uint64, offset int64) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, h.payloadCRC)
	dst = binary.LittleEndian.AppendUint32(dst, h.length)
	dst = binary.LittleEndian.AppendUint32(dst, h.salt)
	promise := uint64(h.promise) //nolint:gosec // not negative
	dst = binary.LittleEndian.AppendUint64(dst, promise|uint64(h.flags)<<48|recordKind<<56)
	b := dst[start:]
	binary.LittleEndian.PutUint32(b, crc32.Update(seed(number, offset), castagnoli, b[4:recordHeaderSize]))
	return dst
}

// parseRecordHeader parses the recordHeaderSize bytes of b, which lie at offset. It returns false if they are not a
// header that was written at that offset of a log with that number.
func parseRecordHeader(b []byte, number uint64, offset int64) (RecordHeader, bool) {
	if b[kindAt] != recordKind ||
		binary.LittleEndian.Uint32(b) != crc32.Update(seed(number, offset), castagnoli, b[4:recordHeaderSize]) {
		return RecordHeader{}, false
	}
	word := binary.LittleEndian.Uint64(b[16:])
	return RecordHeader{
		payloadCRC: binary.LittleEndian.Uint32(b[4:]),
		length:     binary.LittleEndian.Uint32(b[8:]),
		salt:       binary.LittleEndian.Uint32(b[saltAt:]),
		promise:    int64(word & maxPromise),
		flags:      b[22],
	}, true
}

// FindHeader returns the index of the first valid header of a log in b, which lies at offset, or -1. Only headers with
// the salt are found, or any if the salt is 0, which means unknown. It finds a header of HeaderSize bytes.
func FindHeader(b []byte, number uint64, salt uint32, offset int64) (int, RecordHeader) {
	// Search for a pattern at its position in a header before checking any checksum.
	pattern, at := binary.LittleEndian.AppendUint32(make([]byte, 0, 4), salt), saltAt
	if salt == 0 {
		pattern, at = append(pattern[:0], recordKind), kindAt
	}
	for o := 0; o+recordHeaderSize <= len(b); o++ {
		i := bytes.Index(b[o+at:len(b)-recordHeaderSize+at+len(pattern)], pattern)
		if i < 0 {
			break
		}
		o += i
		if h, ok := parseRecordHeader(b[o:o+recordHeaderSize], number, offset+int64(o)); ok {
			return o, h
		}
	}
	return -1, RecordHeader{}
}
