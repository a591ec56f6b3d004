package tests

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/salvage"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// edgeKeys are keys at which bounds are easily wrong.
var edgeKeys = []string{"", "\x00", "a", "a\x00", "a\x00\x00", "b", "ba", "c", "\xff", "\xff\xff"}

// TestDeleteRangeHasItsFirstKeyAndNotItsLast tries every pair of bounds, before, after and between
// writes, in separate calls and in batches. It checks the store, and snapshots taken before and after, in each state
// that the writes pass through.
func TestDeleteRangeHasItsFirstKeyAndNotItsLast(t *testing.T) {
	testkit.LongUnderRace(t)
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
	testkit.Long(t)
	key := func(i int) []byte { return fmt.Appendf(nil, "key%04d", i) }
	for _, beside := range []string{
		"alone in their table", "beside other keys", "in the run of other tables",
		"over what is left of a merge",
	} {
		mem := vfstest.NewMem()
		o := storetest.Tiny(mem)
		o.Durability, o.Compression = bloomkv.DurabilityNoSync, bloomkv.CompressionNone
		db := storetest.Open(t, "db", o)
		for i := range 400 {
			must(t, db.Put(key(i), make([]byte, 100)))
		}
		must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		switch beside {
		case "beside other keys":
			must(t, db.Put(key(0), nil))
			must(t, db.Put(key(399), nil))
		case "in the run of other tables":
			for i := range 400 {
				if i < 30 || i > 300 {
					must(t, db.Put(key(i), make([]byte, 100)))
				}
			}
		}
		must(t, db.DeleteRange(bloomkv.KeyRange{Lower: key(100), Upper: key(110)}))
		must(t, db.DeleteRange(bloomkv.KeyRange{Lower: key(100), Upper: key(105)}))
		must(t, db.DeleteRange(bloomkv.KeyRange{Lower: key(200), Upper: key(201)}))
		if beside == "over what is left of a merge" {
			must(t, db.Flush(t.Context()))
			must(t, db.Put(key(102), nil))
			must(t, db.Delete(key(102)))
			must(t, db.Put(key(50), nil))
			must(t, db.Flush(t.Context()))
			must(t, db.DeleteRange(bloomkv.KeyRange{Lower: key(103), Upper: key(110)}))
		}
		must(t, db.Close())

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
				must(t, db.Close())
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

// rangeShapes are n range deletes that lie over each other, and the largest key among their bounds.
var rangeShapes = []struct {
	name string
	of   func(i, n int) (lo, hi int)
}{
	{"each inside the last", func(i, n int) (int, int) { return i, 4*n - i }},
	{"each around the last", func(i, n int) (int, int) { return 2*n - i, 2*n + i + 1 }},
	{"staggered", func(i, n int) (int, int) { return i, i + n }},
	{"a comb", func(i, n int) (int, int) { lo := i * 7919 % (2 * n); return lo, lo + n/2 }},
	{"all the same", func(int, int) (int, int) { return 1, 5 }},
}

func numberKey(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }

// TestRangeDeletesBetweenSnapshotsTakeSpaceInProportion deletes n ranges over each other, with a snapshot after each
// that stays open, and counts the bytes of tables and of memory after a flush and after a compaction.
func TestRangeDeletesBetweenSnapshotsTakeSpaceInProportion(t *testing.T) {
	testkit.Long(t)
	for _, shape := range rangeShapes {
		for _, n := range []int{100, 1000, 4000} {
			db := storetest.Open(t, "db", &bloomkv.Options{FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync})
			var snaps []*bloomkv.Snapshot
			put := func() {
				must(t, errors.Join(db.Put(numberKey(2*n), nil), db.Flush(t.Context())))
			}
			put()
			for i := range n {
				lo, hi := shape.of(i, n)
				must(t, db.DeleteRange(bloomkv.KeyRange{Lower: numberKey(lo), Upper: numberKey(hi)}))
				s, err := db.Snapshot()
				must(t, err)
				snaps = append(snaps, s)
			}
			check := func(when string) {
				t.Helper()
				size := int64(0)
				for _, table := range db.Tables() {
					size += int64(table.Bytes)
				}
				if most := int64(5000 + 110*n); size > most {
					t.Errorf("%s, %d %s: tables of %d bytes, want at most %d", shape.name, n, when, size, most)
				}
				most := int64(1000 + n*(500+32*bits.Len(uint(n))))
				testkit.Soon(t, fmt.Sprintf("%s, %d %s: at most %d bytes in memory", shape.name, n, when, most),
					func() bool { return db.Metrics().Memory.RangeDeletes <= most }) // without those of replaced tables
			}
			must(t, db.Flush(t.Context()))
			check("flushed")
			put()
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
			check("compacted")
			for _, s := range snaps {
				must(t, s.Close())
			}
			must(t, db.Close())
		}
	}
}

// TestEverySnapshotReadsRightBetweenManyRangeDeletes compares many snapshots, between range deletes over each other
// and puts, with maps: in memory, in tables, compacted, while snapshots are closed, and in what is made of the store.
func TestEverySnapshotReadsRightBetweenManyRangeDeletes(t *testing.T) {
	testkit.Long(t)
	stores, overlapped := 0, 0
	for of, shape := range rangeShapes {
		for seed := range uint64(2) {
			rng := rand.New(rand.NewPCG(seed, uint64(of)))
			o := storetest.Tiny(vfstest.NewMem())
			o.Durability = bloomkv.DurabilityNoSync
			o.MemtableSize = int64(16<<10) << (4 * (seed % 2))
			db, err := bloomkv.Open("db", o)
			must(t, err)
			stores++
			const n = 120
			now := map[string]string{}
			var keys []string
			for i := range 4 * n {
				keys = append(keys, string(numberKey(i)))
			}
			type kept struct {
				s    *bloomkv.Snapshot
				want map[string]string
			}
			var open []kept
			write := func(i int) {
				for range rng.IntN(6) {
					k := keys[rng.IntN(len(keys))]
					now[k] = string(bytes.Repeat([]byte{'v', byte(i)}, rng.IntN(200)))
					must(t, db.Put([]byte(k), []byte(now[k])))
				}
				lo, hi := shape.of(i, n)
				must(t, db.DeleteRange(bloomkv.KeyRange{Lower: numberKey(lo), Upper: numberKey(hi)}))
				maps.DeleteFunc(now, func(k, _ string) bool {
					return k >= string(numberKey(lo)) && k < string(numberKey(hi))
				})
				s, err := db.Snapshot()
				must(t, err)
				open = append(open, kept{s, maps.Clone(now)})
			}
			check := func(when string) {
				t.Helper()
				for i, k := range open {
					if i%7 == int(seed)%7 || i == len(open)-1 {
						if err := storetest.Shows(k.s, k.want, keys[:40]); err != nil {
							t.Fatalf("%s, seed %d, %s: snapshot %d: %v", shape.name, seed, when, i, err)
						}
					}
				}
				if err := storetest.Shows(db, now, keys); err != nil {
					t.Fatalf("%s, seed %d, %s: %v", shape.name, seed, when, err)
				}
				checked(t, db)
				for _, table := range storetest.Recorded(t, o.FS, "db").Version.Tables() {
					if table.Flags&manifest.RangesOverlap != 0 {
						overlapped++
					}
				}
			}
			for i := range n {
				write(i)
				if rng.IntN(20) == 0 {
					must(t, db.Flush(t.Context()))
				}
			}
			check("written")
			must(t, db.Flush(t.Context()))
			check("flushed")
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
			check("compacted")
			for i := range n / 4 {
				write(i)
			}
			check("written again")
			copied(t, db, now, keys)
			for len(open) > 0 {
				for range min(len(open), 1+rng.IntN(40)) {
					i := rng.IntN(len(open))
					must(t, open[i].s.Close())
					open = slices.Delete(open, i, i+1)
				}
				must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
				check("with fewer snapshots")
			}
			must(t, db.Close())
			db = storetest.Open(t, "db", o)
			check("reopened")
			must(t, db.Close())
		}
	}
	if overlapped < 2*stores {
		t.Errorf("%d tables with range deletes that overlap were seen in %d stores: the test tests nothing", overlapped,
			stores)
	}
}

// copied compares what an export, a checkpoint and Salvage make of a store with a map.
func copied(t *testing.T, db *bloomkv.DB, want map[string]string, keys []string) {
	t.Helper()
	var stream bytes.Buffer
	e, err := db.Export(t.Context(), bloomkv.ExportOptions{})
	must(t, err)
	_, err = e.WriteTo(&stream)
	must(t, errors.Join(err, e.Close()))
	imported := vfstest.NewMem()
	must(t, bloomkv.Import(t.Context(), &stream, "imported", bloomkv.NewStoreOptions{FS: imported}))
	must(t, db.Checkpoint(t.Context(), "checkpoint"))
	for _, c := range []struct {
		dir string
		fs  vfs.FS
	}{{"imported", imported}, {"checkpoint", db.FS()}} {
		opts := salvage.Options{Store: &bloomkv.Options{FS: c.fs}}
		_, err = salvage.Run(t.Context(), c.dir, "salvaged of "+c.dir, opts)
		must(t, err)
		for _, dir := range []string{c.dir, "salvaged of " + c.dir} {
			db := storetest.Open(t, dir, &bloomkv.Options{FS: c.fs})
			if err := storetest.Shows(db, want, keys); err != nil {
				t.Errorf("%s: %v", dir, err)
			}
			checked(t, db)
			must(t, db.Close())
		}
	}
}

func checked(t *testing.T, db *bloomkv.DB) {
	t.Helper()
	_, err := db.Check(t.Context(), bloomkv.CheckOptions{})
	must(t, err)
}

// TestRangeTombstonesThatAreLoadedLateGiveTheirSpaceBack opens a store whose range tombstones are not loaded yet when
// compaction looks at the tree and finds nothing to do. No write follows.
func TestRangeTombstonesThatAreLoadedLateGiveTheirSpaceBack(t *testing.T) {
	testkit.LongUnderRace(t) // making the store takes long
	w := newWideStore(t)
	o := *w.o
	o.FS = w.mem
	db := storetest.Open(t, "db", &o)
	snap, err := db.Snapshot() // so that nothing is compacted at first
	if err == nil {
		err = errors.Join(db.DeleteRange(bloomkv.KeyRange{Upper: w.key(w.keys / 2)}), db.Flush(t.Context()))
	}
	must(t, err)
	storetest.Settle(t, db)
	deleted := w.mem.Kill()
	must(t, errors.Join(snap.Close(), db.Close()))
	full := bytesOfTables(t, deleted)
	for _, byLookup := range []bool{false, true} { // otherwise by the warm-up
		t.Run(fmt.Sprintf("by a lookup: %v", byLookup), func(t *testing.T) {
			mem := deleted.Kill()
			var failed atomic.Bool // to warm up
			cold := vfstest.NewHook(mem, func(op vfstest.Op) error {
				if byLookup && !failed.Load() && op.Kind == vfstest.OpReadAt && storetest.Inside(storetest.WarmUp) {
					return storetest.ErrCold
				}
				return nil
			})
			o := *w.o
			var warm func()
			o.FS, warm = storetest.Gated(cold, func(op vfstest.Op) bool {
				return op.Kind == vfstest.OpOpen && storetest.Inside(storetest.WarmUp)
			})
			db := storetest.Open(t, "db", &o)
			// This Compact has nothing to do. When it returns, compaction has looked at the tree and waits.
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{Range: bloomkv.KeyRange{Lower: w.key(w.keys)}}))
			if now := bytesOfTables(t, mem); now != full {
				t.Fatalf("%d bytes of %d are left: the test tests nothing", now, full)
			}
			warm()
			if byLookup {
				testkit.Soon(t, "warming up has failed", func() bool { return db.Metrics().Warm })
				failed.Store(true)
				if db.Metrics().Writes.Compactions > 0 {
					t.Fatal("the tombstones were already loaded: the test tests nothing")
				}
				if _, err := db.Get(w.key(0)); !errors.Is(err, bloomkv.ErrNotFound) {
					t.Errorf("got %v, want ErrNotFound", err)
				}
			}
			testkit.Soon(t, "the space is free", func() bool { return bytesOfTables(t, mem) <= full*525/1000 })
			must(t, db.Close())
		})
	}
}
