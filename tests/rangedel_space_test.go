package tests

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// bytesOfTables returns the size of all tables in a store's directory.
func bytesOfTables(t *testing.T, fsys vfs.FS) (size int64) {
	t.Helper()
	names, err := fsys.List("db")
	must(t, err)
	for _, name := range names {
		if kind, _ := filename.Parse(name); kind != filename.Table {
			continue
		}
		switch info, err := fsys.Stat(filepath.Join("db", name)); {
		case err == nil:
			size += info.Size()
		case !errors.Is(err, fs.ErrNotExist): // otherwise it was removed after the directory was listed
			t.Fatal(err)
		}
	}
	return size
}

// A wideStore has keys from 0 on, in several levels. Its test deletes those in [lo, hi).
type wideStore struct {
	keys, lo, hi int
	mem          *vfstest.Mem
	o            *bloomkv.Options
}

func (w *wideStore) key(i int) []byte { return fmt.Appendf(nil, "key%06d", i) }

// wide is the store of newWideStore, which is made once.
var wide *wideStore

// newWideStore returns a copy of a store of two levels and more.
func newWideStore(t *testing.T) *wideStore {
	t.Helper()
	if wide == nil {
		wide = buildWideStore(t)
	}
	w, o := *wide, *wide.o
	w.mem, w.o = wide.mem.Kill(), &o
	o.FS = w.mem
	return &w
}

func buildWideStore(t *testing.T) *wideStore {
	t.Helper()
	w := &wideStore{keys: 24000, lo: 2800, hi: 21200, mem: vfstest.NewMem()}
	w.o = storetest.Tiny(w.mem)
	w.o.Durability, w.o.Compression, w.o.MemtableSize = bloomkv.DurabilityNoSync, bloomkv.CompressionNone, 64<<10
	one := *w.o
	one.Compactions = 1 // so that the tree is always the same
	db := storetest.Open(t, "db", &one)
	rng := rand.New(rand.NewPCG(31, 32))
	flush := func(keys []int) {
		for _, i := range keys {
			must(t, db.Put(w.key(i), bytes.Repeat([]byte{byte(i)}, 100)))
		}
		must(t, db.Flush(t.Context()))
		storetest.Settle(t, db)
	}
	for keys := range slices.Chunk(rng.Perm(w.keys), 400) {
		flush(keys)
	}
	// A single run does not trigger compaction.
	for flushes := 0; db.Metrics().Levels[0].Runs > 1; flushes++ {
		if flushes == 50 {
			t.Fatalf("level 0 has several runs after %d flushes:\n%v", flushes, db.Metrics())
		}
		flush(rng.Perm(w.lo)[:200])
	}
	levels := 0
	for _, l := range db.Metrics().Levels {
		if l.Tables > 0 {
			levels++
		}
	}
	if levels < 2 {
		t.Fatalf("%d levels, want at least 2:\n%v", levels, db.Metrics())
	}
	must(t, db.Close())
	return w
}

// readsNothing looks up deleted keys in all ways. tails is true if this must read tails of tables. If only filters show
// that the keys are absent, false positives are allowed.
func (w *wideStore) readsNothing(db *bloomkv.DB, files *storetest.FileLog, tails, filters bool) error {
	files.Take()
	before, maybe := db.Metrics().Lookups, 0
	for i := w.lo; i < w.hi; i += 29 {
		k := w.key(i)
		v, err := db.Get(k)
		has, hasErr := db.Has(k)
		if !errors.Is(err, bloomkv.ErrNotFound) || has || hasErr != nil {
			return fmt.Errorf("get %s: %q, %w; has %v, %w", k, v, err, has, hasErr)
		}
		if db.MayContain(k) && !tails {
			maybe++
		}
		if err := db.GetMany([][]byte{k}, func(_ int, v []byte, found bool) error {
			if found {
				return fmt.Errorf("%q", v)
			}
			return nil
		}); err != nil {
			return fmt.Errorf("get many %s: %w", k, err)
		}
	}
	after := db.Metrics().Lookups
	blocks, tailBytes := files.Reads()
	limit := uint64(0)
	if filters {
		limit = (after.Gets - before.Gets) / 30
	}
	if n := after.Blocks - before.Blocks; max(n, uint64(blocks), after.TableSearches-before.TableSearches,
		uint64(maybe)) > limit || tailBytes > 0 != tails {
		return fmt.Errorf("%d lookups of deleted keys touched %d blocks, read %d and %d bytes of tails "+
			"(want some %v), with %d maybes; want at most %d",
			after.Gets-before.Gets, n, blocks, tailBytes, tails, maybe, limit)
	}
	return nil
}

