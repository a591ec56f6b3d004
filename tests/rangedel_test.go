package tests

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// edgeKeys are keys at which bounds are easily wrong.
var edgeKeys = []string{"", "\x00", "a", "a\x00", "a\x00\x00", "b", "ba", "c", "\xff", "\xff\xff"}

// TestDeleteRangeRemovesWhatIsFromItsFirstKeyOnAndBeforeItsLast tries every pair of bounds, before, after and between
// writes, in separate calls and in batches. It checks the store, and snapshots taken before and after, in each state
// that the writes pass through.
func TestDeleteRangeRemovesWhatIsFromItsFirstKeyOnAndBeforeItsLast(t *testing.T) {
	bound := func(i int) []byte {
		if i < len(edgeKeys) {
			return []byte(edgeKeys[i])
		}
		return nil
	}
	n := 0
	for lo := range len(edgeKeys) + 1 {
		for hi := range len(edgeKeys) + 1 {
			n++
			if n%max(1, 8/storetest.AtStride(8)) > 0 {
				continue
			}
			lo, hi := bound(lo), bound(hi)
			if err := deletesRange(t, lo, hi, n); err != nil {
				t.Errorf("from %q (nil %v) to %q (nil %v): %v", lo, lo == nil, hi, hi == nil, err)
			}
		}
	}
}

// deletesRange deletes one range in a new store; n chooses how.
func deletesRange(t *testing.T, lo, hi []byte, n int) error {
	t.Helper()
	mem := vfstest.NewMem()
	db, err := bloomkv.Open("db", storetest.Tiny(mem))
	if err != nil {
		return err
	}
	want := map[string]string{}
	for i, k := range edgeKeys {
		want[k] = fmt.Sprint("old", i)
		if err := db.Put([]byte(k), []byte(want[k])); err != nil {
			return err
		}
		if n%3 > 0 && i == 4 {
			if err := db.Flush(t.Context()); err != nil {
				return err
			}
		}
		if n%3 == 2 && i == len(edgeKeys)-1 {
			if err := db.Compact(t.Context(), bloomkv.CompactOptions{}); err != nil {
				return err
			}
		}
	}
	before, snapErr := db.Snapshot()
	old := maps.Clone(want)
	del := modelOp{key: string(lo), ranged: true, end: hi}
	w := modelWrite{
		{key: "a\x00", value: "gone again"},
		{key: "aa", value: "gone"},
		del,
		{key: "b", value: "new"},
		{key: "bb", value: "new"},
		{key: "c", del: true},
	}
	if n%2 == 0 {
		if err := db.ApplyWith(w.batch(), bloomkv.DurabilitySync); err != nil {
			return err
		}
	} else {
		for _, op := range w {
			var err error
			switch {
			case op.ranged:
				err = db.DeleteRange(bloomkv.KeyRange{Lower: lo, Upper: hi}) // keeps nil bounds nil
			case op.del:
				err = db.Delete([]byte(op.key))
			default:
				err = db.Put([]byte(op.key), []byte(op.value))
			}
			if err != nil {
				return err
			}
		}
	}
	w.apply(want)
	after, err := db.Snapshot()
	if err = errors.Join(err, snapErr); err != nil {
		return err
	}
	keys := append(slices.Clone(edgeKeys), "aa", "bb", "z")
	agree := func(where string) error {
		if err := storetest.Shows(db, want, keys); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		if err := storetest.Shows(before, old, keys); err != nil {
			return fmt.Errorf("%s, snapshot from before: %w", where, err)
		}
		if err := storetest.Shows(after, want, keys); err != nil {
			return fmt.Errorf("%s, snapshot from after: %w", where, err)
		}
		var many [][]byte
		for _, k := range keys {
			many = append(many, []byte(k))
		}
		return db.GetMany(many, func(i int, v []byte, found bool) error {
			if w, there := want[keys[i]]; found != there || string(v) != w || there && !db.MayContain(many[i]) {
				return fmt.Errorf("%s: get many, %q: %q, %v, want %q, %v", where, keys[i], v, found, w, there)
			}
			return nil
		})
	}
	if err := agree("in memory"); err != nil {
		return err
	}
	killed, cut := mem.Kill(), mem.Crash(vfstest.KeepNothing)
	for _, step := range []struct {
		where string
		do    func() error
	}{
		{"flushed", func() error { return db.Flush(t.Context()) }},
		{"compacted", func() error { return db.Compact(t.Context(), bloomkv.CompactOptions{}) }},
		{"compacted again", func() error { return db.Compact(t.Context(), bloomkv.CompactOptions{}) }},
	} {
		if err := step.do(); err != nil {
			return err
		}
		if err := agree(step.where); err != nil {
			return err
		}
	}
	if err := errors.Join(before.Close(), after.Close(), db.Compact(t.Context(), bloomkv.CompactOptions{}),
		storetest.Shows(db, want, keys)); err != nil {
		return fmt.Errorf("compacted without snapshots: %w", err)
	}
	levels := db.Metrics().Levels
	for i, l := range levels {
		if l.Deletes > 0 || i == len(levels)-1 && l.Entries != uint64(len(want)) {
			return fmt.Errorf("compacted without snapshots: level %d has %d versions and %d tombstones, want %d and 0",
				i, l.Entries, l.Deletes, len(want))
		}
	}
	if err := db.Close(); err != nil {
		return err
	}
	for where, left := range map[string]*vfstest.Mem{
		"reopened": mem, "after the death of the process": killed,
		"after a power cut": cut,
	} {
		for _, readOnly := range []bool{true, false} {
			o := storetest.Tiny(left)
			o.ReadOnly = readOnly
			again, err := bloomkv.Open("db", o)
			if err != nil {
				return fmt.Errorf("%s: %w", where, err)
			}
			if err := errors.Join(storetest.Shows(again, want, keys), again.Close()); err != nil {
				return fmt.Errorf("%s, read only %v: %w", where, readOnly, err)
			}
		}
		if _, err := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: left}); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
	}
	return nil
}

