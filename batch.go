package bloomkv

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// Batch is a list of writes that are applied together: all of them or none, even across a crash. The zero value is an
// empty batch. A batch refers to no store and needs no Close. It may be applied more than once and to several stores;
// MarshalBinary encodes it for storage or transport. A later operation of a batch overrides an earlier one on the
// same key.
//
// A batch must not be used concurrently while one goroutine changes it, and must not be copied after first use, since
// the copies would share memory.
//
// Apply and MarshalBinary return an error if a key, a value or the batch is too large. Operations added before the
// one that was too large still count in Len and Size; operations added after it are ignored until Reset.
type Batch struct {
	_     noCopy
	ops   []byte // encoded by package batch; also the payload of a log record
	count uint32
	err   error // the first limit that an operation exceeded
}

// go vet reports copies of what has a noCopy.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Put adds an operation that stores value under key. Both are copied. A nil key is the empty key, a nil value the
// empty value.
func (b *Batch) Put(key, value []byte) { b.add(ikey.Set, key, value) }

// Delete adds an operation that deletes key. The key is copied.
func (b *Batch) Delete(key []byte) { b.add(ikey.Delete, key, nil) }

// DeleteRange adds an operation that deletes all keys of a range. An empty range adds nothing. The bounds are copied.
// Keys that the batch puts later are not deleted.
func (b *Batch) DeleteRange(r KeyRange) {
	lo, hi := cutBound(r.Lower), cutBound(r.Upper)
	if hi == nil || bytes.Compare(lo, hi) < 0 {
		b.add(ikey.RangeDelete, lo, hi)
	}
}

// SetMark adds an operation that makes mark the mark of the store: see [DB.Mark]. A batch may have a mark alone. The
// last mark of a batch counts. A mark of length 0 removes the mark of the store. The mark is copied, and has at most
// MaxMarkSize bytes.
func (b *Batch) SetMark(mark []byte) {
	if b.err == nil {
		b.err = checkMark(mark)
	}
	b.add(ikey.Mark, nil, mark)
}

// cutBound shortens a bound that is longer than any key can be. The result has the same keys before it.
func cutBound(b []byte) []byte { return b[:min(len(b), batch.MaxBound)] }

// Append adds all operations of other, which is not changed. other may be b itself. If other has exceeded a limit, b
// reports the same error from then on.
func (b *Batch) Append(other *Batch) {
	switch {
	case b.err != nil:
	case other.err != nil:
		b.err = other.err
	case batch.RecordHeader+len(b.ops)+len(other.ops) > MaxBatchSize:
		b.err = errBatchSize
	default:
		b.ops = append(b.ops, other.ops...)
		b.count += other.count
	}
}

// Len returns the number of operations.
func (b *Batch) Len() int { return int(b.count) }

// Size returns the number of bytes that the operations take in the log, without the header of their record.
func (b *Batch) Size() int { return len(b.ops) }

// Reset removes all operations and keeps the memory.
func (b *Batch) Reset() { b.ops, b.count, b.err = b.ops[:0], 0, nil }

// An Op is one operation of a [Batch]: see [Batch.Ops].
type Op struct {
	Kind  OpKind
	Key   []byte   // of OpPut and OpDelete
	Value []byte   // of OpPut; of OpSetMark the mark
	Range KeyRange // of OpDeleteRange
}

// An OpKind says which method of Batch has added an operation.
type OpKind uint8

// The kinds of operations.
const (
	OpPut OpKind = iota
	OpDelete
	OpDeleteRange
	OpSetMark
)

// Ops returns the operations of the batch, in the order in which they were added. The slices belong to the batch: they
// must not be changed, and are valid until the batch changes, which it must not during the loop.
func (b *Batch) Ops() iter.Seq[Op] {
	return func(yield func(Op) bool) {
		for ops := b.ops; len(ops) > 0; {
			kind, key, value, rest, err := batch.NextOp(ops)
			op := Op{Key: key, Value: value}
			switch kind {
			case ikey.Delete:
				op.Kind = OpDelete
			case ikey.RangeDelete:
				op = Op{Kind: OpDeleteRange, Range: KeyRange{key, value}}
			case ikey.Mark:
				op.Kind = OpSetMark
			default: // OpPut
			}
			// An error is impossible: add and UnmarshalBinary make only valid operations.
			if err != nil || !yield(op) {
				return
			}
			ops = rest
		}
	}
}

