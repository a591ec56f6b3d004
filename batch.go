package bloomkv

import (
	"encoding"
	"errors"
	"fmt"
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
	_   noCopy
	ops batch.Ops // also the payload of a log record
}

// go vet reports copies of what has a noCopy.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Put adds an operation that stores value under key. Both are copied. A nil key is the empty key, a nil value the
// empty value.
func (b *Batch) Put(key, value []byte) { b.ops.Add(ikey.Set, key, value) }

// Delete adds an operation that deletes key. The key is copied.
func (b *Batch) Delete(key []byte) { b.ops.Add(ikey.Delete, key, nil) }

// DeleteRange adds an operation that deletes all keys of a range. An empty range adds nothing. The bounds are copied.
// Keys that the batch puts later are not deleted.
func (b *Batch) DeleteRange(r KeyRange) { b.ops.Add(ikey.RangeDelete, r.Lower, r.Upper) }

// SetMark adds an operation that makes mark the mark of the store: see [DB.Mark]. A batch may have a mark alone. The
// last mark of a batch counts. A mark of length 0 removes the mark of the store. The mark is copied, and has at most
// MaxMarkSize bytes.
func (b *Batch) SetMark(mark []byte) { b.ops.Add(ikey.Mark, nil, mark) }

// Append adds all operations of other, which is not changed. other may be b itself. If other has exceeded a limit, b
// reports the same error from then on.
func (b *Batch) Append(other *Batch) { b.ops.Append(&other.ops) }

// Len returns the number of operations.
func (b *Batch) Len() int { return int(b.ops.Count) }

// Size returns the number of bytes that the operations take in the log, without the header of their record.
func (b *Batch) Size() int { return len(b.ops.Bytes) }

// Reset removes all operations and keeps the memory.
func (b *Batch) Reset() { b.ops.Reset() }

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
		for ops := b.ops.Bytes; len(ops) > 0; {
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
			// An error is impossible: Ops have only valid operations.
			if err != nil || !yield(op) {
				return
			}
			ops = rest
		}
	}
}

// MarshalBinary returns an encoding of the batch with a checksum, to be stored or sent elsewhere. UnmarshalBinary
// decodes it into an equal batch. The error is the one that Apply returns for a batch that is too large.
func (b *Batch) MarshalBinary() ([]byte, error) {
	return b.ops.AppendBinary(make([]byte, 0, batch.MarshaledHeader+len(b.ops.Bytes)))
}

// AppendBinary appends what MarshalBinary returns to dst, and returns the extended slice. With an error, it returns
// dst unchanged.
func (b *Batch) AppendBinary(dst []byte) ([]byte, error) { return b.ops.AppendBinary(dst) }

var (
	_ encoding.BinaryAppender    = (*Batch)(nil)
	_ encoding.BinaryUnmarshaler = (*Batch)(nil)
)

// UnmarshalBinary replaces the operations of b with those that MarshalBinary encoded in raw. raw is copied. If raw is
// damaged, truncated or was not made by MarshalBinary, the error matches [ErrCorruption] (errors.Is); if a version with
// other limits made it, [ErrTooLarge]. After an error, b is not changed.
func (b *Batch) UnmarshalBinary(raw []byte) error {
	err := b.ops.UnmarshalBinary(raw)
	if err != nil && !errors.Is(err, ErrTooLarge) {
		err = fmt.Errorf("bloomkv: %w: %w", ErrCorruption, err)
	}
	return err
}
