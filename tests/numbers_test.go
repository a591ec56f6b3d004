package tests

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/salvage"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// storeAt returns a store with one key, whose manifest a function then changes.
func storeAt(t *testing.T, change func(s *manifest.State)) *vfstest.Mem {
	t.Helper()
	mem := vfstest.NewMem()
	db := storetest.Open(t, "db", storetest.Small(mem))
	must(t, errors.Join(db.Put([]byte("old"), nil), db.Close()))
	s, err := manifest.Load(mem, "db")
	must(t, err)
	number := s.NextFile - 1
	change(&s)
	m, err := manifest.Create(mem, "db", number, s)
	must(t, err)
	must(t, m.Close())
	return mem
}

// hasKeys reports whether a store opens and has exactly the given keys.
func hasKeys(fsys vfs.FS, dir string, keys ...string) error {
	db, err := bloomkv.Open(dir, storetest.Small(fsys))
	if err != nil {
		return err
	}
	got, err := storetest.Contents(db)
	want := map[string]string{}
	for _, k := range keys {
		want[k] = ""
	}
	if d := storetest.Diff(got, want); err == nil && d != "" {
		err = errors.New(d)
	}
	return errors.Join(err, db.Close())
}

// TestAStoreWhoseNumbersEndRefusesWritesAndOpensAgain writes with counters just below and at their largest values: what
// was acknowledged is there after the next Open, and what was not is refused with the reason.
func TestAStoreWhoseNumbersEndRefusesWritesAndOpensAgain(t *testing.T) {
	const sequences, files = "sequence numbers are exhausted", "numbers of files are exhausted"
	seq := func(seq ikey.Seq) func(*manifest.State) { return func(s *manifest.State) { s.LastSeq = seq } }
	file := func(n uint64) func(*manifest.State) { return func(s *manifest.State) { s.NextFile = n } }
	for _, tt := range []struct {
		name   string
		change func(s *manifest.State)
		fit    int // puts of one key each that are accepted
		want   string
	}{
		{"three sequence numbers left", seq(manifest.MaxWrite - 1<<24 - 3), 3, sequences},
		{"no sequence number left after those that Open skips", seq(manifest.MaxWrite - 1), 0, sequences},
		{"the last sequence of a manifest", seq(manifest.MaxSeq), 0, sequences},
		{"two numbers of files left", file(manifest.MaxFile - 1), 4, ""}, // for a manifest and a log
		{"no number of a file left", file(manifest.MaxFile + 1), 0, files},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mem := storeAt(t, tt.change)
			db := storetest.Open(t, "db", storetest.Small(mem))
			keys := []string{"old"}
			for i := range 4 {
				key := fmt.Sprint("new", i)
				err := db.Put([]byte(key), nil)
				if err == nil {
					keys = append(keys, key)
				} else if tt.want == "" || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("Put: %v, want %q", err, tt.want)
				}
			}
			if len(keys) != 1+tt.fit {
				t.Errorf("%d puts are accepted, want %d", len(keys)-1, tt.fit)
			}
			pair := storetest.PairsOf(map[string]string{"ingested": ""})
			ingested := db.Ingest(t.Context(), pair, bloomkv.IngestOptions{})
			if want := cmp.Or(tt.want, files); ingested == nil || !strings.Contains(ingested.Error(), want) ||
				errors.Is(ingested, bloomkv.ErrReadOnly) {
				t.Errorf("Ingest: %v, want %q, and that nothing has failed", ingested, want)
			}
			killed := mem.Kill()
			_ = db.Close() // if the numbers of files are exhausted, it may not write a manifest
			for how, fsys := range map[string]*vfstest.Mem{"Close": mem, "the death of the process": killed} {
				for range 2 {
					if err := hasKeys(fsys.Kill(), "db", keys...); err != nil {
						t.Errorf("after %s: %v", how, err)
					}
				}
			}
		})
	}
}

// TestAStoreThatCannotBeginAManifestIsOpenedToRead opens a store with the largest next file that a manifest may have.
// It is left as it is.
func TestAStoreThatCannotBeginAManifestIsOpenedToRead(t *testing.T) {
	mem := storeAt(t, func(s *manifest.State) { s.NextFile = 2 * manifest.MaxFile })
	if _, err := bloomkv.Open("db", storetest.Small(mem)); err == nil ||
		!strings.Contains(err.Error(), "numbers of files are exhausted") || errors.Is(err, bloomkv.ErrCorruption) {
		t.Errorf("Open: %v, want that the numbers are exhausted", err)
	}
	opts := storetest.Small(mem)
	opts.ReadOnly = true
	db, err := bloomkv.Open("db", opts)
	must(t, err)
	if ok, err := db.Has([]byte("old")); !ok || err != nil {
		t.Errorf("to read: %v, %v", ok, err)
	}
	must(t, db.Close())
	_, err = salvage.Run(t.Context(), "db", "new", salvage.Options{Store: storetest.Small(mem)})
	if err := errors.Join(err, hasKeys(mem, "new", "old")); err != nil {
		t.Errorf("Salvage: %v", err)
	}
}

