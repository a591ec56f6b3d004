package bloomkv_test

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A numberWatch is a file system that compares each new table and log with the manifest on the disk at that moment. The
// manifest must already reserve the file's number: otherwise, after a crash, the number could be assigned again.
type numberWatch struct {
	mem *vfstest.Mem
	t   *testing.T

	mu    sync.Mutex
	made  map[uint64]bool
	first uint64 // lower numbers may have been assigned by an earlier DB
	since int    // tables made since the test last reset it
	// called once, when more tables are made than an edit reserves, before the names are durable
	atEdit func(*vfstest.Mem)
}

func (n *numberWatch) fs() vfs.FS {
	n.made = map[uint64]bool{}
	if s, err := manifest.Load(n.mem, "db"); err == nil {
		n.first = s.NextFile
	}
	return vfstest.NewHook(n.mem, func(op vfstest.Op) error {
		n.mu.Lock()
		defer n.mu.Unlock()
		kind, number := filename.Parse(strings.TrimPrefix(op.Name, "db/"))
		switch {
		case op.Kind == vfstest.OpSyncDir && op.Name == "db" && n.since > tree.NumbersAhead &&
			!storetest.Inside(storetest.NameLog):
			if n.atEdit != nil {
				n.atEdit(n.mem)
				n.atEdit = nil
			}
		case op.Kind != vfstest.OpCreate || kind != filename.Table && kind != filename.Log:
		default:
			if n.made[number] || number < n.first {
				n.t.Errorf("%s may have been made before: numbers below %d were assigned, and %v", op.Name, n.first,
					n.made[number])
			}
			n.made[number] = true
			if kind == filename.Table {
				n.since++
			}
			if s, err := manifest.Load(n.mem, "db"); err != nil || number >= s.NextFile {
				n.t.Errorf("%s is made while the manifest reserves numbers below %d: %v", op.Name, s.NextFile, err)
			}
		}
		return nil
	})
}

// wideContents returns keys and values that fill more tables than an edit reserves numbers.
func wideContents(value string) map[string]string {
	want := map[string]string{}
	for i := range 5 * (tree.NumbersAhead + 20) {
		want[fmt.Sprintf("key%05d", i)] = strings.Repeat(value, 4000)
	}
	return want
}

// ascending yields the pairs of all in the order of keys.
func ascending(all map[string]string) iter.Seq2[bloomkv.KV, error] {
	return func(yield func(bloomkv.KV, error) bool) {
		for _, k := range slices.Sorted(maps.Keys(all)) {
			if !yield(bloomkv.KV{[]byte(k), []byte(all[k])}, nil) {
				return
			}
		}
	}
}

func numberedOptions(fsys vfs.FS) *bloomkv.Options {
	o := storetest.Tiny(fsys)
	o.Durability, o.Compression = bloomkv.DurabilityNoSync, bloomkv.CompressionNone
	return o
}