// A marshaled batch, all numbers little-endian:
//
//	0             4            8           12
//	+-------------+------------+-----------+------------+-----+
//	| "bkb1"      | CRC-32C u32| count u32 | operations | ... |     the checksum covers all bytes after it
//	+-------------+------------+-----------+------------+-----+
const (
	batchMagic  = "bkb1"
	batchHeader = 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

var errBatchBytes = errors.New("batch: not made by MarshalBinary")

// MarshalBinary returns an encoding of the batch with a checksum, to be stored or sent elsewhere. UnmarshalBinary
// decodes it into an equal batch. The error is the one that Apply returns for a batch that is too large.
func (b *Batch) MarshalBinary() ([]byte, error) {
	return b.AppendBinary(make([]byte, 0, batchHeader+len(b.ops)))
}

// AppendBinary appends what MarshalBinary returns to dst, and returns the extended slice. With an error, it returns
// dst unchanged.
func (b *Batch) AppendBinary(dst []byte) ([]byte, error) {
	if b.err != nil {
		return dst, b.err
	}
	start := len(dst)
	dst = append(dst, batchMagic...)
	dst = append(dst, 0, 0, 0, 0) // the checksum
	dst = binary.LittleEndian.AppendUint32(dst, b.count)
	dst = append(dst, b.ops...)
	binary.LittleEndian.PutUint32(dst[start+4:], checksum(dst[start+8:]))
	return dst, nil
}

var (
	_ encoding.BinaryAppender    = (*Batch)(nil)
	_ encoding.BinaryUnmarshaler = (*Batch)(nil)
)

// UnmarshalBinary replaces the operations of b with those that MarshalBinary encoded in raw. raw is copied. If raw is
// damaged, truncated or was not made by MarshalBinary, the error matches [ErrCorruption] (errors.Is); if a version with
// other limits made it, [ErrTooLarge]. After an error, b is not changed.
func (b *Batch) UnmarshalBinary(raw []byte) error {
	if len(raw) < batchHeader || string(raw[:4]) != batchMagic {
		return fmt.Errorf("bloomkv: %w: %w: %d bytes", ErrCorruption, errBatchBytes, len(raw))
	}
	if len(raw) > MaxBatchSize {
		return errBatchSize
	}
	if got, want := checksum(raw[8:]), binary.LittleEndian.Uint32(raw[4:]); got != want {
		return fmt.Errorf("bloomkv: %w: %w: checksum %08x, want %08x", ErrCorruption, errBatchBytes, got, want)
	}
	count := uint32(0)
	for ops := raw[batchHeader:]; len(ops) > 0; count++ {
		_, _, value, rest, err := batch.NextOp(ops)
		if err != nil {
			return fmt.Errorf("bloomkv: %w: %w", ErrCorruption, err)
		}
		if len(value) > MaxValueSize {
			return errValueSize(value)
		}
		ops = rest
	}
	if want := binary.LittleEndian.Uint32(raw[8:]); count != want {
		return fmt.Errorf("bloomkv: %w: %w: %d operations, want %d", ErrCorruption, errBatchBytes, count, want)
	}
	b.ops, b.count, b.err = append(b.ops[:0], raw[batchHeader:]...), count, nil
	return nil
}

var errBatchSize = fmt.Errorf("bloomkv: batch of more than %d bytes: %w", MaxBatchSize, ErrTooLarge)

func errValueSize(value []byte) error {
	return fmt.Errorf("bloomkv: value of %d bytes, want at most %d: %w", len(value), MaxValueSize, ErrTooLarge)
}

func (b *Batch) add(kind ikey.Kind, key, value []byte) {
	limit := MaxKeySize
	if kind == ikey.RangeDelete {
		limit = batch.MaxBound
	}
	switch {
	case b.err != nil:
	case len(key) > limit:
		b.err = fmt.Errorf("bloomkv: key of %d bytes, want at most %d: %w", len(key), MaxKeySize, ErrTooLarge)
	case len(value) > MaxValueSize:
		b.err = errValueSize(value)
	case batch.RecordHeader+len(b.ops)+batch.MaxOpHeader+len(key)+len(value) > MaxBatchSize:
		b.err = errBatchSize
	default:
		b.ops = batch.AppendOp(b.ops, kind, key, value)
		b.count++
	}
}
