package tests

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func TestConditionalWritesTellAbsentFromEmpty(t *testing.T) {
	db := storetest.OpenTiny(t)
	key := []byte("key")
	for _, tt := range []struct {
		name string
		call func() (bool, error)
		done bool
		then string // the value afterwards, "-" for none
	}{
		{"nil is not absence", func() (bool, error) { return db.CompareAndSwap(key, nil, []byte("x")) }, false, "-"},
		{
			"an empty value is not absence",
			func() (bool, error) { return db.CompareAndSwap(key, []byte{}, []byte("x")) },
			false, "-",
		},
		{"nothing to delete", func() (bool, error) { return db.CompareAndDelete(key, nil) }, false, "-"},
		{"an empty value for nothing", func() (bool, error) { return db.PutIfAbsent(key, []byte{}) }, true, ""},
		{"the key exists", func() (bool, error) { return db.PutIfAbsent(key, []byte("x")) }, false, ""},
		{"a value for nil", func() (bool, error) { return db.CompareAndSwap(key, nil, []byte("z")) }, true, "z"},
		{"nil for a value", func() (bool, error) { return db.CompareAndSwap(key, []byte("z"), nil) }, true, ""},
		{"nil for nil", func() (bool, error) { return db.CompareAndSwap(key, nil, nil) }, true, ""},
		{"nil is the empty value", func() (bool, error) { return db.CompareAndDelete(key, nil) }, true, "-"},
		{"nil for nothing", func() (bool, error) { return db.PutIfAbsent(key, nil) }, true, ""},
		{
			"a value for the empty one",
			func() (bool, error) { return db.CompareAndSwap(key, []byte{}, []byte("x")) },
			true, "x",
		},
		{
			"a beginning is not the value",
			func() (bool, error) { return db.CompareAndSwap(key, []byte{}, nil) },
			false, "x",
		},
		{
			"a beginning is not the value to delete",
			func() (bool, error) { return db.CompareAndDelete(key, nil) },
			false, "x",
		},
		{"a deletion", func() (bool, error) { return db.CompareAndDelete(key, []byte("x")) }, true, "-"},
		{"nil is put as the empty value", func() (bool, error) { return db.PutIfAbsent(key, nil) }, true, ""},
		{"deleted by a range", func() (bool, error) {
			if err := db.DeleteRange(bloomkv.KeyRange{}); err != nil {
				return false, err
			}
			return db.PutIfAbsent(key, []byte("y"))
		}, true, "y"},
	} {
		done, err := tt.call()
		v, getErr := db.Get(key)
		got := string(v)
		if errors.Is(getErr, bloomkv.ErrNotFound) {
			got, getErr = "-", nil
		}
		if done != tt.done || err != nil || got != tt.then || getErr != nil {
			t.Errorf("%s: %v, %v, then %q, %v; want %v and %q", tt.name, done, err, got, getErr, tt.done, tt.then)
		}
	}
	before := db.Metrics().Writes.Operations
	if _, err := db.CompareAndSwap(make([]byte, bloomkv.MaxKeySize+1), nil, nil); !errors.Is(err, bloomkv.ErrTooLarge) {
		t.Errorf("nothing for nothing under a key that is too large: %v", err)
	}
	if _, err := db.CompareAndDelete(make([]byte, bloomkv.MaxKeySize+1), nil); !errors.Is(err, bloomkv.ErrTooLarge) {
		t.Errorf("deleting a key that is too large: %v", err)
	}
	if _, err := db.PutIfAbsent(make([]byte, bloomkv.MaxKeySize+1), nil); !errors.Is(err, bloomkv.ErrTooLarge) {
		t.Errorf("a key that is too large: %v", err)
	}
	if done, err := db.PutIfAbsent(key, nil); done || err != nil {
		t.Errorf("an existing key: %v, %v", done, err)
	}
	if n := db.Metrics().Writes.Operations - before; n != 0 {
		t.Errorf("%d operations were written, want 0", n)
	}
	must(t, db.Close())
	if _, err := db.PutIfAbsent(key, nil); err != bloomkv.ErrClosed { //nolint:errorlint // returned unwrapped
		t.Errorf("after Close: %v", err)
	}
	for _, k := range [][]byte{key, make([]byte, bloomkv.MaxKeySize+1)} {
		if _, err := db.CompareAndSwap(k, nil, nil); err != bloomkv.ErrClosed { //nolint:errorlint // returned unwrapped
			t.Errorf("after Close: %v", err)
		}
		if _, err := db.CompareAndDelete(k, nil); err != bloomkv.ErrClosed { //nolint:errorlint // returned unwrapped
			t.Errorf("after Close: %v", err)
		}
	}
}

