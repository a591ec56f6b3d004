// Package wal is a log of records of bytes: a record is whole or it is not there, and a record that was lost is told from
// one that was never finished.
//
// It knows nothing of what is in a record. Writer appends and syncs; Replay reads back. A log is written once, by one
// Writer, from its first byte to its last: it is never appended to after it was read and never reused for another number.
// Room for records may be reserved ahead (NewReserving): zeros, which are no records, so that zeros up to the file's end are
// the end of the log. How long the file is says nothing, then, and is held against nothing.
package wal

import (
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
// crc is the CRC-32C of the other 28 bytes. It stays in its place in every later version, so that a version that is not
// known is told from a damaged one.
//
// A record:
//
//	0         4             8            12         16            22      23     24
//	+---------+-------------+------------+----------+-------------+-------+------+---------+
//	| crc u32 | payload crc | length u32 | salt u32 | promise u48 | flags | kind | payload |
//	+---------+-------------+------------+----------+-------------+-------+------+---------+
//
// crc is the CRC-32C of the header's other 20 bytes, seeded with the log's number and the record's offset: a header is of
// this log and of this place, or it is not valid. salt is the log's id in 32 bits: a header is of this file and not of an
// older one with the same number, whose bytes may lie in a disk's unwritten blocks or in a user's value. It stands in the
// header, rather than in the seed, so that headers are still known for the log's own where the file header is lost.
//
// promise is an offset: when the record was written the log was durable up to there, so it is at most the record's own
// offset and never falls. flagOlder promises the same of every log with a smaller number, all of it. A bad record before a
// promise is damage; one that no promise covers is where writing stopped (I8).
//
// kind is always recordKind, which is not 0: bytes that are all zero are never a record.
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

// FormatVersion is the version of the logs that this package writes, and the only one that it reads.
const FormatVersion = version

// HeaderSize is the room that Append needs in front of a payload, in bytes.
const HeaderSize = recordHeaderSize

// FirstRecord is where the first record of a log begins, in bytes.
const FirstRecord = fileHeaderSize

// MaxPayload is the largest payload this machine writes and reads, in bytes: 512 MiB, or 128 MiB where int has 32 bits.
const MaxPayload = 128 << 20 << (2 * (^uint(0) >> 63))

var (
	// ErrUnsupportedVersion says that a log was written in a format which this program does not know. It is not damage.
	ErrUnsupportedVersion = corrupt.ErrUnsupportedVersion
	// ErrTooLarge says that a payload is over MaxPayload.
	ErrTooLarge = errors.New("log record too large")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// saltOf folds a log's id. The first byte is never 0, so that searching zeros for a salt finds nothing.
func saltOf(id uint64) uint32 { return uint32(id>>32) ^ uint32(id&0xffffffff) | 1 }

// seed is where the CRC of a record's header starts.
func seed(number uint64, offset int64) uint32 {
	return uint32((number*0x9e3779b97f4a7c15 ^ uint64(offset)*0xc2b2ae3d27d4eb4f) >> 32) //nolint:gosec // an offset is at least 0
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

// errBroken marks what an interrupted write can leave behind; any other reason is damage for certain.
var errBroken = errors.New("broken")

// parseFileHeader returns the id in a file header of fileHeaderSize bytes.
func parseFileHeader(h []byte, number uint64) (id uint64, err error) {
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
	return binary.LittleEndian.Uint64(h[24:]), nil
}

// A recordHeader is what is in front of a payload, its own checksum apart.
type recordHeader struct {
	payloadCRC uint32
	length     uint32
	salt       uint32
	promise    int64 // 0..maxPromise
	flags      uint8
}

func appendRecordHeader(dst []byte, h recordHeader, number uint64, offset int64) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, h.payloadCRC)
	dst = binary.LittleEndian.AppendUint32(dst, h.length)
	dst = binary.LittleEndian.AppendUint32(dst, h.salt)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.promise)|uint64(h.flags)<<48|recordKind<<56) //nolint:gosec // at least 0
	b := dst[start:]
	binary.LittleEndian.PutUint32(b, crc32.Update(seed(number, offset), castagnoli, b[4:recordHeaderSize]))
	return dst
}

// parseRecordHeader reads the recordHeaderSize bytes of b, which lie at offset. False says that they are not a header
// that was written there in a log of that number.
func parseRecordHeader(b []byte, number uint64, offset int64) (recordHeader, bool) {
	if b[kindAt] != recordKind ||
		binary.LittleEndian.Uint32(b) != crc32.Update(seed(number, offset), castagnoli, b[4:recordHeaderSize]) {
		return recordHeader{}, false
	}
	word := binary.LittleEndian.Uint64(b[16:])
	return recordHeader{
		payloadCRC: binary.LittleEndian.Uint32(b[4:]),
		length:     binary.LittleEndian.Uint32(b[8:]),
		salt:       binary.LittleEndian.Uint32(b[saltAt:]),
		promise:    int64(word & maxPromise),
		flags:      b[22],
	}, true
}
