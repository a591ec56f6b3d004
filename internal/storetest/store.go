package storetest

import (
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// Tiny returns options with which a hundred writes flush, compact and move tables.
func Tiny(fsys vfs.FS) *bloomkv.Options {
	return &bloomkv.Options{
		FS: fsys, FilterSeed: 1, MemoryBudget: 8 << 20, MemtableSize: 16 << 10, TableSize: 16 << 10,
		BaseLevelSize: 64 << 10, LevelRatio: 2, BlockSize: 512, Compactions: 4,
	}
}

// Small returns options with which a few thousand keys make a deep tree.
func Small(fsys vfs.FS) *bloomkv.Options {
	return &bloomkv.Options{
		FS: fsys, MemoryBudget: 8 << 20, MemtableSize: 32 << 10, TableSize: 16 << 10, BaseLevelSize: 64 << 10,
		LevelRatio: 4, BlockSize: 1 << 10,
	}
}

// Open opens a store, which the caller closes, and ends the test with an error.
func Open(tb testing.TB, dir string, o *bloomkv.Options) *bloomkv.DB {
	tb.Helper()
	db, err := bloomkv.Open(dir, o)
	testkit.Must(tb, err)
	return db
}

// OpenTiny opens an empty store in memory.
func OpenTiny(t *testing.T) *bloomkv.DB {
	t.Helper()
	o := Tiny(vfstest.NewMem())
	o.Durability, o.MemtableSize = bloomkv.DurabilityNoSync, 1<<20
	return Open(t, "db", o)
}

// OpenCold opens a store without loading its tables: the first operation that needs a table has to load it.
func OpenCold(t *testing.T, o *bloomkv.Options) *bloomkv.DB {
	t.Helper()
	cold := *o
	cold.FS = Cold(o.FS)
	db := Open(t, "db", &cold)
	testkit.Soon(t, "warming up has failed", func() bool { return db.Metrics().Warm })
	if loaded := db.Metrics().Memory.Indexes; loaded > 0 {
		t.Fatalf("%d bytes of indexes are loaded", loaded)
	}
	return db
}

// PutWith puts one key with a durability of its own.
func PutWith(db *bloomkv.DB, d bloomkv.Durability, key, value []byte) error {
	var b bloomkv.Batch
	b.Put(key, value)
	return db.ApplyWith(&b, d)
}

// Settle waits until no flush or compaction is left to do.
func Settle(t *testing.T, db *bloomkv.DB) {
	t.Helper()
	for begin := time.Now(); !db.Metrics().Settled; time.Sleep(time.Millisecond) {
		if time.Since(begin) > testkit.Patience {
			t.Fatalf("not settled after %v:\n%v", testkit.Patience, db.Metrics())
		}
	}
}

// AtRest waits until all background work of the store in dir is done, after a Sync.
func AtRest(t *testing.T, db *bloomkv.DB, fsys vfs.FS, dir string) {
	t.Helper()
	Settle(t, db)
	if err := db.Sync(); err != nil {
		t.Fatal(err)
	}
	testkit.Soon(t, "at rest", func() bool { return Rests(db, fsys, dir) })
}

// Rests reports whether all background work of the store in dir is done: the current log, if any, is in the manifest,
// and older logs and replaced tables are removed.
func Rests(db *bloomkv.DB, fsys vfs.FS, dir string) bool {
	if !db.Metrics().Settled {
		return false
	}
	recorded, err := manifest.Load(fsys, dir)
	if err != nil { // it was replaced meanwhile
		return false
	}
	want := map[string]bool{}
	if recorded.Log != nil {
		want[filename.Base(filename.Log, recorded.Log.Number)] = true
	}
	for _, table := range recorded.Version.Tables() {
		want[filename.Base(filename.Table, table.Number)] = true
	}
	names, err := fsys.List(dir)
	if err != nil {
		return false
	}
	found := 0
	for _, name := range names {
		if kind, _ := filename.Parse(name); kind == filename.Log || kind == filename.Table {
			if !want[name] {
				return false
			}
			found++
		}
	}
	return found == len(want)
}