// TestAReadOnlyStoreRefusesEveryWriteAlike compares the error of each write with that of Put, whatever a condition
// would decide, and even if there is nothing to write.
func TestAReadOnlyStoreRefusesEveryWriteAlike(t *testing.T) {
	o := storetest.Tiny(vfstest.NewMem())
	db, err := bloomkv.Open("db", o)
	must(t, err)
	must(t, errors.Join(db.Put([]byte("k"), []byte("v")), db.Close()))
	for _, d := range []bloomkv.Durability{bloomkv.DurabilitySync, bloomkv.DurabilityNoSync} {
		o.ReadOnly, o.Durability = true, d
		db = storetest.Open(t, "db", o)
		want := db.Put([]byte("k"), nil)
		if !errors.Is(want, bloomkv.ErrReadOnly) {
			t.Fatalf("Put returned %v, want ErrReadOnly", want)
		}
		inverted := bloomkv.KeyRange{Lower: []byte("b"), Upper: []byte("a")}
		calls := map[string]error{
			"Delete":                       db.Delete([]byte("k")),
			"DeleteRange":                  db.DeleteRange(bloomkv.KeyRange{}),
			"DeleteRange, inverted":        db.DeleteRange(inverted),
			"Apply of an empty batch":      db.ApplyWith(new(bloomkv.Batch), d),
			"Sync":                         db.Sync(),
			"Flush":                        db.Flush(t.Context()),
			"Compact":                      db.Compact(t.Context(), bloomkv.CompactOptions{}),
			"Compact of an inverted range": db.Compact(t.Context(), bloomkv.CompactOptions{Range: inverted}),
			"Rewrite":                      db.Compact(t.Context(), bloomkv.CompactOptions{Rewrite: true}),
			"Rewrite of an inverted range": db.Compact(t.Context(),
				bloomkv.CompactOptions{Range: inverted, Rewrite: true}),
			"Ingest": db.Ingest(t.Context(), func(func(bloomkv.KV, error) bool) {},
				bloomkv.IngestOptions{}),
		}
		_, calls["PutIfAbsent"] = db.PutIfAbsent([]byte("a"), nil)
		_, calls["PutIfAbsent of a present key"] = db.PutIfAbsent([]byte("k"), nil)
		_, calls["CompareAndSwap"] = db.CompareAndSwap([]byte("k"), []byte("v"), nil)
		_, calls["CompareAndSwap of another value"] = db.CompareAndSwap([]byte("k"), nil, nil)
		_, calls["CompareAndDelete"] = db.CompareAndDelete([]byte("k"), []byte("v"))
		_, calls["CompareAndDelete of another value"] = db.CompareAndDelete([]byte("k"), nil)
		for name, err := range calls {
			if err == nil || err.Error() != want.Error() {
				t.Errorf("%v: %s returned %v, want %v", d, name, err, want)
			}
		}
		must(t, db.Close())
	}
}

