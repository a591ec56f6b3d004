package bloomkv_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestLogsAndManifestsAreClosedWhenOthersTakeTheirPlace counts open files while memtables, manifests and tables are
// replaced.
func TestLogsAndManifestsAreClosedWhenOthersTakeTheirPlace(t *testing.T) {
	files := storetest.TrackOpen(vfstest.NewMem())
	o := storetest.Tiny(files)
	db, err := bloomkv.Open("db", o)
	must(t, err)
	for i := range 20 {
		if err := errors.Join(db.Put(fmt.Appendf(nil, "key%02d", i), make([]byte, 1000)),
			db.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
		if i%5 == 0 {
			must(t, db.Tree().RenewManifest(db.Tree().Load()))
		}
		atRest(t, db)
		must(t, db.Put([]byte("in the log"), nil))
		if logs, locks := files.Of(".log"), files.Of(filename.LockName); logs != 1 || locks != 1 {
			t.Fatalf("after %d flushes %d logs and %d locks are open, want 1 and 1", i+1, logs, locks)
		}
		manifests := 0
		for n := range uint64(1000) {
			manifests += files.Of(filename.Base(filename.Manifest, n))
		}
		if tables := files.Of(".sst"); manifests != 1 || tables != db.Metrics().Files.Open {
			t.Fatalf("after %d flushes %d manifests and %d tables are open, want 1 and the %d in use",
				i+1, manifests, tables, db.Metrics().Files.Open)
		}
	}
	if err := errors.Join(db.Close(), files.Left()); err != nil {
		t.Error(err)
	}
	o.ReadOnly = true
	for range 2 {
		if db, err = bloomkv.Open("db", o); err != nil {
			t.Fatal(err)
		}
		if _, err := storetest.Contents(db); err != nil {
			t.Error(err)
		}
		if err := errors.Join(db.Close(), files.Left()); err != nil {
			t.Error(err)
		}
	}
}

// tablesOf returns the tables of the last level, and a key of each.
func tablesOf(db *bloomkv.DB) (tables []*tree.Table, keys [][]byte) {
	db.Tree().Load().EachTable(func(_ int, t *tree.Table) {
		tables = append(tables, t)
		keys = append(keys, t.Meta.Smallest)
	})
	return tables, keys
}

// openManyTables opens a store that has at least twice as many tables as descriptors, and is at rest. Values are 700
// bytes long.
func openManyTables(t *testing.T, o *bloomkv.Options) *bloomkv.DB {
	t.Helper()
	o.MaxOpenFiles, o.Compression = 8, bloomkv.CompressionNone
	db, err := bloomkv.Open("db", o)
	must(t, err)
	for i := range 400 {
		must(t, db.Put(fmt.Appendf(nil, "key%03d", i), make([]byte, 700)))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	atRest(t, db)
	if tables := db.Metrics().Files.Tables; tables < 2*o.MaxOpenFiles {
		t.Fatalf("%d tables, want twice the %d descriptors", tables, o.MaxOpenFiles)
	}
	return db
}

// TestAFailedOpenKeepsNoDescriptor fails to open table files more often than descriptors are allowed, and then opens as
// many as are allowed.
func TestAFailedOpenKeepsNoDescriptor(t *testing.T) {
	var failing atomic.Bool
	var opened atomic.Int64
	files, broken := storetest.TrackOpen(vfstest.NewMem()), errors.New("injected failure")
	o := storetest.Tiny(vfstest.NewHook(files, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpOpen && strings.HasSuffix(op.Name, ".sst") {
			if failing.Load() {
				return broken
			}
			opened.Add(1)
		}
		return nil
	}))
	db := openManyTables(t, o)
	tables, keys := tablesOf(db)
	read := func(i int) error {
		spoilAll(db)
		_, err := db.Get(keys[i])
		return err
	}
	failing.Store(true)
	for round := range 2 {
		for i := range tables {
			if !tables[i].File.IsOpen() {
				if err := read(i); !errors.Is(err, broken) {
					t.Errorf("read of a table that cannot be opened: %v", err)
				}
			}
		}
		if open, opening := db.Pool().Files.Usage(); opening != 0 || open != files.Of(".sst") {
			t.Errorf("round %d: %d descriptors stay reserved after failures; %d in the clock, %d files are open",
				round, opening, open, files.Of(".sst"))
		}
	}
	failing.Store(false)
	for range 4 { // until only these tables are open
		opened.Store(0)
		for i := range o.MaxOpenFiles {
			must(t, read(i))
		}
	}
	if n := opened.Load(); n != 0 || files.Of(".sst") != o.MaxOpenFiles {
		t.Errorf("%d tables were opened again, %d are open, want none and %d", n, files.Of(".sst"), o.MaxOpenFiles)
	}
	if err := errors.Join(db.Close(), files.Left()); err != nil {
		t.Error(err)
	}
}

// TestAnEvictedDescriptorIsClosedAfterItsReads evicts a table's descriptor while a lookup reads it, and while a
// compaction does, which holds no guard of its own.
func TestAnEvictedDescriptorIsClosedAfterItsReads(t *testing.T) {
	for who, read := range map[storetest.Function]func(db *bloomkv.DB, key []byte) error{
		storetest.Search: func(db *bloomkv.DB, key []byte) error {
			v, err := db.Get(key)
			if err == nil && len(v) != 700 {
				err = fmt.Errorf("%d bytes, want 700", len(v))
			}
			return err
		},
		storetest.CompactLoop: func(db *bloomkv.DB, key []byte) error {
			return errors.Join(db.Put(key, nil), db.Compact(t.Context(), bloomkv.CompactOptions{}))
		},
	} {
		g := storetest.NewGate()
		var slow atomic.Pointer[string] // the table whose reads wait
		files := storetest.TrackOpen(vfstest.NewMem())
		o := storetest.Tiny(vfstest.NewHook(files, func(op vfstest.Op) error {
			if name := slow.Load(); name != nil && op.Kind == vfstest.OpReadAt && op.Name == *name &&
				storetest.Inside(who) {
				g.Pass()
			}
			return nil
		}))
		db := openManyTables(t, o)
		tables, keys := tablesOf(db)
		spoilAll(db)
		path := tables[0].File.Path
		slow.Store(&path)
		done := make(chan error, 1)
		go func() { done <- read(db, keys[0]) }()
		g.Wait(t, "the read")
		for range 3 { // until the clock has passed twice
			for _, key := range keys[1:] {
				spoilAll(db)
				if _, err := db.Get(key); err != nil {
					t.Fatal(err)
				}
			}
		}
		if tables[0].File.IsOpen() {
			t.Errorf("%s: the descriptor was not evicted", who)
		}
		if files.Of(path) != 1 {
			t.Errorf("%s: the descriptor was closed under the read", who)
		}
		slow.Store(nil)
		close(g.Open)
		if err := <-done; err != nil {
			t.Errorf("%s: %v", who, err)
		}
		// Replaced tables may be closed and removed meanwhile.
		storetest.Soon(t, string(who)+": no more tables are open than in use", func() bool {
			db.Tree().Domain.Wait()
			return files.Of(".sst") == db.Metrics().Files.Open
		})
		if err := errors.Join(db.Close(), files.Left()); err != nil {
			t.Error(err)
		}
	}
}

// TestNothingStaysOpenAfterAFailedOpen fails each operation of opening a store after a crash, alone or with all that
// follow.
func TestNothingStaysOpenAfterAFailedOpen(t *testing.T) {
	mem := vfstest.NewMem()
	fsys, open := storetest.Gated(mem, storetest.CreatesTable)
	db, err := bloomkv.Open("db", storetest.Tiny(fsys))
	must(t, err)
	must(t, db.Put([]byte("first"), nil))
	if _, err := db.Writer().Freeze(t.Context()); err != nil { // its flush waits, so that there are two logs
		t.Fatal(err)
	}
	must(t, db.Put([]byte("second"), nil))
	left := mem.Kill()
	open()
	must(t, db.Close())
	storetest.AddFile(t, left, "000001.tmp", "an orphan")
	broken := errors.New("injected failure")
	for _, forEver := range []bool{false, true} {
		for _, readOnly := range []bool{false, true} {
			failures := 0
			for n := int64(0); ; n++ {
				again := left.Kill()
				files := storetest.TrackOpen(again)
				var at atomic.Int64
				var opened atomic.Bool
				o := storetest.Tiny(vfstest.NewHook(files, func(vfstest.Op) error {
					if opened.Load() {
						return nil
					}
					if i := at.Add(1) - 1; i == n || forEver && i > n {
						return broken
					}
					return nil
				}))
				o.ReadOnly = readOnly
				db, err := bloomkv.Open("db", o)
				opened.Store(true)
				if err == nil {
					if err := errors.Join(db.Close(), files.Left()); err != nil {
						t.Errorf("operation %d, which Open did not need: %v", n, err)
					}
					if at.Load() <= n {
						break
					}
					continue
				}
				failures++
				if err := files.Left(); err != nil {
					t.Errorf("operation %d failed, permanently: %v, read-only: %v: %v", n, forEver, readOnly, err)
				}
			}
			if failures < 5 {
				t.Errorf("%d operations failed, want one for each operation of Open", failures)
			}
		}
	}
}
