package bloomkv

import (
	"bytes"
	"errors"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

func TestABatchSaysWhatItHolds(t *testing.T) {
	var b Batch
	b.Put([]byte("key"), []byte("value"))
	b.Delete(nil)
	if b.Len() != 2 || b.Size() != 1+1+3+1+5+1+1 {
		t.Errorf("%d operations in %d bytes, want 2 in 13", b.Len(), b.Size())
	}
	b.Put(make([]byte, MaxKeySize+1), nil)
	b.Put([]byte("after"), nil)
	if b.Len() != 2 || !errors.Is(b.err, ErrTooLarge) {
		t.Errorf("%d operations, %v, want 2 and ErrTooLarge", b.Len(), b.err)
	}
	b.Reset()
	if b.Len() != 0 || b.Size() != 0 || b.err != nil {
		t.Errorf("after Reset: %d operations in %d bytes, %v", b.Len(), b.Size(), b.err)
	}
}

func TestARecordThatIsNotWholeIsRefused(t *testing.T) {
	var b Batch
	b.Put([]byte("key"), []byte("value"))
	b.Delete([]byte("gone"))
	whole := append(appendRecordHeader(nil, 7, 2), b.ops...)
	ignore := func(ikey.Seq, ikey.Kind, []byte, []byte) {}
	if first, count, err := decodeRecord(whole, ignore); first != 7 || count != 2 || err != nil {
		t.Fatalf("%d, %d, %v, want 7, 2", first, count, err)
	}
	change := func(at int, to byte) []byte {
		c := bytes.Clone(whole)
		c[at] = to
		return c
	}
	for name, record := range map[string][]byte{
		"nothing":                      nil,
		"less than a header":           whole[:recordHeader-1],
		"no operation":                 appendRecordHeader(nil, 7, 0),
		"fewer operations than said":   change(8, 3),
		"more operations than said":    change(8, 1),
		"a count beyond all sequences": append(appendRecordHeader(nil, ikey.MaxSeq, 2), b.ops...),
		"sequence 0":                   append(appendRecordHeader(nil, 0, 2), b.ops...),
		"an unknown kind":              change(recordHeader, 9),
		"a key longer than the rest":   change(recordHeader+1, 100),
		"a value longer than the rest": change(recordHeader+5, 100),
		"an operation cut short":       whole[:len(whole)-1],
		"a length that does not end":   append(appendRecordHeader(nil, 7, 1), 1, 0xff, 0xff),
	} {
		if _, _, err := decodeRecord(record, ignore); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzRecord reads any bytes as a log record: an error, or operations that make the same record again, except for
// lengths that were written longer than they need be.
func FuzzRecord(f *testing.F) {
	var b Batch
	b.Put([]byte("key"), []byte("value"))
	b.Delete([]byte("gone"))
	f.Add(append(appendRecordHeader(nil, 7, 2), b.ops...))
	f.Add([]byte{})
	f.Add(append(appendRecordHeader(nil, 1, 1), 1, 0x80, 0x00, 0))
	f.Fuzz(func(t *testing.T, record []byte) {
		var again []byte
		n := ikey.Seq(0)
		first, count, err := decodeRecord(record, func(seq ikey.Seq, kind ikey.Kind, key, value []byte) {
			again = appendOp(again, kind, key, value)
			n++
		})
		if err != nil {
			return
		}
		if n != ikey.Seq(count) {
			t.Fatalf("%d operations, want %d", n, count)
		}
		again = append(appendRecordHeader(nil, first, count), again...)
		if len(again) > len(record) || len(again) == len(record) && !bytes.Equal(again, record) {
			t.Fatalf("%x came back as %x", record, again)
		}
		more := 0
		if _, _, err := decodeRecord(again, func(ikey.Seq, ikey.Kind, []byte, []byte) { more++ }); err != nil || more != int(count) {
			t.Fatalf("read again: %d operations, %v", more, err)
		}
	})
}