// TestACrashLeavesMoreFilesThanAnEditReserves stops an ingest, a compaction and a recovery when they have written more
// tables than an edit reserves numbers, and before an edit names one. The store is opened as after a crash: nothing is
// lost, and the unnamed files are removed.
func TestACrashLeavesMoreFilesThanAnEditReserves(t *testing.T) {
	crash := func(t *testing.T, name string, n *numberWatch, want map[string]string, work func() error) {
		t.Helper()
		var left []*vfstest.Mem
		n.mu.Lock()
		n.since = 0
		n.atEdit = func(mem *vfstest.Mem) {
			left = append(left, mem.Kill(), mem.Crash(vfstest.KeepNothing), mem.Crash(vfstest.KeepSome(7, 50)))
		}
		n.mu.Unlock()
		if err := work(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(left) == 0 {
			t.Fatalf("%s: %d tables, want more than %d before an edit", name, n.since, tree.NumbersAhead)
		}
		for i, mem := range left {
			again := &numberWatch{mem: mem, t: t}
			db, err := bloomkv.Open("db", numberedOptions(again.fs()))
			if err != nil {
				t.Errorf("%s, crash %d: %v", name, i, err)
				continue
			}
			got, err := storetest.Contents(db)
			if d := storetest.Diff(got, want); err != nil || d != "" {
				t.Errorf("%s, crash %d: %v, %s", name, i, err, d)
			}
			if err := errors.Join(db.Put([]byte("later"), nil), db.Flush(t.Context())); err != nil {
				t.Errorf("%s, crash %d: %v", name, i, err)
			}
			atRest(t, db) // checks the files
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			if _, err := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: mem}); err != nil {
				t.Errorf("%s, crash %d: %v", name, i, err)
			}
		}
	}
	n := &numberWatch{mem: vfstest.NewMem(), t: t}
	db, err := bloomkv.Open("db", numberedOptions(n.fs()))
	must(t, err)
	must(t, errors.Join(db.Put([]byte("first"), []byte("x")), db.Sync(), db.Flush(t.Context())))
	atRest(t, db)
	ingest := func(all map[string]string) error {
		return db.Ingest(t.Context(), ascending(all), bloomkv.IngestOptions{})
	}
	want := map[string]string{"first": "x"}
	all := wideContents("a")
	crash(t, "ingest", n, maps.Clone(want), func() error { return ingest(all) })
	maps.Copy(want, all)
	for k := range all { // every second key again, so that all tables are rewritten
		if k[len(k)-1]%2 == 0 {
			all[k] = strings.Repeat("b", 4000)
		}
	}
	must(t, ingest(all))
	maps.Copy(want, all)
	crash(t, "compaction", n, want, func() error { return db.Compact(t.Context(), bloomkv.CompactOptions{}) })
	must(t, db.Close())

	// The next Open writes one log out into small tables.
	mem := vfstest.NewMem()
	o := numberedOptions(mem)
	o.MemoryBudget, o.MemtableSize = 64<<20, 16<<20
	if db, err = bloomkv.Open("db", o); err != nil {
		t.Fatal(err)
	}
	all = wideContents("c")
	for k, v := range all {
		must(t, db.Put([]byte(k), []byte(v)))
	}
	must(t, db.Sync())
	n = &numberWatch{mem: mem.Kill(), t: t}
	must(t, db.Close())
	crash(t, "recovery", n, all, func() error {
		if db, err = bloomkv.Open("db", numberedOptions(n.fs())); err != nil {
			return err
		}
		return db.Close()
	})
}

// TestNumbersAreGivenOutOnceAndBelowWhatTheManifestReserves allocates a few hundred numbers while the manifest is
// rewritten.
func TestNumbersAreGivenOutOnceAndBelowWhatTheManifestReserves(t *testing.T) {
	mem := vfstest.NewMem()
	db, err := bloomkv.Open("db", storetest.Tiny(mem))
	must(t, err)
	last := uint64(0)
	for i := range 3*tree.NumbersAhead + 5 {
		if i%100 == 50 {
			must(t, db.Tree().RenewManifest(db.Tree().Load()))
		}
		n, err := db.Tree().NewNumber()
		must(t, err)
		s, err := manifest.Load(mem.Crash(vfstest.KeepNothing), "db")
		if err != nil || n >= s.NextFile || n <= last || s.NextFile > n+2*tree.NumbersAhead+2 {
			t.Fatalf("number %d after %d, but a crash leaves a manifest that reserves those below %d: %v",
				n, last, s.NextFile, err)
		}
		last = n
	}
	for db.Tree().View().Next < db.Recorded().NextFile {
		if _, err := db.Tree().NewNumber(); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil { // its manifest has a number that it reserves itself
		t.Fatal(err)
	}
	// After a clean Close, the manifest is read but not written until the first file needs a number.
	for range 2 {
		n := &numberWatch{mem: mem, t: t}
		if db, err = bloomkv.Open("db", storetest.Tiny(n.fs())); err != nil {
			t.Fatal(err)
		}
		key := []byte("key")
		must(t, errors.Join(db.Put(key, nil), db.Flush(t.Context()), db.Put(key, nil), db.Close()))
		if len(n.made) == 0 {
			t.Error("no file was made")
		}
	}
}
