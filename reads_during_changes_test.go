package bloomkv_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A reader loads its state and its sequence separately. These tests change the store between the two loads.

// replace overwrites key and drops the old version from the tree: a lookup that begins later does not need it.
func replace(t *testing.T, db *bloomkv.DB, key, value []byte) {
	t.Helper()
	if err := errors.Join(db.Put(key, value), db.Compact(t.Context(), bloomkv.CompactOptions{})); err != nil {
		t.Error(err)
	}
}

// TestAKeyThatIsThereIsFoundWhileItIsReplaced replaces a key while a reader has loaded only one of state and sequence.
// The reader returns either value, and never ErrNotFound.
func TestAKeyThatIsThereIsFoundWhileItIsReplaced(t *testing.T) {
	key := []byte("key")
	found := func(v []byte, err error) error {
		if err == nil && string(v) != "old" && string(v) != "new" {
			err = fmt.Errorf("value %q", v)
		}
		return err
	}
	readers := map[string]func(db *bloomkv.DB) error{
		"Get":       func(db *bloomkv.DB) error { return found(db.Get(key)) },
		"AppendGet": func(db *bloomkv.DB) error { return found(db.AppendGet(nil, key)) },
		"GetTraced": func(db *bloomkv.DB) error {
			v, _, err := db.GetTraced(key)
			return found(v, err)
		},
		"View": func(db *bloomkv.DB) error { return db.View(key, func(v []byte) error { return found(v, nil) }) },
		"Has": func(db *bloomkv.DB) error {
			ok, err := db.Has(key)
			if err == nil && !ok {
				err = bloomkv.ErrNotFound
			}
			return err
		},
		"MayContain": func(db *bloomkv.DB) error {
			if !db.MayContain(key) {
				return bloomkv.ErrNotFound
			}
			return nil
		},
		"GetMany": func(db *bloomkv.DB) error {
			return db.GetMany([][]byte{key}, func(_ int, v []byte, ok bool) error {
				if !ok {
					return bloomkv.ErrNotFound
				}
				return found(v, nil)
			})
		},
		"Iter": func(db *bloomkv.DB) error {
			it := db.Iter(bloomkv.IterOptions{})
			ok := it.First()
			v := append([]byte{}, it.Value()...)
			if err := it.Close(); err != nil || !ok {
				return errors.Join(err, bloomkv.ErrNotFound)
			}
			return found(v, nil)
		},
		"Snapshot": func(db *bloomkv.DB) error {
			s, err := db.Snapshot()
			if err != nil {
				return err
			}
			v, err := s.Get(key)
			return errors.Join(found(v, err), s.Close())
		},
	}
	for name, read := range readers {
		for _, place := range []string{"a memtable", "a table"} {
			for side, gate := range map[string]func(*bloomkv.DB, int, func()){"before": beforeSeq, "after": afterSeq} {
				for times := 1; times <= 3; times++ { // a reader that finds another state reads the sequence again
					db, err := bloomkv.Open("db", storetest.Tiny(vfstest.NewMem()))
					must(t, err)
					// Versions newer than a snapshot keep their sequence numbers through a compaction.
					snapshot, err := db.Snapshot()
					if err == nil {
						err = db.Put(key, []byte("old"))
					}
					if err == nil && place == "a table" {
						err = db.Flush(t.Context())
					}
					must(t, err)
					nth, left := 1, times
					if name == "Snapshot" {
						nth = 2 // the first is read under locks, which would block the replacement
					}
					var again func()
					again = func() {
						replace(t, db, key, []byte("new"))
						if left--; left > 0 {
							gate(db, 1, again)
						}
					}
					gate(db, nth, again)
					if err := read(db); err != nil {
						t.Errorf("%s of a key in %s that is replaced %s each of %d readings of the sequence: %v",
							name, place, side, times, err)
					}
					db.Tree().SeqGate = nil
					must(t, errors.Join(snapshot.Close(), db.Close()))
				}
			}
		}
	}
}

