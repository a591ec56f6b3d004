package tests

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestIteratorsThatEndLeaveNothingToOthers closes iterators concurrently: an iterator must read what it recorded before
// another one may reuse its cursor. It is a test for the race detector.
func TestIteratorsThatEndLeaveNothingToOthers(t *testing.T) {
	db, err := bloomkv.Open("db", storetest.Tiny(vfstest.NewMem()))
	must(t, err)
	defer db.Close()
	must(t, db.Put([]byte("key"), nil))
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 500 {
				it := db.Iter(bloomkv.IterOptions{})
				it.First()
				if err := it.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	readers.Wait()
}

// TestASecondCloseIsErrClosed closes everything twice, before and after the store is closed.
func TestASecondCloseIsErrClosed(t *testing.T) {
	db, err := bloomkv.Open("db", storetest.Tiny(vfstest.NewMem()))
	must(t, err)
	first, err := db.Snapshot()
	must(t, err)
	second, err := db.Snapshot()
	must(t, err)
	its := []*bloomkv.Iterator{db.Iter(bloomkv.IterOptions{}), db.Iter(bloomkv.IterOptions{})}
	for _, c := range []struct {
		what  string
		close func() error
	}{
		{"a snapshot", first.Close},
		{"an iterator", its[0].Close},
		{"the store", db.Close},
		{"a snapshot of a closed store", second.Close},
		{"an iterator of a closed store", its[1].Close},
	} {
		if err := c.close(); err != nil {
			t.Errorf("%s: the first Close returned %v", c.what, err)
		}
		if err := c.close(); err != bloomkv.ErrClosed { //nolint:errorlint // returned bare
			t.Errorf("%s: a second Close returned %v, want ErrClosed", c.what, err)
		}
	}
	for _, it := range its {
		if err := it.Err(); err != nil {
			t.Errorf("Err returned %v after a second Close, want what the first returned", err)
		}
	}
}

// TestTheEmptyKeyIsNotNil checks that Key distinguishes the empty key from no key.
func TestTheEmptyKeyIsNotNil(t *testing.T) {
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: vfstest.NewMem()})
	must(t, err)
	defer db.Close()
	must(t, db.Put(nil, nil))
	for range 2 {
		for range 4 {
			it := db.Iter(bloomkv.IterOptions{})
			if it.Key() != nil {
				t.Error("on a new iterator: got a key, want nil")
			}
			if !it.First() || it.Key() == nil {
				t.Error("First: got nil, want the empty key")
			}
			if it.Next() || it.Key() != nil {
				t.Error("past the end: got a key, want nil")
			}
			if !it.Last() || it.Key() == nil {
				t.Error("Last: got nil, want the empty key")
			}
			it.Close()
		}
		must(t, db.Flush(t.Context()))
	}
}

// TestAnEmptyValueIsNeverNil checks that Value keeps the promise of Get, whatever values the iterator's cursor has read
// before.
func TestAnEmptyValueIsNeverNil(t *testing.T) {
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: vfstest.NewMem()})
	must(t, err)
	defer db.Close()
	for key, value := range map[string][]byte{"empty": nil, "large": make([]byte, 2<<20)} {
		must(t, db.Put([]byte(key), value))
	}
	for round := range 2 {
		for range 4 {
			it := db.Iter(bloomkv.IterOptions{})
			it.Last() // the large value grows a buffer that is not reused
			it.Close()
			it = db.Iter(bloomkv.IterOptions{Upper: []byte("large")})
			if !it.Last() || it.Value() == nil {
				t.Errorf("round %d, Last: key %q, value %v, want an empty one", round, it.Key(), it.Value())
			}
			if !it.First() || it.Value() == nil {
				t.Errorf("round %d, First: key %q, value %v, want an empty one", round, it.Key(), it.Value())
			}
			it.Close()
		}
		must(t, db.Flush(t.Context()))
	}
}

// TestAppendingToWhatAnIteratorShowsChangesNothing walks over a store, in tables and in a memtable, and appends to each
// key and value.
func TestAppendingToWhatAnIteratorShowsChangesNothing(t *testing.T) {
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: vfstest.NewMem()})
	must(t, err)
	defer db.Close()
	const n = 500
	pair := func(i int) (key, value string) { return fmt.Sprintf("key%05d", i), fmt.Sprintf("value%095d", i) }
	for i := range n {
		key, value := pair(i)
		must(t, db.Put([]byte(key), []byte(value)))
	}
	more := bytes.Repeat([]byte("+"), 300)
	for _, where := range []string{"memtable", "table"} {
		it := db.Iter(bloomkv.IterOptions{})
		check := func(i int) {
			t.Helper()
			key, value := pair(i)
			if string(it.Key()) != key || string(it.Value()) != value {
				t.Fatalf("%s, pair %d: got %q = %q, want %q = %q", where, i, it.Key(), it.Value(), key, value)
			}
			_, _ = append(it.Key(), more...), append(it.Value(), more...)
			if string(it.Key()) != key || string(it.Value()) != value {
				t.Fatalf("%s, pair %d: appending changes it to %q = %q", where, i, it.Key(), it.Value())
			}
		}
		i := 0
		for ok := it.First(); ok; ok = it.Next() {
			check(i)
			i++
		}
		for ok := it.Last(); ok; ok = it.Prev() {
			i--
			check(i)
		}
		if i != 0 {
			t.Errorf("%s: %d pairs are left on the way back", where, i)
		}
		must(t, it.Close())
		must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	}
}
