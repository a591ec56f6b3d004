package bloomkv

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// Batch is a list of writes that are applied together: all of them or none, also across a crash. The zero value is an empty
// batch. A batch has no handle to any store and needs no Close; it may be applied more than once and to several stores.
// It is not safe for concurrent use while it is changed.
//
// A key or value that is too large is reported by Apply.
type Batch struct {
	ops   []byte // see appendOp; also the payload of a log record
	count uint32
	err   error // the first limit that an operation exceeded
}

// Put adds a write of value under key. Both are copied; nil is the empty key, or the empty value.
func (b *Batch) Put(key, value []byte) { b.add(ikey.Set, key, value) }

// Delete adds a removal of key. The key is copied.
func (b *Batch) Delete(key []byte) { b.add(ikey.Delete, key, nil) }

// Len is the number of operations.
func (b *Batch) Len() int { return int(b.count) }

// Size is the number of bytes the operations take in the log.
func (b *Batch) Size() int { return len(b.ops) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.ops, b.count, b.err = b.ops[:0], 0, nil }

func (b *Batch) add(kind ikey.Kind, key, value []byte) {
	switch {
	case b.err != nil:
	case len(key) > MaxKeySize:
		b.err = fmt.Errorf("bloomkv: key of %d bytes, want at most %d: %w", len(key), MaxKeySize, ErrTooLarge)
	case len(value) > MaxValueSize:
		b.err = fmt.Errorf("bloomkv: value of %d bytes, want at most %d: %w", len(value), MaxValueSize, ErrTooLarge)
	case recordHeader+len(b.ops)+maxOpHeader+len(key)+len(value) > MaxBatchSize:
		b.err = fmt.Errorf("bloomkv: batch of more than %d bytes: %w", MaxBatchSize, ErrTooLarge)
	default:
		b.ops = appendOp(b.ops, kind, key, value)
		b.count++
	}
}

// An operation in a batch and in the log:
//
//	+---------+---------------+-----+------------------+-------+
//	| kind u8 | key length uv | key | value length uv  | value |     the last two only where kind is Set
//	+---------+---------------+-----+------------------+-------+
const maxOpHeader = 1 + 2*binary.MaxVarintLen32

func appendOp(dst []byte, kind ikey.Kind, key, value []byte) []byte {
	dst = append(dst, byte(kind))
	dst = binary.AppendUvarint(dst, uint64(len(key)))
	dst = append(dst, key...)
	if kind == ikey.Set {
		dst = binary.AppendUvarint(dst, uint64(len(value)))
		dst = append(dst, value...)
	}
	return dst
}

var (
	errOpKind   = errors.New("batch: unknown kind of operation")
	errOpLength = errors.New("batch: operation longer than the batch, or a key or value over its limit")
)

// nextOp splits the first operation off ops.
func nextOp(ops []byte) (kind ikey.Kind, key, value, rest []byte, err error) {
	kind = ikey.Kind(ops[0])
	if kind != ikey.Set && kind != ikey.Delete {
		return 0, nil, nil, nil, fmt.Errorf("%w: %d", errOpKind, kind)
	}
	key, rest, ok := cutField(ops[1:], MaxKeySize)
	if ok && kind == ikey.Set {
		value, rest, ok = cutField(rest, MaxValueSize)
	}
	if !ok {
		return 0, nil, nil, nil, errOpLength
	}
	return kind, key, value, rest, nil
}

// cutField splits a length and that many bytes off b.
func cutField(b []byte, limit uint64) (field, rest []byte, ok bool) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > limit || n > uint64(len(b)-w) { //nolint:gosec // w ≤ len(b)
		return nil, nil, false
	}
	end := w + int(n) //nolint:gosec // n ≤ len(b)
	return b[w:end:end], b[end:], true
}

// A log record:
//
//	0                 8           12
//	+-----------------+-----------+------------+-----+
//	| first sequence  | count u32 | operations | ... |     one sequence number each, in order; count ≥ 1
//	+-----------------+-----------+------------+-----+
const recordHeader = 12

var errRecord = errors.New("batch: record is malformed")

func appendRecordHeader(dst []byte, first ikey.Seq, count uint32) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(first))
	return binary.LittleEndian.AppendUint32(dst, count)
}

// decodeRecord checks a log record and calls each with its operations, whose slices alias the record.
func decodeRecord(record []byte, each func(seq ikey.Seq, kind ikey.Kind, key, value []byte)) (first ikey.Seq, count uint32, err error) {
	if len(record) < recordHeader {
		return 0, 0, fmt.Errorf("%w: %d bytes", errRecord, len(record))
	}
	first = ikey.Seq(binary.LittleEndian.Uint64(record))
	count = binary.LittleEndian.Uint32(record[8:])
	if first == 0 || first > ikey.MaxSeq-ikey.Seq(count) || count == 0 {
		return 0, 0, fmt.Errorf("%w: sequence %d, %d operations", errRecord, first, count)
	}
	ops, seq := record[recordHeader:], first
	for len(ops) > 0 {
		kind, key, value, rest, err := nextOp(ops)
		if err != nil {
			return 0, 0, err
		}
		if seq-first == ikey.Seq(count) {
			return 0, 0, fmt.Errorf("%w: more operations than the %d announced", errRecord, count)
		}
		each(seq, kind, key, value)
		ops = rest
		seq++
	}
	if seq-first != ikey.Seq(count) {
		return 0, 0, fmt.Errorf("%w: %d operations, want %d", errRecord, seq-first, count)
	}
	return first, count, nil
}