// TestConditionalWritesOfOneGroupSeeEachOther queues writers behind a slow sync, so that the next group contains many
// of them.
func TestConditionalWritesOfOneGroupSeeEachOther(t *testing.T) {
	slow, open := storetest.Gated(vfstest.NewMem(), func(op vfstest.Op) bool {
		return op.Kind == vfstest.OpSync && storetest.Inside(storetest.SyncLog)
	})
	db := storetest.Open(t, "db", storetest.Tiny(slow))
	must(t, db.ApplyWith(new(bloomkv.Batch), bloomkv.DurabilityNoSync))
	var wg sync.WaitGroup
	wg.Go(func() { // leads its group, and waits at the gate
		if err := db.Put([]byte("first"), nil); err != nil {
			t.Error(err)
		}
	})
	testkit.Soon(t, "the leader is at work", func() bool {
		leading, _ := storetest.Writers()
		return leading
	})
	const n = 12
	var mu sync.Mutex
	won := map[string]int{}
	for i := range n {
		wg.Go(func() {
			for _, key := range []string{"absent", "counter"} {
				done, err := db.PutIfAbsent([]byte(key), fmt.Appendf(nil, "writer %d", i))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				if done {
					won[key]++
				}
				mu.Unlock()
			}
		})
	}
	testkit.Soon(t, "all wait for their turn", func() bool {
		_, waiting := storetest.Writers()
		return waiting == n
	})
	before := db.Metrics().Writes.Groups
	open()
	wg.Wait()
	if won["absent"] != 1 || won["counter"] != 1 {
		t.Errorf("successful writers by key: %v, want one each", won)
	}
	if groups := db.Metrics().Writes.Groups - before; groups > n {
		t.Errorf("%d groups for %d writers: no two shared a group", groups, n)
	}
	must(t, db.Close())
}

// TestAConditionalWriteOfAGroupSeesARangeDeleteBeforeIt queues a range delete and then conditional writes behind a
// sync, so that one group contains them all.
func TestAConditionalWriteOfAGroupSeesARangeDeleteBeforeIt(t *testing.T) {
	slow, open := storetest.Gated(vfstest.NewMem(), func(op vfstest.Op) bool {
		return op.Kind == vfstest.OpSync && storetest.Inside(storetest.SyncLog)
	})
	db := storetest.Open(t, "db", storetest.Tiny(slow))
	var b bloomkv.Batch
	for i := range 4 {
		b.Put(fmt.Appendf(nil, "key%d", i), []byte("old"))
	}
	must(t, db.ApplyWith(&b, bloomkv.DurabilityNoSync))
	type outcome struct {
		done bool
		err  error
	}
	key := func(i int) []byte { return fmt.Appendf(nil, "key%d", i) }
	calls := []func() (bool, error){
		func() (bool, error) { return true, db.Put([]byte("leader"), nil) }, // waits at the gate
		func() (bool, error) { return true, db.DeleteRange(bloomkv.KeyRange{Lower: key(0), Upper: key(3)}) },
		func() (bool, error) { return db.CompareAndSwap(key(0), []byte("old"), []byte("new")) },
		func() (bool, error) { return db.CompareAndSwap(key(3), []byte("old"), []byte("new")) }, // not deleted
		func() (bool, error) { return db.CompareAndSwap(key(2), []byte("old"), nil) },
	}
	var outcomes []chan outcome
	for i, write := range calls {
		out := make(chan outcome, 1)
		outcomes = append(outcomes, out)
		go func() {
			done, err := write()
			out <- outcome{done, err}
		}()
		testkit.Soon(t, fmt.Sprintf("writer %d waits", i), func() bool {
			leading, waiting := storetest.Writers()
			return leading && waiting == i
		})
	}
	groups := db.Metrics().Writes.Groups
	open()
	for i, want := range []bool{true, true, false, true, false} {
		if got := <-outcomes[i]; got.done != want || got.err != nil {
			t.Errorf("writer %d: %v, %v, want %v", i, got.done, got.err, want)
		}
	}
	if n := db.Metrics().Writes.Groups - groups; n != 1 && n != 2 { // the leader's group may be counted already
		t.Errorf("%d groups, want one for those who waited", n)
	}
	for i, want := range []string{"", "", "", "new"} {
		if got, err := db.Get(key(i)); string(got) != want || (want == "") != errors.Is(err, bloomkv.ErrNotFound) {
			t.Errorf("key %d: %q, %v, want %q", i, got, err, want)
		}
	}
	must(t, db.Close())
}
