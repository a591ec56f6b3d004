package bloomkv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// Batch is a list of writes that are applied together: all of them or none, also across a crash. The zero value is an empty
// batch. A batch has no handle to any store and needs no Close; it may be applied more than once and to several stores, and
// MarshalBinary carries it elsewhere. A later operation of a batch covers an earlier one on the same key. It is not safe for
// concurrent use while it is changed, and must not be copied once it was used: copies would write into each other's memory.
//
// A key, a value or a batch that is too large is reported by Apply and MarshalBinary. What was added before it is still
// counted by Len and Size; what is added after it is ignored until Reset.
type Batch struct {
	ops   []byte // as package batch has them; also the payload of a log record
	count uint32
	err   error // the first limit that an operation exceeded
}

// Put adds a write of value under key. Both are copied; nil is the empty key, or the empty value.
func (b *Batch) Put(key, value []byte) { b.add(ikey.Set, key, value) }

// Delete adds a removal of key. The key is copied.
func (b *Batch) Delete(key []byte) { b.add(ikey.Delete, key, nil) }

// DeleteRange adds a removal of every key from lo on and before hi: lo is inclusive, hi exclusive. A nil lo begins at the
// first key, a nil hi has no end. An empty or inverted range adds nothing. Both are copied. Keys that the batch puts
// afterwards are not removed.
func (b *Batch) DeleteRange(lo, hi []byte) {
	lo, hi = cutBound(lo), cutBound(hi)
	if hi == nil || bytes.Compare(lo, hi) < 0 {
		b.add(ikey.RangeDelete, lo, hi)
	}
}

// cutBound shortens a bound that is longer than any key can be to one that has the same keys in front of it.
func cutBound(b []byte) []byte { return b[:min(len(b), batch.MaxBound)] }

// Append adds all operations of other, which stays as it is. other may be b itself. An error that other would report is then
// b's.
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

// Len is the number of operations.
func (b *Batch) Len() int { return int(b.count) }

// Size is the number of bytes the operations take in the log, without the header of their record.
func (b *Batch) Size() int { return len(b.ops) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.ops, b.count, b.err = b.ops[:0], 0, nil }

// OpKind says what an operation of a batch does.
type OpKind uint8

const (
	OpPut         OpKind = iota + 1 // stores Value under Key
	OpDelete                        // removes Key
	OpDeleteRange                   // removes every key from Key on and before End
)

// String names the kind.
func (k OpKind) String() string {
	switch k {
	case OpPut:
		return "put"
	case OpDelete:
		return "delete"
	case OpDeleteRange:
		return "delete range"
	default:
		return fmt.Sprintf("operation %d", uint8(k))
	}
}

// Op is one operation of a batch. The slices are the batch's own: they must not be changed, and are valid until the batch
// changes.
type Op struct {
	Kind  OpKind
	Key   []byte // for OpDeleteRange, the first key that is removed
	Value []byte // for OpPut
	End   []byte // for OpDeleteRange: exclusive, nil for no end
}

// Ops are the operations in the order in which they were added. The batch must not change meanwhile.
func (b *Batch) Ops() iter.Seq[Op] {
	return func(yield func(Op) bool) {
		for ops := b.ops; len(ops) > 0; {
			kind, key, value, rest, err := batch.NextOp(ops)
			if err != nil { // not in what add and UnmarshalBinary made
				return
			}
			ops = rest
			var op Op
			switch kind {
			case ikey.Delete:
				op = Op{Kind: OpDelete, Key: key}
			case ikey.RangeDelete:
				op = Op{Kind: OpDeleteRange, Key: key, End: value}
			default:
				op = Op{Kind: OpPut, Key: key, Value: value}
			}
			if !yield(op) {
				return
			}
		}
	}
}

// A marshaled batch, all numbers little-endian:
//
//	0             4            8           12
//	+-------------+------------+-----------+------------+-----+
//	| "bkb1"      | CRC-32C u32| count u32 | operations | ... |     the checksum is of all that follows it
//	+-------------+------------+-----------+------------+-----+
const (
	batchMagic  = "bkb1"
	batchHeader = 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

var errBatchBytes = errors.New("batch: bytes that MarshalBinary did not make")

// MarshalBinary returns the batch as bytes with a checksum, for another store, process or time: UnmarshalBinary makes the
// same batch of them. The error is what Apply would say of a batch that is too large.
func (b *Batch) MarshalBinary() ([]byte, error) {
	if b.err != nil {
		return nil, b.err
	}
	raw := make([]byte, batchHeader, batchHeader+len(b.ops))
	copy(raw, batchMagic)
	binary.LittleEndian.PutUint32(raw[8:], b.count)
	raw = append(raw, b.ops...)
	binary.LittleEndian.PutUint32(raw[4:], checksum(raw[8:]))
	return raw, nil
}

// UnmarshalBinary replaces the operations of b by those that MarshalBinary gave; raw is copied. Bytes that are damaged,
// cut short or of another origin are an error that Is [ErrCorruption], and leave b as it was.
func (b *Batch) UnmarshalBinary(raw []byte) error {
	if len(raw) < batchHeader || string(raw[:4]) != batchMagic || len(raw) > MaxBatchSize {
		return fmt.Errorf("bloomkv: %w: %w: %d bytes", ErrCorruption, errBatchBytes, len(raw))
	}
	if got, want := checksum(raw[8:]), binary.LittleEndian.Uint32(raw[4:]); got != want {
		return fmt.Errorf("bloomkv: %w: %w: checksum %08x, want %08x", ErrCorruption, errBatchBytes, got, want)
	}
	count := uint32(0)
	for ops := raw[batchHeader:]; len(ops) > 0; count++ {
		_, _, _, rest, err := batch.NextOp(ops)
		if err != nil {
			return fmt.Errorf("bloomkv: %w: %w", ErrCorruption, err)
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
		b.err = fmt.Errorf("bloomkv: value of %d bytes, want at most %d: %w", len(value), MaxValueSize, ErrTooLarge)
	case batch.RecordHeader+len(b.ops)+batch.MaxOpHeader+len(key)+len(value) > MaxBatchSize:
		b.err = errBatchSize
	default:
		b.ops = batch.AppendOp(b.ops, kind, key, value)
		b.count++
	}
}
