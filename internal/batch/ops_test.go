package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

type op struct {
	kind       ikey.Kind
	key, value []byte
}

// TestOperationsComeBackAsTheyWereAppended covers each kind, with lengths encoded in one byte and in more.
func TestOperationsComeBackAsTheyWereAppended(t *testing.T) {
	long := bytes.Repeat([]byte{'k'}, MaxKey)
	ops := []op{
		{ikey.Set, []byte("key"), []byte("value")},
		{ikey.Set, []byte{}, []byte{}},
		{ikey.Set, long, bytes.Repeat([]byte{'v'}, 300)},
		{ikey.Delete, []byte("key"), nil},
		{ikey.Delete, []byte{}, nil},
		{ikey.RangeDelete, []byte("a"), []byte("b")},
		{ikey.Mark, nil, []byte("mark")},
		{ikey.Mark, nil, []byte{}},
		{ikey.Mark, nil, bytes.Repeat([]byte{'m'}, MaxMark)},
		{ikey.RangeDelete, []byte{}, []byte{0}},
		{ikey.RangeDelete, []byte("a"), nil},
		{ikey.RangeDelete, []byte{}, nil},
		{ikey.RangeDelete, long, append(bytes.Clone(long), 'k')}, // the longest bound
		{ikey.RangeDelete, append(bytes.Clone(long), 'k'), nil},
	}
	record := AppendRecordHeader(nil, 5, 0)
	for _, o := range ops {
		before := len(record)
		record = AppendOp(record, o.kind, o.key, o.value)
		if size := len(record) - before; size > MaxOpHeader+len(o.key)+len(o.value) {
			t.Errorf("%v of %d and %d bytes takes %d, want at most %d more",
				o.kind, len(o.key), len(o.value), size, MaxOpHeader)
		}
	}
	SetRecordCount(record, uint32(len(ops)))
	next := 0
	first, count, err := ReadRecord(record, func(seq ikey.Seq, kind ikey.Kind, key, value []byte) {
		want := ops[next]
		if seq != ikey.Seq(5+next) || kind != want.kind || !bytes.Equal(key, want.key) ||
			!bytes.Equal(value, want.value) || (value == nil) != (want.value == nil) {
			t.Errorf("operation %d: %d %v %.20q %.20q (nil: %v), want %v %.20q %.20q",
				next, seq, kind, key, value, value == nil, want.kind, want.key, want.value)
		}
		if cap(key) != len(key) || cap(value) != len(value) {
			t.Errorf("operation %d: an append to a field would write into what follows", next)
		}
		next++
	})
	if first != 5 || int(count) != len(ops) || err != nil || next != len(ops) {
		t.Errorf("%d, %d, %v after %d operations, want 5, %d", first, count, err, next, len(ops))
	}
}

