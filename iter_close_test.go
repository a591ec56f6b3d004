package bloomkv

import (
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv/vfs"
)

// TestIteratorsThatEndLeaveNothingToOthers ends iterators beside each other: what one has learned is read before its cursor
// may be another's. The race detector is the judge.
func TestIteratorsThatEndLeaveNothingToOthers(t *testing.T) {
	db, err := Open("db", tiny(vfs.NewMem()))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("key"), nil); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 500 {
				it := db.Iter(IterOptions{})
				it.First()
				if err := it.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	readers.Wait()
}

// TestTheEmptyKeyIsNotNil tells it from the key of an iterator that stands at none.
func TestTheEmptyKeyIsNotNil(t *testing.T) {
	db, err := Open("db", &Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Put(nil, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for range 4 {
			it := db.Iter(IterOptions{})
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
		if err := db.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnEmptyValueIsNeverNil holds iterators to what Get promises, whatever their cursors have seen before.
func TestAnEmptyValueIsNeverNil(t *testing.T) {
	db, err := Open("db", &Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for key, value := range map[string][]byte{"empty": nil, "large": make([]byte, 2<<20)} {
		if err := db.Put([]byte(key), value); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 2 {
		for range 4 {
			it := db.Iter(IterOptions{})
			it.Last() // the large one grows a buffer that is not kept
			it.Close()
			it = db.Iter(IterOptions{Upper: []byte("large")})
			if !it.Last() || it.Value() == nil {
				t.Errorf("round %d, Last: key %q, value %v, want an empty one", round, it.Key(), it.Value())
			}
			if !it.First() || it.Value() == nil {
				t.Errorf("round %d, First: key %q, value %v, want an empty one", round, it.Key(), it.Value())
			}
			it.Close()
		}
		if err := db.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