// jumps moves iterators to the range from outside, and seeks keys inside it.
func (w *wideStore) jumps(db *bloomkv.DB, files *storetest.FileLog) error {
	lo, hi := w.key(w.lo), w.key(w.hi)
	last := w.key(w.lo - 1)
	for what, move := range map[string]func(it *bloomkv.Iterator) bool{
		"seek ≥ inside": func(it *bloomkv.Iterator) bool {
			return it.SeekGE(w.key((w.lo+w.hi)/2)) && bytes.Equal(it.Key(), hi)
		},
		"seek < inside": func(it *bloomkv.Iterator) bool {
			return it.SeekLT(w.key((w.lo+w.hi)/2)) && bytes.Equal(it.Key(), last)
		},
		"over it": func(it *bloomkv.Iterator) bool {
			return it.SeekGE(last) && it.Next() && bytes.Equal(it.Key(), hi)
		},
		"back over it": func(it *bloomkv.Iterator) bool {
			return it.SeekGE(hi) && it.Prev() && bytes.Equal(it.Key(), last)
		},
		"bounded by it": func(it *bloomkv.Iterator) bool {
			b := db.Iter(bloomkv.IterOptions{Lower: lo, Upper: hi})
			return !b.First() && !b.Last() && b.Close() == nil && it.First()
		},
	} {
		inside := w.inside(db)
		it := db.Iter(bloomkv.IterOptions{})
		ok := move(it)
		err := it.Close()
		if !ok || err != nil {
			return fmt.Errorf("%s: %v, %w", what, ok, err)
		}
		// The iterator reaches the first table at the edge before it can know that all of the table is deleted.
		var opened []uint64
		for number := range files.Touched() {
			if inside[number] {
				opened = append(opened, number)
			}
		}
		if len(opened) > 1 {
			return fmt.Errorf("%s: tables %d inside the range were read", what, opened)
		}
	}
	return nil
}

// inside returns the tables whose keys are all in the range.
func (w *wideStore) inside(db *bloomkv.DB) map[uint64]bool {
	inside := map[uint64]bool{}
	for _, t := range db.Tables() {
		if t.Entries > 0 && bytes.Compare(t.Smallest, w.key(w.lo)) >= 0 && endsBefore(t, w.key(w.hi)) {
			inside[numberOf(t)] = true
		}
	}
	return inside
}

