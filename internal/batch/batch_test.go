package batch

import (
	"bytes"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

func twoOps() []byte {
	return AppendOp(AppendOp(nil, ikey.Set, []byte("key"), []byte("value")), ikey.Delete, []byte("gone"), nil)
}

func TestAMalformedRecordIsRefused(t *testing.T) {
	ops := twoOps()
	whole := append(AppendRecordHeader(nil, 7, 2), ops...)
	ignore := func(ikey.Seq, ikey.Kind, []byte, []byte) {}
	if first, count, err := ReadRecord(whole, ignore); first != 7 || count != 2 || err != nil {
		t.Fatalf("%d, %d, %v, want 7, 2", first, count, err)
	}
	change := func(at int, to byte) []byte {
		c := bytes.Clone(whole)
		c[at] = to
		return c
	}
	for name, record := range map[string][]byte{
		"nothing":                      nil,
		"less than a header":           whole[:RecordHeader-1],
		"no operation":                 AppendRecordHeader(nil, 7, 0),
		"a count that is too large":    change(8, 3),
		"a count that is too small":    change(8, 1),
		"a count beyond all sequences": append(AppendRecordHeader(nil, ikey.MaxSeq, 2), ops...),
		"sequence 0":                   append(AppendRecordHeader(nil, 0, 2), ops...),
		"an unknown kind":              change(RecordHeader, 9),
		"a key longer than the rest":   change(RecordHeader+1, 100),
		"a value longer than the rest": change(RecordHeader+5, 100),
		"an operation cut short":       whole[:len(whole)-1],
		"a byte too many":              append(bytes.Clone(whole), 0),
		"a length that does not end":   append(AppendRecordHeader(nil, 7, 1), 1, 0xff, 0xff),
	} {
		if _, _, err := ReadRecord(record, ignore); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzRecord reads any bytes as a log record: the result is an error, or operations that encode to the same record,
// except for lengths that were encoded longer than necessary.
func FuzzRecord(f *testing.F) {
	ops := twoOps()
	f.Add(append(AppendRecordHeader(nil, 7, 2), ops...))
	f.Add([]byte{})
	f.Add(append(AppendRecordHeader(nil, 1, 1), 1, 0x80, 0x00, 0))
	f.Fuzz(func(t *testing.T, record []byte) {
		var again []byte
		n := ikey.Seq(0)
		first, count, err := ReadRecord(record, func(seq ikey.Seq, kind ikey.Kind, key, value []byte) {
			again = AppendOp(again, kind, key, value)
			n++
		})
		if err != nil {
			return
		}
		if n != ikey.Seq(count) {
			t.Fatalf("%d operations, want %d", n, count)
		}
		again = append(AppendRecordHeader(nil, first, count), again...)
		if len(again) > len(record) || len(again) == len(record) && !bytes.Equal(again, record) {
			t.Fatalf("%x came back as %x", record, again)
		}
		more := 0
		_, _, err = ReadRecord(again, func(ikey.Seq, ikey.Kind, []byte, []byte) { more++ })
		if err != nil || more != int(count) {
			t.Fatalf("read again: %d operations, %v", more, err)
		}
	})
}
