package batch

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// ErrTooLarge means that a key, a value, a mark or a batch exceeds its limit.
var ErrTooLarge = errors.New("too large")

var errSize = fmt.Errorf("bloomkv: batch of more than %d bytes: %w", MaxSize, ErrTooLarge)

// Check returns an error if a "key", "value" or "mark" is longer than its limit.
func Check(what string, b []byte, limit int) error {
	if len(b) > limit {
		return fmt.Errorf("%s of %d bytes, want at most %d: %w", what, len(b), limit, ErrTooLarge)
	}
	return nil
}

// CutBound shortens a bound that is longer than any key can be. The result has the same keys before it.
func CutBound(b []byte) []byte { return b[:min(len(b), MaxBound)] }

// Ops are the operations of a batch, all within the limits. The zero value has none.
type Ops struct {
	Bytes []byte // as AppendOp appends them
	Count uint32
	Err   error // of the first operation over a limit; later operations are ignored
}

// Add adds an operation, with the fields of AppendOp. An empty range adds nothing.
func (o *Ops) Add(kind ikey.Kind, key, value []byte) {
	if kind == ikey.RangeDelete {
		key, value = CutBound(key), CutBound(value)
		if value != nil && bytes.Compare(key, value) >= 0 {
			return
		}
	}
	switch {
	case o.Err != nil:
	case len(key) > MaxKey && kind != ikey.RangeDelete:
		o.Err = fmt.Errorf("bloomkv: %w", Check("key", key, MaxKey))
	case len(value) > MaxMark && kind == ikey.Mark:
		o.Err = fmt.Errorf("bloomkv: %w", Check("mark", value, MaxMark))
	case len(value) > MaxNewValue:
		o.Err = fmt.Errorf("bloomkv: %w", Check("value", value, MaxNewValue))
	case RecordHeader+len(o.Bytes)+MaxOpHeader+len(key)+len(value) > MaxSize:
		o.Err = errSize
	default:
		o.Bytes = AppendOp(o.Bytes, kind, key, value)
		o.Count++
	}
}

// Append adds all operations of other, which may be o itself. If one of those was over a limit, Err says so.
func (o *Ops) Append(other *Ops) {
	o.Err = cmp.Or(o.Err, other.Err)
	if o.Err == nil && RecordHeader+len(o.Bytes)+len(other.Bytes) > MaxSize {
		o.Err = errSize
	}
	if o.Err == nil {
		o.Bytes = append(o.Bytes, other.Bytes...)
		o.Count += other.Count
	}
}

// Reset removes all operations and keeps the memory.
func (o *Ops) Reset() { o.Bytes, o.Count, o.Err = o.Bytes[:0], 0, nil }

// Marshaled operations, all numbers little-endian:
//
//	0             4            8           12
//	+-------------+------------+-----------+------------+-----+
//	| "bkb1"      | CRC-32C u32| count u32 | operations | ... |     the checksum covers all bytes after it
//	+-------------+------------+-----------+------------+-----+
const (
	magic = "bkb1"

	// MarshaledHeader is the number of bytes before the operations.
	MarshaledHeader = 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errMarshaled = errors.New("batch: not made by MarshalBinary")

// AppendBinary appends the operations with a checksum. With an error, which is Err, it returns dst unchanged.
func (o *Ops) AppendBinary(dst []byte) ([]byte, error) {
	if o.Err != nil {
		return dst, o.Err
	}
	start := len(dst)
	dst = append(dst, magic...)
	dst = append(dst, 0, 0, 0, 0) // the checksum
	dst = binary.LittleEndian.AppendUint32(dst, o.Count)
	dst = append(dst, o.Bytes...)
	binary.LittleEndian.PutUint32(dst[start+4:], crc32.Checksum(dst[start+8:], castagnoli))
	return dst, nil
}

// UnmarshalBinary replaces the operations with a copy of those that AppendBinary has appended to nothing. An error
// that does not match ErrTooLarge is damage. After an error, o is not changed.
func (o *Ops) UnmarshalBinary(raw []byte) error {
	if len(raw) < MarshaledHeader || string(raw[:4]) != magic {
		return fmt.Errorf("%w: %d bytes", errMarshaled, len(raw))
	}
	if len(raw) > MaxSize {
		return errSize
	}
	if got, want := crc32.Checksum(raw[8:], castagnoli), binary.LittleEndian.Uint32(raw[4:]); got != want {
		return fmt.Errorf("%w: checksum %08x, want %08x", errMarshaled, got, want)
	}
	count, ops := binary.LittleEndian.Uint32(raw[8:]), raw[MarshaledHeader:]
	var over error
	err := ReadOps(0, count, ops, func(_ ikey.Seq, _ ikey.Kind, _, value []byte) {
		if over == nil {
			over = Check("value", value, MaxNewValue)
		}
	})
	if over != nil {
		return fmt.Errorf("bloomkv: %w", over)
	}
	if err == nil {
		o.Bytes, o.Count, o.Err = append(o.Bytes[:0], ops...), count, nil
	}
	return err
}