// TestADeletedRangeCostsNoReadsAndGivesItsSpaceBack follows a large range delete from memory to the last level, with
// automatic compaction and with Compact.
func TestADeletedRangeCostsNoReadsAndGivesItsSpaceBack(t *testing.T) {
	testkit.Long(t)
	wide := newWideStore(t)
	for _, asked := range []bool{false, true} {
		t.Run(fmt.Sprintf("compaction requested: %v", asked), func(t *testing.T) {
			w := *wide
			w.mem = wide.mem.Kill()
			files := storetest.LogFiles(w.mem)
			compacting, open := storetest.Gated(files, func(op vfstest.Op) bool {
				return op.Kind == vfstest.OpCreate && storetest.Inside(storetest.CompactLoop)
			})
			o := *w.o
			o.FS = compacting
			db := storetest.Open(t, "db", &o)
			defer func() {
				must(t, db.Close())
			}()
			open = sync.OnceFunc(open)
			defer open()
			testkit.Soon(t, "it is warm", func() bool { return db.Metrics().Warm })
			full := bytesOfTables(t, w.mem)
			deleted := int64(w.hi-w.lo) * full / int64(w.keys)
			must(t, errors.Join(db.DeleteRange(bloomkv.KeyRange{Lower: w.key(w.lo), Upper: w.key(w.hi)}), db.Sync()))
			if err := errors.Join(w.readsNothing(db, files, false, false), w.jumps(db, files)); err != nil {
				t.Errorf("in memory: %v", err)
			}
			gone := w.inside(db)
			if len(gone) < 20 {
				t.Fatalf("only %d tables inside the range", len(gone))
			}
			files.Take()
			must(t, db.Flush(t.Context()))
			if !asked {
				testkit.Soon(t, "compaction has begun", func() bool { return !db.Metrics().Settled })
			}
			for number := range files.Touched() {
				if gone[number] {
					t.Errorf("the flush has read table %d inside the range", number)
				}
			}
			if err := errors.Join(w.readsNothing(db, files, false, false), w.jumps(db, files)); err != nil {
				t.Errorf("in a table: %v", err)
			}
			if now := bytesOfTables(t, w.mem); now < full {
				t.Errorf("%d bytes of %d before any compaction: the test tests nothing", now, full)
			}

			coldFiles := storetest.LogFiles(w.mem.Kill()) // the current files, to be opened again
			cold := o
			cold.FS, cold.ReadOnly = coldFiles, true // so that nothing is compacted
			again := storetest.OpenCold(t, &cold)
			if err := w.readsNothing(again, coldFiles, true, false); err != nil {
				t.Errorf("opened again: %v", err)
			}
			if err := errors.Join(w.jumps(again, coldFiles), again.Close()); err != nil {
				t.Errorf("opened again: %v", err)
			}

			files.Take()
			open()
			if asked {
				must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
			}
			storetest.Settle(t, db)
			testkit.Soon(t, "dead tables are removed", func() bool { return db.Metrics().Files.Obsolete == 0 })
			// Between two compactions, filters of tables inside the range may be loaded, as the tree has changed.
			for number := range files.Compacted() {
				if gone[number] {
					t.Errorf("compaction has read table %d inside the range", number)
				}
			}
			testkit.Soon(t, "the space is free", func() bool {
				return bytesOfTables(t, w.mem) <= full-deleted*95/100
			})
			if err := errors.Join(w.readsNothing(db, files, false, true), w.jumps(db, files)); err != nil {
				t.Errorf("compacted: %v", err)
			}
			left := 0
			for kv, err := range db.Scan(bloomkv.IterOptions{}) {
				must(t, err)
				if string(kv.Key) >= string(w.key(w.lo)) && string(kv.Key) < string(w.key(w.hi)) ||
					len(kv.Value) != 100 {
					t.Fatalf("unexpected %q = %q", kv.Key, kv.Value)
				}
				left++
			}
			if want := w.keys - (w.hi - w.lo); left != want {
				t.Errorf("%d keys are left, want %d", left, want)
			}
			t.Logf("%d bytes, %d of them deleted; %d left; %d tables inside the range were never read", full, deleted,
				bytesOfTables(t, w.mem), len(gone))
		})
	}
}

