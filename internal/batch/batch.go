// Package batch encodes and decodes the operations of a batch, within their limits, and the log record that holds them.
package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// The limits of what a store writes, in bytes.
const (
	MaxKey      = 64 << 10
	MaxNewValue = 64 << 20
	MaxMark     = 256
	MaxSize     = 128 << 20 // of all operations and the header of their record
)

// MaxValue is the largest length of a value that is read, in bytes. Logs of older versions may have such values.
const MaxValue = 256 << 20

// MaxBound is the largest useful length of a range's bound: a longer one bounds the same keys as one of this length.
const MaxBound = MaxKey + 1

// A Mark is the mark that a batch has set, with the sequence number of that operation. A Seq of 0 means that no mark
// was ever set; a mark without bytes, that it was cleared.
type Mark struct {
	Seq   ikey.Seq
	Bytes []byte
}

// MaxOpHeader is the largest size of an operation without its key and value, in bytes. The format of an operation, in a
// batch and in the log:
//
//	+---------+---------------+-----+------------------+-------+
//	| kind u8 | key length uv | key | value length uv  | value |     Set
//	+---------+---------------+-----+------------------+-------+
//	+---------+---------------+-----+
//	| kind u8 | key length uv | key |                               Delete
//	+---------+---------------+-----+
//	+---------+---------------+-----+------------------+-------+
//	| kind u8 | key length uv | key | 1 + length uv, 0 | end   |     RangeDelete; 0: no end, else end > key
//	+---------+---------------+-----+------------------+-------+
//	+---------+----------------+------+
//	| kind u8 | mark length uv | mark |                             Mark
//	+---------+----------------+------+
const MaxOpHeader = 1 + 2*binary.MaxVarintLen32

// AppendOp appends an operation, whose fields must be within their limits. The value of a RangeDelete is its end, nil
// for a range without end. A Mark has a value and no key.
func AppendOp(dst []byte, kind ikey.Kind, key, value []byte) []byte {
	dst = append(dst, byte(kind))
	if kind == ikey.Mark {
		key, value = value, nil // it is encoded like a key alone
	}
	dst = binary.AppendUvarint(dst, uint64(len(key)))
	dst = append(dst, key...)
	switch {
	case kind == ikey.Set:
		dst = binary.AppendUvarint(dst, uint64(len(value)))
	case kind == ikey.RangeDelete && value == nil:
		return append(dst, 0)
	case kind == ikey.RangeDelete:
		dst = binary.AppendUvarint(dst, uint64(len(value))+1)
	}
	return append(dst, value...)
}

var (
	errOpKind   = errors.New("batch: unknown kind of operation")
	errOpLength = errors.New("batch: operation longer than the batch, or a key, value or mark over its limit")
	errOpRange  = errors.New("batch: range that is empty")
)

// NextOp splits the first operation off ops, which must not be empty; the fields share bytes with ops. The value of a
// RangeDelete is its end, nil for a range without end. A Mark has a value and no key.
func NextOp(ops []byte) (kind ikey.Kind, key, value, rest []byte, err error) {
	var ok bool
	switch kind = ikey.Kind(ops[0]); kind {
	case ikey.Set:
		key, rest, _ = cutField(ops[1:], MaxKey)
		value, rest, ok = cutField(rest, MaxValue) // not ok for the nil rest of a key that was not
	case ikey.Delete:
		key, rest, ok = cutField(ops[1:], MaxKey)
	case ikey.Mark:
		value, rest, ok = cutField(ops[1:], MaxMark)
	case ikey.RangeDelete:
		key, rest, ok = cutField(ops[1:], MaxBound)
		if len(rest) > 0 && rest[0] == 0 {
			rest = rest[1:]
			break
		}
		var n uint64
		var w int
		n, w = binary.Uvarint(rest)                      // n is 0 if there is none
		if n > MaxBound+1 || n-1 > uint64(len(rest)-w) { //nolint:gosec // w ≤ len(rest); 0-1 is too large
			ok = false
			break
		}
		end := w + int(n) - 1
		if value, rest = rest[w:end:end], rest[end:]; bytes.Compare(key, value) >= 0 {
			return 0, nil, nil, nil, errOpRange
		}
	default:
		return 0, nil, nil, nil, fmt.Errorf("%w: %d", errOpKind, kind)
	}
	if !ok {
		return 0, nil, nil, nil, errOpLength
	}
	return kind, key, value, rest, nil
}

// cutField splits off b a length and the field of that length.
func cutField(b []byte, limit uint64) (field, rest []byte, ok bool) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > limit || n > uint64(len(b)-w) { //nolint:gosec // w ≤ len(b)
		return nil, nil, false
	}
	end := w + int(n) //nolint:gosec // n ≤ len(b)
	return b[w:end:end], b[end:], true
}

// RecordHeader is the size of a log record without its operations, in bytes. A record:
//
//	0                 8           12
//	+-----------------+-----------+------------+-----+
//	| first sequence  | count u32 | operations | ... |     one sequence number each, in order; count ≥ 1
//	+-----------------+-----------+------------+-----+
const RecordHeader = 12

var errRecord = errors.New("batch: malformed")

// AppendRecordHeader appends the header of a record, which is followed by its operations.
func AppendRecordHeader(dst []byte, first ikey.Seq, count uint32) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(first))
	return binary.LittleEndian.AppendUint32(dst, count)
}

// SetRecordCount sets the number of operations in the header of a record.
func SetRecordCount(record []byte, count uint32) { binary.LittleEndian.PutUint32(record[8:], count) }

// ReadRecord checks a log record and calls each with its operations, whose slices alias the record. It may call each
// before it finds an error. The error describes the defect but not the record's position.
func ReadRecord(
	record []byte, each func(seq ikey.Seq, kind ikey.Kind, key, value []byte),
) (first ikey.Seq, count uint32, err error) {
	if len(record) < RecordHeader {
		return 0, 0, fmt.Errorf("%w: %d bytes", errRecord, len(record))
	}
	first = ikey.Seq(binary.LittleEndian.Uint64(record))
	count = binary.LittleEndian.Uint32(record[8:])
	if first == 0 || first > ikey.MaxSeq-ikey.Seq(count) || count == 0 {
		return 0, 0, fmt.Errorf("%w: sequence %d, %d operations", errRecord, first, count)
	}
	return first, count, ReadOps(first, count, record[RecordHeader:], each)
}

// ReadOps does what ReadRecord does for the operations of a record whose header has been read.
func ReadOps(
	first ikey.Seq, count uint32, ops []byte, each func(seq ikey.Seq, kind ikey.Kind, key, value []byte),
) error {
	seq := first
	for len(ops) > 0 {
		kind, key, value, rest, err := NextOp(ops)
		if err != nil {
			return err
		}
		if seq-first == ikey.Seq(count) {
			return fmt.Errorf("%w: more operations than the %d announced", errRecord, count)
		}
		each(seq, kind, key, value)
		ops = rest
		seq++
	}
	if seq-first != ikey.Seq(count) {
		return fmt.Errorf("%w: %d operations, want %d", errRecord, seq-first, count)
	}
	return nil
}