// TestOperationsOverALimitAreRefused tests each limit, and one beyond it.
func TestOperationsOverALimitAreRefused(t *testing.T) {
	field := func(n int) []byte {
		return append(binary.AppendUvarint(nil, uint64(n)), bytes.Repeat([]byte{'x'}, n)...)
	}
	end := func(n int) []byte { // the end of a range: n bytes, greater than any key of x
		return append(binary.AppendUvarint(nil, uint64(n)+1), bytes.Repeat([]byte{'y'}, n)...)
	}
	endless := binary.AppendUvarint(nil, 1<<64-1)
	join := func(kind ikey.Kind, parts ...[]byte) []byte {
		return append([]byte{byte(kind)}, slices.Concat(parts...)...)
	}
	for _, tt := range []struct {
		name string
		ops  []byte
		err  error
	}{
		{"the longest key", join(ikey.Set, field(MaxKey), field(0)), nil},
		{"a longer key", join(ikey.Set, field(MaxKey+1), field(0)), errOpLength},
		{"the longest key that is deleted", join(ikey.Delete, field(MaxKey)), nil},
		{"a longer key that is deleted", join(ikey.Delete, field(MaxKey+1)), errOpLength},
		{"a value over the limit", join(ikey.Set, field(1), binary.AppendUvarint(nil, MaxValue+1)), errOpLength},
		{"a value longer than the rest", join(ikey.Set, field(1), []byte("\x05four")), errOpLength},
		{"a value without a length", join(ikey.Set, field(1)), errOpLength},
		{"a length that does not end", join(ikey.Set, bytes.Repeat([]byte{0xff}, 11)), errOpLength},
		{"a length of 2⁶⁴-1", join(ikey.Delete, endless), errOpLength},
		{"the longest bounds", join(ikey.RangeDelete, field(MaxBound), end(MaxBound)), nil},
		{"a longer first bound", join(ikey.RangeDelete, field(MaxBound+1), end(1)), errOpLength},
		{"a longer second bound", join(ikey.RangeDelete, field(1), end(MaxBound+1)), errOpLength},
		{"a range without an end", join(ikey.RangeDelete, field(1), []byte{0}), nil},
		{"a range that is cut short", join(ikey.RangeDelete, field(1)), errOpLength},
		{"a range whose end is cut short", join(ikey.RangeDelete, field(1), end(5)[:5]), errOpLength},
		{"a range whose end is of 2⁶⁴-1 bytes", join(ikey.RangeDelete, field(1), endless), errOpLength},
		{
			"a range whose end has an endless length",
			join(ikey.RangeDelete, field(1), bytes.Repeat([]byte{0x80}, 11)), errOpLength,
		},
		{"an empty range", join(ikey.RangeDelete, field(1), []byte{2, 'x'}), errOpRange},
		{"an inverted range", join(ikey.RangeDelete, field(1), []byte{2, 'a'}), errOpRange},
		{"a range before the empty key", join(ikey.RangeDelete, field(0), []byte{1}), errOpRange},
		{"the least range", join(ikey.RangeDelete, field(0), []byte{2, 0}), nil},
		{"the longest mark", join(ikey.Mark, field(MaxMark)), nil},
		{"a longer mark", join(ikey.Mark, field(MaxMark+1)), errOpLength},
		{"a mark that is cut short", join(ikey.Mark, field(5)[:5]), errOpLength},
		{"an unknown kind", []byte{99, 0}, errOpKind},
	} {
		kind, key, value, rest, err := NextOp(append(tt.ops, "rest"...)[:len(tt.ops)])
		if !errors.Is(err, tt.err) || err != nil && (key != nil || value != nil || rest != nil) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.err)
		}
		if tt.err == nil && (err != nil || len(rest) > 0 || kind != ikey.Kind(tt.ops[0])) {
			t.Errorf("%s: %v, %d bytes left, %v", tt.name, kind, len(rest), err)
		}
	}
}

// TestTheSequencesOfARecordStayBelowTheLargest tests both ends of the sequence numbers.
func TestTheSequencesOfARecordStayBelowTheLargest(t *testing.T) {
	ignore := func(ikey.Seq, ikey.Kind, []byte, []byte) {}
	for _, tt := range []struct {
		first ikey.Seq
		whole bool
	}{
		{0, false},
		{1, true},
		{ikey.MaxSeq - 2, true},
		{ikey.MaxSeq - 1, false},
		{ikey.MaxSeq, false},
		{1<<64 - 1, false},
	} {
		record := append(AppendRecordHeader(nil, tt.first, 2), twoOps()...)
		if _, _, err := ReadRecord(record, ignore); (err == nil) != tt.whole {
			t.Errorf("from sequence %d on: %v, want whole: %v", tt.first, err, tt.whole)
		}
	}
	empty := AppendRecordHeader(nil, 1, 0)
	if _, _, err := ReadRecord(empty, ignore); !errors.Is(err, errRecord) {
		t.Errorf("a record of nothing: %v", err)
	}
	// The record's count is one more or one less than the operations in it.
	for count := range uint32(4) {
		called := 0
		record := append(AppendRecordHeader(nil, 7, count), twoOps()...)
		_, got, err := ReadRecord(record, func(seq ikey.Seq, _ ikey.Kind, _, _ []byte) {
			if seq != ikey.Seq(7+called) {
				t.Errorf("operation %d has sequence %d", called, seq)
			}
			called++
		})
		if (err == nil) != (count == 2) || called > int(count) || err == nil && got != 2 ||
			count == 3 && err.Error() != "batch: malformed: 2 operations, want 3" {
			t.Errorf("2 operations, %d announced: %d, %v after %d calls", count, got, err, called)
		}
	}
}