// TestAutomaticCompactionGivesTheSpaceOfEveryLargeRangeBack has ranges without a bound, several ranges, a range deleted
// piece by piece, and a snapshot that keeps all keys until it is closed.
func TestAutomaticCompactionGivesTheSpaceOfEveryLargeRangeBack(t *testing.T) {
	testkit.Long(t)
	wide := newWideStore(t)
	for i, tt := range []struct {
		name   string
		ranges [][2]int // -1 for nil
		apart  bool     // whether to flush after each
		snap   bool
		least  int64 // percentage to be reclaimed; a rest smaller than what must be read to drop it may stay
	}{
		{name: "all", ranges: [][2]int{{-1, -1}}, least: 100},
		{name: "from the beginning", ranges: [][2]int{{-1, 12000}}},
		{name: "to the end", ranges: [][2]int{{10000, -1}}},
		{name: "to the end, beyond the last key", ranges: [][2]int{{10000, 28000}}},
		{name: "one between", ranges: [][2]int{{4000, 12000}}},
		{name: "several", ranges: [][2]int{{800, 7600}, {8800, 15600}, {16800, 23600}}, least: 80},
		{name: "several that overlap", ranges: [][2]int{{2000, 6000}, {2800, 10000}, {4800, 16000}, {2000, 20000}}},
		{name: "pieces, one flush each", ranges: [][2]int{
			{2000, 6000},
			{6000, 10000},
			{10000, 14000},
			{14000, 18000},
			{18000, 22000},
		}, apart: true, least: 80},
		{name: "one that a snapshot still needs", ranges: [][2]int{{4000, 20000}}, snap: true},
	} {
		if testing.Short() && i%4 > 0 {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			mem := wide.mem.Kill()
			o := *wide.o
			o.FS = mem
			db, err := bloomkv.Open("db", &o)
			must(t, err)
			defer func() {
				if t.Failed() {
					t.Logf("before Close:\n%v", db.Metrics()) // including obsolete files
				}
				must(t, db.Close())
			}()
			testkit.Soon(t, "it is warm", func() bool { return db.Metrics().Warm })
			full := bytesOfTables(t, mem)
			var snap *bloomkv.Snapshot
			if tt.snap {
				snap, err = db.Snapshot()
				must(t, err)
			}
			gone := map[int]bool{}
			for _, r := range tt.ranges {
				bounds := [2][]byte{}
				for i, at := range r {
					if at >= 0 {
						bounds[i] = wide.key(at)
					}
				}
				must(t, db.DeleteRange(bloomkv.KeyRange{Lower: bounds[0], Upper: bounds[1]}))
				end := r[1]
				if end < 0 {
					end = wide.keys
				}
				for i := max(0, r[0]); i < min(end, wide.keys); i++ {
					gone[i] = true
				}
				if tt.apart {
					must(t, db.Flush(t.Context()))
				}
			}
			must(t, db.Flush(t.Context()))
			storetest.Settle(t, db)
			if tt.snap {
				if now := bytesOfTables(t, mem); now < full {
					t.Errorf("%d bytes of %d are left, but a snapshot needs all", now, full)
				}
				n := 0
				for _, err := range snap.Scan(bloomkv.IterOptions{}) {
					must(t, err)
					n++
				}
				if n != wide.keys {
					t.Errorf("the snapshot has %d keys, want %d", n, wide.keys)
				}
				must(t, snap.Close())
				storetest.Settle(t, db)
			}
			limit := full - int64(len(gone))*full/int64(wide.keys)*cmp.Or(tt.least, 95)/100
			testkit.Soon(t, fmt.Sprintf("of %d bytes at most %d are left", full, limit),
				func() bool { return bytesOfTables(t, mem) <= limit })
			left := 0
			for kv, err := range db.Scan(bloomkv.IterOptions{}) {
				must(t, err)
				for gone[left] {
					left++
				}
				if string(kv.Key) != string(wide.key(left)) {
					t.Fatalf("%q, want %q", kv.Key, wide.key(left))
				}
				left++
			}
			for gone[left] {
				left++
			}
			if left != wide.keys {
				t.Errorf("ended at key %d of %d", left, wide.keys)
			}
			t.Logf("%d of %d bytes are left, %d of %d keys are gone", bytesOfTables(t, mem), full, len(gone), wide.keys)
		})
	}
}
