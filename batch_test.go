package bloomkv

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// shown returns the operations of a batch as text.
func shown(b *Batch) (all []string) {
	for op := range b.Ops() {
		text := ""
		switch op.Kind {
		case OpPut:
			text = fmt.Sprintf("put %q=%q", op.Key, op.Value)
		case OpDelete:
			text = fmt.Sprintf("delete %q", op.Key)
		case OpDeleteRange:
			r := op.Range
			text = fmt.Sprintf("delete range %q to %q, unbounded %v", r.Lower, r.Upper, r.Upper == nil)
		case OpSetMark:
			text = fmt.Sprintf("mark %q", op.Value)
		}
		all = append(all, text)
	}
	return all
}

// add adds an operation of another batch to b.
func add(b *Batch, op Op) {
	switch op.Kind {
	case OpPut:
		b.Put(op.Key, op.Value)
	case OpDelete:
		b.Delete(op.Key)
	case OpDeleteRange:
		b.DeleteRange(op.Range)
	case OpSetMark:
		b.SetMark(op.Value)
	}
}

func TestABatchSaysWhatItHolds(t *testing.T) {
	var b Batch
	b.Put([]byte("key"), []byte("value"))
	b.Delete(nil)
	if b.Len() != 2 || b.Size() != 1+1+3+1+5+1+1 {
		t.Errorf("%d operations in %d bytes, want 2 in 13", b.Len(), b.Size())
	}
	b.Put(make([]byte, MaxKeySize+1), nil)
	b.Put([]byte("after"), nil)
	if b.Len() != 2 || !errors.Is(b.ops.Err, ErrTooLarge) {
		t.Errorf("%d operations, %v, want 2 and ErrTooLarge", b.Len(), b.ops.Err)
	}
	b.Reset()
	if b.Len() != 0 || b.Size() != 0 || b.ops.Err != nil {
		t.Errorf("after Reset: %d operations in %d bytes, %v", b.Len(), b.Size(), b.ops.Err)
	}
}

func TestABatchIsWhatWasAdded(t *testing.T) {
	var b Batch
	b.Put([]byte("a"), []byte("1"))
	b.Put(nil, nil)
	b.Delete([]byte("b"))
	b.DeleteRange(KeyRange{Lower: []byte("c"), Upper: []byte("d")})
	b.DeleteRange(KeyRange{})
	b.DeleteRange(KeyRange{Lower: []byte("d"), Upper: []byte("c")}) // inverted
	b.DeleteRange(KeyRange{Lower: []byte("d"), Upper: []byte("d")}) // empty
	b.DeleteRange(KeyRange{Upper: []byte{}})                        // empty
	want := []string{
		`put "a"="1"`, `put ""=""`, `delete "b"`, `delete range "c" to "d", unbounded false`,
		`delete range "" to "", unbounded true`,
	}
	if got := shown(&b); !slices.Equal(got, want) || b.Len() != len(want) {
		t.Errorf("%d operations %q, want %q", b.Len(), got, want)
	}
	for n := range want {
		var got []string
		for op := range b.Ops() {
			var one Batch
			add(&one, op)
			if got = append(got, shown(&one)...); len(got) > n {
				break
			}
		}
		if !slices.Equal(got, want[:n+1]) {
			t.Errorf("a loop that ends after %d operations: %q", n+1, got)
		}
	}
	b.Append(&b)
	if got := shown(&b); !slices.Equal(got, append(want, want...)) || b.Len() != 2*len(want) {
		t.Errorf("appended to itself: %q", got)
	}
	raw, err := b.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.AppendBinary([]byte("before")); err != nil || string(got) != "before"+string(raw) {
		t.Errorf("AppendBinary returned %q, %v, want before and %q", got, err, raw)
	}
	var other Batch
	other.Put([]byte("gone"), nil)
	if err := other.UnmarshalBinary(raw); err != nil || !slices.Equal(shown(&other), shown(&b)) {
		t.Errorf("unmarshaled: %v, %q", err, shown(&other))
	}
	if empty, err := new(Batch).MarshalBinary(); err != nil || other.UnmarshalBinary(empty) != nil || other.Len() != 0 {
		t.Errorf("an empty batch: %v, %d operations", err, other.Len())
	}
}