// TestASnapshotThatIsTakenWhileTablesAreWrittenKeepsWhatItSees takes a snapshot after a compaction has read the
// versions of its inputs and before it is installed.
func TestASnapshotThatIsTakenWhileTablesAreWrittenKeepsWhatItSees(t *testing.T) {
	for _, work := range []storetest.Function{storetest.CompactLoop, storetest.FlushLoop} {
		g := storetest.NewGate()
		db, err := bloomkv.Open("db", storetest.Tiny(vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
			if storetest.CreatesTable(op) && storetest.Inside(work) {
				g.Pass()
			}
			return nil
		})))
		must(t, err)
		key := []byte("key")
		put := func(v string) {
			if err := db.Put(key, []byte(v)); err != nil {
				t.Error(err)
			}
		}
		done := make(chan error, 1)
		put("first")
		if work == storetest.FlushLoop {
			go func() { done <- db.Flush(t.Context()) }()
		} else {
			must(t, db.Flush(t.Context()))
			put("second")
			go func() { done <- db.Compact(t.Context(), bloomkv.CompactOptions{}) }()
		}
		g.Wait(t, string(work)+" writes a table")
		s, err := db.Snapshot()
		must(t, err)
		want, err := s.Get(key)
		must(t, err)
		put("third")
		close(g.Open)
		must(t, <-done)
		replace(t, db, key, []byte("fourth"))
		if got, err := s.Get(key); err != nil || string(got) != string(want) {
			t.Errorf("%s: the snapshot returns %q, %v, want %q", work, got, err, want)
		}
		if err := errors.Join(s.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestAStateIsHeldInsideAGuard changes the tree and removes obsolete files between the two steps in which a long-lived
// reader acquires its state.
func TestAStateIsHeldInsideAGuard(t *testing.T) {
	readers := map[string]func(db *bloomkv.DB) (map[string]string, error){
		"Scan": storetest.Contents,
		"GetMany": func(db *bloomkv.DB) (map[string]string, error) {
			all := map[string]string{}
			keys := [][]byte{[]byte("a"), []byte("b")}
			return all, db.GetMany(keys, func(i int, v []byte, found bool) error {
				if found {
					all[string(keys[i])] = string(v)
				}
				return nil
			})
		},
	}
	for name, read := range readers {
		for _, replaced := range []bool{false, true} { // false: a new state that keeps these tables
			db, err := bloomkv.Open("db", storetest.Tiny(vfstest.NewMem()))
			must(t, err)
			write := func(key, value string) {
				if err := errors.Join(db.Put([]byte(key), []byte(value)), db.Flush(t.Context())); err != nil {
					t.Error(err)
				}
			}
			write("a", "old")
			write("b", "old")
			atRest(t, db)
			spoilAll(db)
			between := func() {
				if !storetest.Inside(storetest.HoldState) { // background work, for which the calls below wait
					return
				}
				db.Tree().HoldGate.Store(nil)
				if replaced {
					write("a", "new")
					write("b", "new")
					if err := db.Compact(t.Context(), bloomkv.CompactOptions{}); err != nil {
						t.Error(err)
					}
				}
				db.Tree().Domain.Collect()
				write("x", "") // each flush removes obsolete files
				write("x", "")
			}
			db.Tree().HoldGate.Store(&between)
			got, err := read(db)
			if db.Tree().HoldGate.Load() != nil {
				t.Errorf("%s: nothing was changed meanwhile", name)
			}
			if err != nil || got["a"] != got["b"] || got["a"] == "" {
				t.Errorf("%s, of a store that was changed meanwhile (%v): %q, %v; want two equal values", name,
					replaced, got, err)
			}
			write("x", "")
			write("x", "")
			spoilAll(db)
			if got, err = storetest.Contents(db); err != nil || len(got) != 3 {
				t.Errorf("after %s: %q, %v; want three keys", name, got, err)
			}
			must(t, db.Close())
		}
	}
}

// TestAReadUnderWayKeepsItsTable stops a lookup at its read of a table, replaces the table and removes obsolete files.
func TestAReadUnderWayKeepsItsTable(t *testing.T) {
	g := storetest.NewGate()
	slow := false
	files := storetest.TrackOpen(vfstest.NewMem())
	db, err := bloomkv.Open("db", storetest.Tiny(vfstest.NewHook(files, func(op vfstest.Op) error {
		if slow && op.Kind == vfstest.OpReadAt && storetest.Inside(storetest.Search) {
			g.Pass()
		}
		return nil
	})))
	must(t, err)
	key := []byte("key")
	must(t, errors.Join(db.Put(key, []byte("old")), db.Flush(t.Context())))
	atRest(t, db)
	spoilAll(db)
	old, _ := tablesOf(db)
	slow = true
	done := make(chan error, 1)
	go func() {
		v, err := db.Get(key)
		if err == nil && string(v) != "old" {
			err = fmt.Errorf("value %q", v)
		}
		done <- err
	}()
	g.Wait(t, "the lookup reads")
	replace(t, db, key, []byte("new"))
	for range 2 {
		must(t, errors.Join(db.Put([]byte("x"), nil), db.Flush(t.Context())))
	}
	if files.Of(old[0].File.Path) != 1 {
		t.Error("the table was closed under a read")
	}
	close(g.Open)
	if err := <-done; err != nil {
		t.Error(err)
	}
	atRest(t, db)
	if files.Of(old[0].File.Path) != 0 {
		t.Error("the table stays open")
	}
	if err := errors.Join(db.Close(), files.Left()); err != nil {
		t.Error(err)
	}
}

// afterSeq calls f once, when a reader has read the newest sequence for the nth time, counted from 1, and has not used
// it yet. f may read too.
func afterSeq(db *bloomkv.DB, nth int, f func()) {
	calls := 0
	db.Tree().SeqGate = func(read func() uint64) uint64 {
		seq := read()
		if calls++; calls == nth {
			f()
		}
		return seq
	}
}

// beforeSeq calls f once, just before a reader reads the newest sequence for the nth time.
func beforeSeq(db *bloomkv.DB, nth int, f func()) {
	calls := 0
	db.Tree().SeqGate = func(read func() uint64) uint64 {
		if calls++; calls == nth {
			f()
		}
		return read()
	}
}