// TestNoFilterHidesATombstone looks up keys of a deleted range in a store that was just opened: no tail is loaded, and
// the filters of the tables with the tombstones, which may hold nothing else, do not contain the keys.
func TestNoFilterHidesATombstone(t *testing.T) {
	key := func(i int) []byte { return fmt.Appendf(nil, "key%04d", i) }
	for _, beside := range []string{
		"alone in their table", "beside other keys", "in the run of other tables",
		"over what is left of a merge",
	} {
		mem := vfstest.NewMem()
		o := storetest.Tiny(mem)
		o.Durability, o.Compression = bloomkv.DurabilityNoSync, bloomkv.CompressionNone
		db, err := bloomkv.Open("db", o)
		if err != nil {
			t.Fatal(err)
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		for i := range 400 {
			must(db.Put(key(i), make([]byte, 100)))
		}
		must(db.Compact(t.Context(), bloomkv.CompactOptions{}))
		switch beside {
		case "beside other keys":
			must(db.Put(key(0), nil))
			must(db.Put(key(399), nil))
		case "in the run of other tables":
			for i := range 400 {
				if i < 30 || i > 300 {
					must(db.Put(key(i), make([]byte, 100)))
				}
			}
		}
		must(db.DeleteRange(bloomkv.KeyRange{Lower: key(100), Upper: key(110)}))
		must(db.DeleteRange(bloomkv.KeyRange{Lower: key(100), Upper: key(105)}))
		must(db.DeleteRange(bloomkv.KeyRange{Lower: key(200), Upper: key(201)}))
		if beside == "over what is left of a merge" {
			must(db.Flush(t.Context()))
			must(db.Put(key(102), nil))
			must(db.Delete(key(102)))
			must(db.Put(key(50), nil))
			must(db.Flush(t.Context()))
			must(db.DeleteRange(bloomkv.KeyRange{Lower: key(103), Upper: key(110)}))
		}
		must(db.Close())

		lookups := map[string]func(db *bloomkv.DB, k []byte) (bool, error){
			"get": func(db *bloomkv.DB, k []byte) (bool, error) { return errNot(db.Get(k)) },
			"has": func(db *bloomkv.DB, k []byte) (bool, error) { return db.Has(k) },
			"view": func(db *bloomkv.DB, k []byte) (bool, error) {
				return errNot(nil, db.View(k, func([]byte) error { return nil }))
			},
			"traced": func(db *bloomkv.DB, k []byte) (bool, error) {
				v, _, err := db.GetTraced(k)
				return errNot(v, err)
			},
			"many": func(db *bloomkv.DB, k []byte) (there bool, err error) {
				err = db.GetMany([][]byte{[]byte("none"), k}, func(i int, _ []byte, found bool) error {
					there = found
					return nil
				})
				return there, err
			},
			"seek forward": func(db *bloomkv.DB, k []byte) (bool, error) {
				it := db.Iter(bloomkv.IterOptions{})
				there := it.SeekGE(k) && string(it.Key()) == string(k)
				return there, it.Close()
			},
			"seek back": func(db *bloomkv.DB, k []byte) (bool, error) {
				it := db.Iter(bloomkv.IterOptions{})
				there := it.SeekLT(append(slices.Clip(k), 0)) && string(it.Key()) == string(k)
				return there, it.Close()
			},
			"put if absent": func(db *bloomkv.DB, k []byte) (bool, error) {
				done, err := db.PutIfAbsent(k, nil)
				return !done, err
			},
			"swap": func(db *bloomkv.DB, k []byte) (bool, error) {
				done, err := db.CompareAndSwap(k, make([]byte, 100), []byte{})
				return done, err
			},
		}
		for what, lookup := range lookups {
			for _, i := range []int{99, 100, 102, 104, 105, 109, 110, 200, 201} {
				cold := *o
				cold.FS = mem.Kill()
				db := storetest.OpenCold(t, &cold)
				there, err := lookup(db, key(i))
				if want := i < 100 || i >= 110 && i != 200; there != want || err != nil {
					t.Errorf("tombstones %s, %s of %s: found %v, %v, want %v", beside, what, key(i), there, err, want)
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// errNot reports whether a lookup found a key, and returns its error unless it is ErrNotFound.
func errNot(_ []byte, err error) (bool, error) {
	if errors.Is(err, bloomkv.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