func TestABatchKeepsItsMarks(t *testing.T) {
	var b, other, copied Batch
	b.Put([]byte("key"), []byte("value"))
	b.SetMark([]byte("one"))
	b.Put(nil, nil)
	other.Delete([]byte("key"))
	other.SetMark([]byte("two"))
	b.Append(&other)
	b.SetMark(nil)
	raw, err := b.MarshalBinary()
	if err != nil || copied.UnmarshalBinary(raw) != nil {
		t.Fatal(err)
	}
	if got := shown(&copied); copied.Len() != 6 || !slices.Equal(got, []string{
		`put "key"="value"`, `mark "one"`, `put ""=""`, `delete "key"`, `mark "two"`, `mark ""`,
	}) {
		t.Errorf("operations %q", got)
	}
	copied.SetMark(make([]byte, MaxMarkSize))
	copied.SetMark(make([]byte, MaxMarkSize+1))
	if copied.Len() != 7 || !errors.Is(copied.ops.Err, ErrTooLarge) {
		t.Errorf("%d operations and %v after a mark of the largest size and a longer one, want 7 and ErrTooLarge",
			copied.Len(), copied.ops.Err)
	}
}

func TestABatchThatIsTooLargeSaysSoWhereverItGoes(t *testing.T) {
	var b, c Batch
	b.Put(make([]byte, MaxKeySize+1), nil)
	if _, err := b.MarshalBinary(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("MarshalBinary: %v", err)
	}
	if got, err := b.AppendBinary([]byte("kept")); string(got) != "kept" || !errors.Is(err, ErrTooLarge) {
		t.Errorf("AppendBinary: %q, %v", got, err)
	}
	c.Append(&b)
	if c.ops.Err == nil || !errors.Is(c.ops.Err, ErrTooLarge) {
		t.Errorf("appended: %v", c.ops.Err)
	}
	c.Reset()
	c.ops.Bytes = make([]byte, MaxBatchSize-batch.RecordHeader-1) // as if these were operations
	b.Reset()
	b.Delete(nil)
	if c.Append(&b); !errors.Is(c.ops.Err, ErrTooLarge) {
		t.Errorf("an operation that no longer fits is appended: %v", c.ops.Err)
	}
	c = Batch{}
	// A bound may be longer than any key: it is truncated to an equivalent bound.
	c.Reset()
	long := bytes.Repeat([]byte{'k'}, 3*MaxKeySize)
	c.DeleteRange(KeyRange{Lower: long[:MaxKeySize], Upper: long})
	c.DeleteRange(KeyRange{Lower: long})
	longest := 0
	for op := range c.Ops() {
		longest = max(longest, len(op.Range.Lower), len(op.Range.Upper))
	}
	if c.Len() != 2 || longest > batch.MaxBound || c.ops.Err != nil {
		t.Errorf("%d ranges with bounds of up to %d bytes, %v", c.Len(), longest, c.ops.Err)
	}
	c.Reset()
	c.DeleteRange(KeyRange{Lower: long, Upper: append(bytes.Clone(long), 'x')}) // no key lies between
	if c.Len() != 0 {
		t.Errorf("%d ranges without a key", c.Len())
	}
}