// TestWhatTheLastSequenceNumberWroteTravels exports a store whose last write has the largest sequence number, imports
// it into an open store, and exports that.
func TestWhatTheLastSequenceNumberWroteTravels(t *testing.T) {
	const exhausted = "sequence numbers are exhausted"
	mem := storeAt(t, func(s *manifest.State) { s.LastSeq = manifest.MaxWrite - 1<<24 - 1 })
	exported := func(db *bloomkv.DB) []byte {
		t.Helper()
		x, err := db.Export(t.Context(), bloomkv.ExportOptions{})
		must(t, err)
		var b bytes.Buffer
		_, err = x.WriteTo(&b)
		must(t, errors.Join(err, x.Close()))
		return b.Bytes()
	}
	refuses := func(name string, db *bloomkv.DB) {
		t.Helper()
		if err := db.Put([]byte("more"), nil); err == nil || !strings.Contains(err.Error(), exhausted) {
			t.Errorf("%s: Put: %v, want %q", name, err, exhausted)
		}
	}
	from := storetest.Open(t, "db", storetest.Small(mem))
	must(t, from.Put([]byte("last"), nil))
	refuses("the exported store", from)
	stream := exported(from)
	must(t, from.Close())

	to, err := bloomkv.Open("to", storetest.Small(mem))
	must(t, err)
	must(t, to.Import(t.Context(), bytes.NewReader(stream), bloomkv.ImportOptions{}))
	refuses("the store with the import", to)
	again := exported(to)
	must(t, to.Close())
	for dir, b := range map[string][]byte{"one": stream, "two": again} {
		err := bloomkv.Import(t.Context(), bytes.NewReader(b), dir, bloomkv.NewStoreOptions{FS: mem})
		if err := errors.Join(err, hasKeys(mem, dir, "old", "last")); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if err := hasKeys(mem, "to", "old", "last"); err != nil {
		t.Errorf("the store with the import: %v", err)
	}
	_, err = salvage.Run(t.Context(), "to", "new", salvage.Options{Store: storetest.Small(mem)})
	must(t, err)
	db := storetest.Open(t, "new", storetest.Small(mem))
	must(t, errors.Join(db.Put([]byte("more"), nil), db.Close()))
	if err := hasKeys(mem, "new", "old", "last", "more"); err != nil {
		t.Errorf("after Salvage, which begins the numbers anew: %v", err)
	}
}

// TestAnImportThatFindsTooFewNumbersLeavesTheStore has none left for the table, for its run, and enough for both.
func TestAnImportThatFindsTooFewNumbersLeavesTheStore(t *testing.T) {
	stream, _ := overwritten(t)
	failed, done := 0, 0
	for left := range uint64(20) {
		mem := storeAt(t, func(s *manifest.State) { s.NextFile = manifest.MaxFile - left })
		db := storetest.Open(t, "db", storetest.Small(mem))
		err := db.Import(t.Context(), bytes.NewReader(stream), bloomkv.ImportOptions{Replace: true})
		must(t, db.Close())
		if err == nil {
			done++
			continue
		}
		failed++
		if n := tableFilesIn(t, mem); n != 1 || !strings.Contains(err.Error(), "numbers of files are exhausted") {
			t.Errorf("%d numbers are left: %v, and %d tables", left, err, n)
		}
		must(t, hasKeys(mem, "db", "old"))
	}
	if failed == 0 || done == 0 {
		t.Errorf("%d imports failed, %d did not; want some of both", failed, done)
	}
}

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

func numberedOptions(fsys vfs.FS) *bloomkv.Options {
	o := storetest.Tiny(fsys)
	o.Durability, o.Compression = bloomkv.DurabilityNoSync, bloomkv.CompressionNone
	return o
}

// TestACrashLeavesMoreFilesThanAnEditReserves stops an ingest, a compaction and a recovery when they have written more
// tables than an edit reserves numbers, and before an edit names one. The store is opened as after a crash: nothing is
// lost, and the unnamed files are removed.
func TestACrashLeavesMoreFilesThanAnEditReserves(t *testing.T) {
	testkit.Long(t)
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
			storetest.AtRest(t, db, mem, "db") // checks the files
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
	storetest.AtRest(t, db, n.mem, "db")
	ingest := func(all map[string]string) error {
		return db.Ingest(t.Context(), storetest.PairsOf(all), bloomkv.IngestOptions{})
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
	db = storetest.Open(t, "db", o)
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
