package tests

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestSlicesAreTheCallers changes every slice after the call that took it, and every copy that a call returned: the
// contents of the store stay the same.
func TestSlicesAreTheCallers(t *testing.T) {
	db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewMem()))
	defer func() {
		must(t, db.Close())
	}()
	ctx := context.Background()
	want := map[string]string{}
	b := func(s string) []byte { return []byte(s) }
	spoil := func(slices ...[]byte) {
		for _, s := range slices {
			for i := range s[:cap(s)] {
				s[:cap(s)][i] = 'X'
			}
		}
	}
	agree := func(what string) {
		t.Helper()
		got, err := storetest.Contents(db)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if d := storetest.Diff(got, want); d != "" {
			t.Fatalf("%s: %s", what, d)
		}
	}

	for i := range 4 {
		k, v := fmt.Appendf(nil, "put%d", i), fmt.Appendf(nil, "value%d", i)
		want[string(k)] = string(v)
		must(t, db.Put(k, v))
		spoil(k, v)
	}
	agree("Put")

	k := b("put0")
	must(t, db.Delete(k))
	delete(want, "put0")
	spoil(k)
	agree("Delete")

	lo, hi := b("put1"), b("put2")
	must(t, db.DeleteRange(bloomkv.KeyRange{Lower: lo, Upper: hi}))
	delete(want, "put1")
	spoil(lo, hi)
	agree("DeleteRange")

	k, v := b("new"), b("born")
	ok, err := db.PutIfAbsent(k, v)
	must(t, err)
	spoil(k, v)
	want["new"] = "born"
	if !ok {
		t.Error("PutIfAbsent: false")
	}
	agree("PutIfAbsent")

	k, v = b("new"), b("grown")
	old := b("born")
	ok, err = db.CompareAndSwap(k, old, v)
	must(t, err)
	spoil(k, v, old)
	want["new"] = "grown"
	if !ok {
		t.Error("CompareAndSwap: false")
	}
	agree("CompareAndSwap")

	must(t, db.Put(b("gone"), b("soon")))
	k, old = b("gone"), b("soon")
	ok, err = db.CompareAndDelete(k, old)
	must(t, err)
	spoil(k, old)
	if !ok {
		t.Error("CompareAndDelete: false")
	}
	agree("CompareAndDelete")

	var one, two bloomkv.Batch
	k, v, lo, hi = b("batch"), b("ed"), b("put3"), b("put4")
	one.Put(k, v)
	one.DeleteRange(bloomkv.KeyRange{Lower: lo, Upper: hi})
	spoil(k, v, lo, hi)
	two.Append(&one)
	one.Reset()
	one.Put(b("XXXXX"), b("XX"))
	raw, err := two.MarshalBinary()
	must(t, err)
	var three bloomkv.Batch
	must(t, three.UnmarshalBinary(raw))
	spoil(raw)
	raw, err = three.MarshalBinary()
	must(t, err)
	spoil(raw)
	must(t, db.ApplyWith(&three, bloomkv.DurabilitySync))
	want["batch"] = "ed"
	delete(want, "put3")
	must(t, db.ApplyWith(&two, bloomkv.DurabilitySync))
	two.Reset()
	two.Put(b("YYYYYYYYYYY"), b("YYYYYYY")) // reuses the memory of the applied operations
	agree("Batch")

	key, value := make([]byte, 0, 16), make([]byte, 0, 16)
	must(t, db.Ingest(ctx, func(yield func(bloomkv.KV, error) bool) {
		for i := range 3 {
			key, value = fmt.Appendf(key[:0], "ingest%d", i), fmt.Appendf(value[:0], "in%d", i)
			want[string(key)] = string(value)
			if !yield(bloomkv.KV{Key: key, Value: value}, nil) {
				return
			}
			spoil(key, value)
		}
	}, bloomkv.IngestOptions{}))
	lo, hi = b("put"), b("puu")
	mark := b("mark")
	must(t, db.Ingest(ctx, func(func(bloomkv.KV, error) bool) { spoil(lo, hi, mark) },
		bloomkv.IngestOptions{Replace: &bloomkv.KeyRange{Lower: lo, Upper: hi}, Mark: mark}))
	for range 2 {
		got, err := db.Mark()
		if err != nil || string(got) != "mark" {
			t.Errorf("mark %q, %v", got, err)
		}
		spoil(got)
	}
	delete(want, "put2")
	agree("Ingest")

	for range 2 { // from the memtable, then from tables
		for _, name := range []string{"new", "batch", "ingest1"} {
			k := b(name)
			v, err := db.Get(k)
			must(t, err)
			spoil(k, v)
			v, _, err = db.GetTraced(b(name))
			must(t, err)
			spoil(v)
			v, err = db.AppendGet(nil, b(name))
			must(t, err)
			spoil(v)
			if ok, err := db.Has(k); ok || err != nil {
				t.Errorf("Has of the overwritten key: %v, %v", ok, err)
			}
		}
		agree("Get, GetTraced, AppendGet")

		lower, upper, prefix := b("ingest0"), b("ingest2"), b("ing")
		it := db.Iter(bloomkv.IterOptions{Lower: lower, Upper: upper, Prefix: prefix})
		spoil(lower, upper, prefix)
		var got []string
		for k, v := range it.All() {
			got = append(got, string(k)+"="+string(v))
		}
		target := b("ingest1")
		if !it.SeekGE(target) {
			t.Errorf("SeekGE: %v", it.Err())
		}
		spoil(target)
		if string(it.Key()) != "ingest1" {
			t.Errorf("SeekGE: is at %q", it.Key())
		}
		target = b("ingest1")
		if !it.SeekLT(target) {
			t.Errorf("SeekLT: %v", it.Err())
		}
		spoil(target)
		if string(it.Key()) != "ingest0" {
			t.Errorf("SeekLT: is at %q", it.Key())
		}
		must(t, it.Close())
		if fmt.Sprint(got) != "[ingest0=in0 ingest1=in1]" {
			t.Errorf("iterator: %v", got)
		}

		keys := [][]byte{b("new"), b("absent"), b("batch")}
		must(t, db.GetMany(keys, func(i int, v []byte, found bool) error {
			if w, there := want[string(keys[i])]; there != found || string(v) != w {
				t.Errorf("GetMany %q: %q, %v", keys[i], v, found)
			}
			return nil
		}))
		for _, k := range keys {
			spoil(k)
		}
		lo, hi := bytes.Repeat([]byte("a"), 3), bytes.Repeat([]byte("z"), 3)
		if _, err := db.ApproximateSize(bloomkv.KeyRange{Lower: lo, Upper: hi}); err != nil {
			t.Error(err)
		}
		must(t, db.Compact(ctx, bloomkv.CompactOptions{Range: bloomkv.KeyRange{Lower: lo, Upper: hi}}))
		spoil(lo, hi)
		agree("Compact")
	}
}