func TestDamagedBytesOfABatchAreRefused(t *testing.T) {
	var b Batch
	b.Put([]byte("key"), []byte("value"))
	b.DeleteRange(KeyRange{Lower: []byte("from"), Upper: []byte("to")})
	raw, err := b.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var to Batch
	to.Put([]byte("kept"), nil)
	for i := range raw {
		for bit := range 8 {
			bad := bytes.Clone(raw)
			bad[i] ^= 1 << bit
			if err := to.UnmarshalBinary(bad); !errors.Is(err, ErrCorruption) || to.Len() != 1 {
				t.Fatalf("bit %d of byte %d: %v, %d operations left", bit, i, err, to.Len())
			}
		}
		if err := to.UnmarshalBinary(raw[:i]); !errors.Is(err, ErrCorruption) || to.Len() != 1 {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
}

func FuzzBatch(f *testing.F) {
	var b Batch
	b.Put([]byte("key"), []byte("value"))
	b.Delete(nil)
	b.DeleteRange(KeyRange{Lower: []byte("from")})
	f.Add(b.ops.Bytes, uint32(3))
	f.Add([]byte{2, 0, 0}, uint32(1))
	f.Add([]byte{2, 0, 0x80, 0}, uint32(1))
	f.Add([]byte{2, 1, 'a', 2, 'a'}, uint32(1))
	f.Fuzz(func(t *testing.T, ops []byte, count uint32) {
		raw, err := (&Batch{ops: batch.Ops{Bytes: ops, Count: count}}).MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var b, again Batch
		if err := b.UnmarshalBinary(raw); err != nil {
			if !errors.Is(err, ErrCorruption) {
				t.Fatalf("%v", err)
			}
			return
		}
		for op := range b.Ops() {
			add(&again, op)
		}
		if again.ops.Err != nil || !slices.Equal(shown(&again), shown(&b)) {
			t.Fatalf("again %q, %v, want %q", shown(&again), again.ops.Err, shown(&b))
		}
	})
}

func TestWhatIsTooLargeIsRefusedAndTheStoreStaysWell(t *testing.T) {
	testkit.LongUnderRace(t)
	db, err := Open("db", &Options{FS: vfstest.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if MaxBatchSize > wal.MaxPayload {
		t.Errorf("a batch of %d bytes exceeds a log record, which has at most %d", MaxBatchSize, wal.MaxPayload)
	}
	if MaxKeySize > batch.MaxKey || MaxValueSize > batch.MaxValue {
		t.Errorf("keys of %d and values of %d bytes may be written, but only %d and %d can be read", MaxKeySize,
			MaxValueSize, batch.MaxKey, batch.MaxValue)
	}
	tooLong, tooLarge := make([]byte, MaxKeySize+1), make([]byte, MaxValueSize+1)
	zeros := make([]byte, MaxBatchSize-batch.RecordHeader-batch.MaxOpHeader+1)
	full := Batch{ops: batch.Ops{Bytes: zeros, Count: 1}}
	full.Put(nil, nil)
	later := Batch{}
	later.Put([]byte("fine"), nil)
	later.Put(tooLong, nil)
	later.Put([]byte("fine too"), nil)
	for what, err := range map[string]error{
		"a key": db.Put(tooLong, nil), "a key to delete": db.Delete(tooLong), "a value": db.Put([]byte("k"), tooLarge),
		"a batch": db.ApplyWith(&full, DurabilityNoSync), "a key in a batch": db.ApplyWith(&later, DurabilitySync),
	} {
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v, want ErrTooLarge", what, err)
		}
	}
	for _, k := range [][]byte{tooLong, []byte("k"), []byte("fine"), []byte("fine too")} {
		if v, err := db.Get(k); !errors.Is(err, ErrNotFound) {
			t.Errorf("key of %d bytes: %d bytes, %v, want none", len(k), len(v), err)
		}
	}
	later.Reset()
	largest := tooLong[:MaxKeySize]
	later.Put(largest, tooLarge[:9<<20]) // more than a memtable
	later.Put(nil, nil)
	if err := db.ApplyWith(&later, DurabilitySync); err != nil {
		t.Fatalf("the largest key: %v", err)
	}
	for range 2 {
		if v, err := db.Get(largest); err != nil || len(v) != 9<<20 {
			t.Errorf("the largest key: %d bytes, %v", len(v), err)
		}
		if v, err := db.Get(nil); err != nil || v == nil || len(v) > 0 {
			t.Errorf("the empty key: %v, %v", v, err)
		}
		if err := db.Compact(t.Context(), CompactOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// TestABatchOfLargerLimitsIsRefused unmarshals what versions with larger limits could marshal.
func TestABatchOfLargerLimitsIsRefused(t *testing.T) {
	testkit.LongUnderRace(t)
	value := batch.AppendOp(nil, ikey.Set, nil, make([]byte, MaxValueSize+1))
	for what, ops := range map[string][]byte{"a value": value, "a batch": make([]byte, MaxBatchSize)} {
		raw, err := (&Batch{ops: batch.Ops{Bytes: ops, Count: 1}}).MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var to Batch
		to.Delete(nil)
		if err := to.UnmarshalBinary(raw); !errors.Is(err, ErrTooLarge) || to.Len() != 1 {
			t.Errorf("%s: %v, %d operations, want ErrTooLarge and no change", what, err, to.Len())
		}
	}
}

func TestABatchThatTheLogCannotTakeIsRefusedBefore(t *testing.T) {
	b := Batch{ops: batch.Ops{Bytes: make([]byte, MaxBatchSize-batch.RecordHeader-batch.MaxOpHeader), Count: 1}}
	b.Delete([]byte("k"))
	if !errors.Is(b.ops.Err, ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", b.ops.Err)
	}
}
