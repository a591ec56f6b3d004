package tests

import (
	"context"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
)

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
		if err := db.GetMany([][]byte{[]byte("x"), []byte("y")}, func(i int, v []byte, found bool) error {
			if found || v != nil {
				t.Errorf("GetMany: absent key %d: %q, %v", i, v, found)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n := db.Metrics().Readers.Iterators; n != 0 {
		t.Errorf("%d cursors are in use", n)
	}
	storetest.Within(t, 10*time.Second, "Close", func() {
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