// recovered calls f and returns the value it panicked with.
func recovered(f func()) (with any) {
	defer func() { with = recover() }()
	f()
	return nil
}

// TestAPanicOfTheCallersLeavesNothingBehind has functions of the caller panic, and then keeps using the store.
func TestAPanicOfTheCallersLeavesNothingBehind(t *testing.T) {
	db := storetest.OpenTiny(t)
	keys := [][]byte{[]byte("a"), []byte("b")}
	for _, k := range keys {
		must(t, db.Put(k, []byte("v")))
	}
	tests := []struct {
		name string
		call func()
	}{
		{"GetMany", func() { _ = db.GetMany(keys, func(int, []byte, bool) error { panic("here") }) }},
		{"View", func() { _ = db.View(keys[0], func([]byte) error { panic("here") }) }},
		{"Scan", func() {
			for _, err := range db.Scan(bloomkv.IterOptions{}) {
				if err == nil {
					panic("here")
				}
			}
		}},
		{"Ingest", func() {
			_ = db.Ingest(context.Background(), func(func(bloomkv.KV, error) bool) { panic("here") },
				bloomkv.IngestOptions{})
		}},
	}
	for _, test := range tests {
		if got := recovered(test.call); got != "here" {
			t.Errorf("%s: %v, want the panic", test.name, got)
		}
	}
	for range 8 {
		must(t, db.GetMany([][]byte{[]byte("x"), []byte("y")}, func(i int, v []byte, found bool) error {
			if found || v != nil {
				t.Errorf("GetMany: absent key %d: %q, %v", i, v, found)
			}
			return nil
		}))
	}
	if n := db.Metrics().Readers.Iterators; n != 0 {
		t.Errorf("%d cursors are in use", n)
	}
	testkit.Within(t, "Close", func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestAppendingToAValueChangesNoOther appends to a value passed to the function of View.
func TestAppendingToAValueChangesNoOther(t *testing.T) {
	db := storetest.OpenTiny(t)
	for _, k := range []string{"a", "b", "c"} {
		must(t, db.Put([]byte(k), []byte("value of "+k)))
	}
	must(t, db.Flush(context.Background()))
	if err := db.View([]byte("a"), func(v []byte) error {
		if longer := append(v, "XXXXXXXX"...); len(longer) == len(v) || cap(v) != len(v) {
			t.Errorf("a value of %d bytes has capacity %d", len(v), cap(v))
			return context.Canceled // the append damaged an adjacent value
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got, err := db.Get([]byte("b")); err != nil || string(got) != "value of b" {
		t.Errorf("Get: %q, %v", got, err)
	}
	must(t, db.Close())
}
