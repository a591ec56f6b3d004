// Package tests holds the tests of whole stores that need only the public API, by subject.
package tests

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
)

// TestMain runs the tests, or is the main function of a process that a test has started.
func TestMain(m *testing.M) {
	if child := os.Getenv(childEnv); child != "" {
		os.Exit(childMain(child))
	}
	storetest.Main(m)
}

// tiny returns options with which a hundred writes flush, compact and move tables.
func tiny(fsys vfs.FS) *bloomkv.Options {
	return &bloomkv.Options{
		FS: fsys, FilterSeed: 1, MemoryBudget: 8 << 20, MemtableSize: 16 << 10, TableSize: 16 << 10,
		BaseLevelSize: 64 << 10, LevelRatio: 2, BlockSize: 512,
	}
}

// openTiny opens an empty store in memory.
func openTiny(t *testing.T) *bloomkv.DB {
	t.Helper()
	o := tiny(vfs.NewMem())
	o.Durability, o.MemtableSize = bloomkv.NoSync, 1<<20
	db, err := bloomkv.Open("db", o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// openCold opens a store without loading its tables: the first operation that needs a table has to load it.
func openCold(t *testing.T, o *bloomkv.Options) *bloomkv.DB {
	t.Helper()
	cold := *o
	cold.FS = storetest.Cold(o.FS)
	db, err := bloomkv.Open("db", &cold)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Soon(t, "warming up has failed", func() bool { return db.Metrics().Warm })
	if loaded := db.Metrics().Memory.Indexes; loaded > 0 {
		t.Fatalf("%d bytes of indexes are loaded", loaded)
	}
	return db
}

// settle waits until no flush or compaction is left to do.
func settle(t *testing.T, db *bloomkv.DB) {
	t.Helper()
	storetest.Soon(t, "settled", func() bool { return db.Metrics().Settled })
}

// atRest waits until all background work of the store "db" is done, after a Sync.
func atRest(t *testing.T, db *bloomkv.DB, fsys vfs.FS) {
	t.Helper()
	settle(t, db)
	if err := db.Sync(); err != nil {
		t.Fatal(err)
	}
	storetest.Soon(t, "at rest", func() bool { return rests(db, fsys) })
}

// rests reports whether all background work of the store "db" is done: the current log, if any, is in the manifest, and
// older logs and replaced tables are removed.
func rests(db *bloomkv.DB, fsys vfs.FS) bool {
	if !db.Metrics().Settled {
		return false
	}
	recorded, err := manifest.Load(fsys, "db")
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
	names, err := fsys.List("db")
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

// contents reads a whole store by one scan.
func contents(db *bloomkv.DB) (map[string]string, error) {
	return storetest.Contents(db.Scan(bloomkv.IterOptions{}))
}

// lookupsAgree compares Get, Has and AppendGet with the expected contents, for present and some absent keys.
func lookupsAgree(db *bloomkv.DB, want map[string]string) error {
	for k, v := range want {
		if got, err := db.Get([]byte(k)); err != nil || string(got) != v {
			return fmt.Errorf("get %.40q: got %.40q, %w, want %.40q", k, got, err, v)
		}
		absent := k + "\x00"
		if _, there := want[absent]; there {
			continue
		}
		if got, err := db.Get([]byte(absent)); !errors.Is(err, bloomkv.ErrNotFound) {
			return fmt.Errorf("get absent %.40q: got %.40q, %w", absent, got, err)
		}
	}
	return nil
}

// runsOf returns the number of runs of the tree.
func runsOf(db *bloomkv.DB) (n int) {
	for _, level := range db.Metrics().Levels {
		n += level.Runs
	}
	return n
}

// numberOf returns the number of a table.
func numberOf(table bloomkv.TableMetrics) uint64 {
	_, number := filename.Parse(table.File)
	return number
}

// endsBefore reports whether all keys and range tombstones of a table are less than key.
func endsBefore(table bloomkv.TableMetrics, key []byte) bool {
	c := bytes.Compare(table.Largest, key)
	return table.Largest != nil && (c < 0 || c == 0 && table.LargestExclusive)
}

// newestTable returns a table of the newest run of the store "db", as the manifest describes it.
func newestTable(t *testing.T, fsys vfs.FS) *manifest.Table {
	t.Helper()
	for _, runs := range storetest.Recorded(t, fsys, "db").Version.Levels {
		if len(runs) > 0 {
			return runs[0].Tables[0]
		}
	}
	t.Fatal("no table")
	return nil
}

// readerOf returns a reader of a table of the store "db".
func readerOf(t *testing.T, fsys vfs.FS, file string) *sstable.Reader {
	t.Helper()
	name := filepath.Join("db", file)
	info, err := fsys.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	r, err := sstable.Open(f, info.Size(), file)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
