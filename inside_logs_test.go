package bloomkv_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/salvage"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestALogCutShortBelowWhatTheManifestKnowsIsDamage truncates a log by complete records, or replaces them by zeros so
// that the file keeps its size: the log itself shows no damage.
func TestALogCutShortBelowWhatTheManifestKnowsIsDamage(t *testing.T) {
	mem := vfstest.NewMem()
	fs, open := storetest.Gated(mem, storetest.CreatesTable)
	opts := storetest.Small(fs)
	db := storetest.Open(t, "db", opts)
	must(t, db.Put([]byte("first"), nil))
	// The flush of the old log waits until the next log has grown.
	if _, err := db.Writer().Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	var ends []int64
	for _, key := range []string{"second", "third"} {
		must(t, db.Put([]byte(key), nil))
		log := db.Tree().View().Log
		testkit.Soon(t, "the log has a name", func() bool { return log.Mark() != nil })
		ends = append(ends, log.Mark().Synced)
	}
	number := db.Tree().View().Log.Number()
	open()
	testkit.Soon(t, "the flush is done", func() bool { return db.Metrics().Writes.Flushes == 1 })
	left := mem.Kill()
	must(t, db.Close())

	for _, c := range []struct {
		name    string
		end     int64
		zeros   bool
		damaged bool
	}{
		{"whole", ends[1], false, false},
		{"whole, with its reserved space", ends[1], true, false},
		{"without its last record", ends[0], false, true},
		{"with zeros in place of its last record", ends[0], true, true},
		{"empty", 0, false, true},
		{"all zeros", 0, true, true},
	} {
		fs := left.Kill()
		path := filename.Make("db", filename.Log, number)
		b, err := vfs.ReadFile(fs, path, 1<<20)
		must(t, err)
		clear(b[c.end:])
		if !c.zeros {
			b = b[:c.end]
		}
		must(t, vfs.WriteFileAtomic(fs, "db", "cut", filepath.Base(path), b))
		db, err := bloomkv.Open("db", storetest.Small(fs))
		if errors.Is(err, bloomkv.ErrCorruption) != c.damaged || err != nil && !c.damaged {
			t.Errorf("%s: got %v, want damage: %v", c.name, err, c.damaged)
		}
		if err == nil {
			for _, key := range []string{"first", "second", "third"} {
				if ok, err := db.Has([]byte(key)); !ok || err != nil {
					t.Errorf("%s: key %s: %v, %v", c.name, key, ok, err)
				}
			}
			must(t, db.Close())
		}
	}
}

// TestALogWithoutItsBeginningIsDamage removes or overwrites the beginning of a log that the manifest names, whether or
// not a write asked for a sync: the manifest names a log once its first record is durable.
func TestALogWithoutItsBeginningIsDamage(t *testing.T) {
	for name, durability := range map[string]bloomkv.Durability{
		"synced": bloomkv.DurabilitySync, "not synced": bloomkv.DurabilityNoSync,
	} {
		mem := vfstest.NewMem()
		db := storetest.Open(t, "db", storetest.Small(mem))
		must(t, db.Put([]byte("flushed"), nil))
		must(t, db.Flush(t.Context()))
		must(t, storetest.PutWith(db, durability, []byte("first"), nil))
		log := db.Tree().View().Log
		testkit.Soon(t, "the log has a name", func() bool { return log.Mark() != nil })
		must(t, storetest.PutWith(db, durability, []byte("second"), nil))
		left, lost := mem.Kill(), mem.Crash(vfstest.KeepNothing)
		must(t, db.Close())

		crashed := storetest.Open(t, "db", storetest.Small(lost))
		if ok, err := crashed.Has([]byte("first")); !ok || err != nil {
			t.Errorf("%s: the first record of a named log after a power cut: %v, %v", name, ok, err)
		}
		must(t, crashed.Close())
		for _, c := range []struct {
			name   string
			change func(b []byte) []byte
			want   string
		}{
			{"empty", func(b []byte) []byte { return b[:0] }, "offset 0: ends here, want at least "},
			{"all zeros", func(b []byte) []byte { clear(b); return b }, "offset 0: ends here, want at least "},
			{
				"no header of a log", func(b []byte) []byte {
					for i := range b {
						b[i] = byte(i*131 + 7)
					}
					return b
				},
				"offset 0: ends here, want at least ",
			},
			{
				"its header alone", func(b []byte) []byte { return b[:wal.FirstRecord] },
				"offset 32: ends here, want at least ",
			},
			{
				"its header, then zeros", func(b []byte) []byte { clear(b[wal.FirstRecord:]); return b },
				"offset 32: ends here, want at least ",
			},
		} {
			t.Run(fmt.Sprintf("%s, %s", c.name, name), func(t *testing.T) {
				fsys := left.Kill()
				path := filename.Make("db", filename.Log, log.Number())
				storetest.Rewrite(t, fsys, path, c.change)
				base := filepath.Base(path)
				_, checked := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: fsys})
				_, opened := bloomkv.Open("db", storetest.Small(fsys))
				for call, err := range map[string]error{"Check": checked, "Open": opened} {
					if !errors.Is(err, bloomkv.ErrCorruption) || !strings.Contains(err.Error(), base+": "+c.want) {
						t.Errorf("%s: %v, want damage: %s: %s", call, err, base, c.want)
					}
				}
				report, err := salvage.Run(t.Context(), "db", "new", salvage.Options{Store: storetest.Small(fsys)})
				must(t, err)
				if !slices.ContainsFunc(report.Lost, func(l salvage.Loss) bool {
					return l.File == base && !l.Harmless
				}) {
					t.Errorf("Salvage lost %v, want a loss in %s that may have held keys", report.Lost, base)
				}
				db := storetest.Open(t, "new", storetest.Small(fsys))
				if ok, err := db.Has([]byte("flushed")); !ok || err != nil {
					t.Errorf("the key in a table after Salvage: %v, %v", ok, err)
				}
				must(t, db.Close())
			})
		}
	}
}

// TestALogPromisesThatOlderOnesAreDurableOnceTheyAre reads a younger log before and after the older one is durable.
func TestALogPromisesThatOlderOnesAreDurableOnceTheyAre(t *testing.T) {
	g, flush := storetest.NewGate(), make(chan struct{})
	var gated atomic.Bool
	mem := vfstest.NewMem()
	db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewHook(mem, func(op vfstest.Op) error {
		if gated.Load() && op.Kind == vfstest.OpSync && storetest.Inside(storetest.SyncOldLog) {
			g.Pass()
		}
		if storetest.CreatesTable(op) {
			<-flush // so that both logs stay
		}
		return nil
	})))
	put := func(key string) {
		t.Helper()
		var b bloomkv.Batch
		b.Put([]byte(key), nil)
		must(t, db.ApplyWith(&b, bloomkv.DurabilityNoSync))
	}
	promises := func(number uint64) bool {
		t.Helper()
		base := filename.Base(filename.Log, number)
		f, err := mem.Open(filename.Make("db", filename.Log, number))
		must(t, err)
		res, err := wal.Replay(f, base, number, nil)
		must(t, errors.Join(err, f.Close()))
		return res.OlderDurable
	}
	put("older")
	gated.Store(true)
	if _, err := db.Writer().Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.Wait(t, "the older log is synced")
	put("younger")
	put("younger still")
	younger := db.Tree().View().Log
	if promises(younger.Number()) {
		t.Error("the younger log records the older one as durable, but it is not")
	}
	close(g.Open)
	testkit.Soon(t, "the older log is durable", func() bool { return younger.Mark() != nil })
	put("after")
	if db.Tree().View().Log != younger {
		t.Fatal("there is a third log")
	}
	if !promises(younger.Number()) {
		t.Error("the younger log does not record that the older one is durable")
	}
	close(flush)
	must(t, db.Close())
}

// TestLogsAndManifestsAreClosedWhenOthersTakeTheirPlace counts open files while memtables, manifests and tables are
// replaced.
func TestLogsAndManifestsAreClosedWhenOthersTakeTheirPlace(t *testing.T) {
	files := storetest.TrackOpen(vfstest.NewMem())
	o := storetest.Tiny(files)
	db, err := bloomkv.Open("db", o)
	must(t, err)
	for i := range 20 {
		must(t, errors.Join(db.Put(fmt.Appendf(nil, "key%02d", i), make([]byte, 1000)),
			db.Flush(t.Context())))
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
	must(t, errors.Join(db.Close(), files.Left()))
	o.ReadOnly = true
	for range 2 {
		db = storetest.Open(t, "db", o)
		if _, err := storetest.Contents(db); err != nil {
			t.Error(err)
		}
		must(t, errors.Join(db.Close(), files.Left()))
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
	db := storetest.Open(t, "db", o)
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
		testkit.Soon(t, "what was evicted is closed", func() bool {
			open, opening := db.Pool().Files.Usage()
			if opening != 0 {
				t.Fatalf("round %d: %d descriptors stay reserved after failures", round, opening)
			}
			return open == files.Of(".sst")
		})
	}
	failing.Store(false)
	for range 4 { // until only these tables are open
		opened.Store(0)
		for i := range o.MaxOpenFiles {
			must(t, read(i))
		}
	}
	if n := opened.Load(); n != 0 {
		t.Errorf("%d tables were opened again, want none", n)
	}
	testkit.Soon(t, "no more tables are open than may be", func() bool { return files.Of(".sst") == o.MaxOpenFiles })
	must(t, errors.Join(db.Close(), files.Left()))
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
		testkit.Soon(t, string(who)+": no more tables are open than in use", func() bool {
			db.Tree().Domain.Wait()
			return files.Of(".sst") == db.Metrics().Files.Open
		})
		must(t, errors.Join(db.Close(), files.Left()))
	}
}

// TestNothingStaysOpenAfterAFailedOpen fails each operation of opening a store after a crash, alone or with all that
// follow.
func TestNothingStaysOpenAfterAFailedOpen(t *testing.T) {
	mem := vfstest.NewMem()
	fsys, open := storetest.Gated(mem, storetest.CreatesTable)
	db := storetest.Open(t, "db", storetest.Tiny(fsys))
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

// TestValuesAboveTheLimitStayReadable makes a store with a value that only older versions could write, in a log and
// then in a table, and does with it what stores are for.
func TestValuesAboveTheLimitStayReadable(t *testing.T) {
	testkit.LongUnderRace(t)
	key, want := []byte("large"), make([]byte, bloomkv.MaxValueSize+1)
	for i := 0; i < len(want); i += 4096 {
		want[i] = byte(i >> 12)
	}
	mem := vfstest.NewMem()
	options := func(fsys vfs.FS) *bloomkv.Options { return &bloomkv.Options{FS: fsys, MemoryBudget: 8 << 20} }
	check := func(what string, db *bloomkv.DB, err error) {
		t.Helper()
		must(t, err)
		got, err := db.Get(key)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v, want %d", what, len(got), err, len(want))
		}
		n := 0
		for kv, err := range db.Scan(bloomkv.IterOptions{}) {
			if must(t, err); bytes.Equal(kv.Value, want) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s: a scan finds the value %d times", what, n)
		}
	}
	db, err := bloomkv.Open("db", options(mem))
	must(t, err)
	must(t, db.Put([]byte("small"), nil))
	must(t, db.Writer().CommitPut(key, want, true))
	check("a memtable", db, nil)
	logged := mem.Kill()
	must(t, db.Close())
	_, err = salvage.Run(t.Context(), "db", "salvaged", salvage.Options{Store: options(logged)})
	must(t, err)
	db, err = bloomkv.Open("salvaged", options(logged))
	check("what was salvaged from a log", db, err)
	must(t, db.Close())
	db, err = bloomkv.Open("db", options(logged))
	check("what was recovered from a log", db, err)
	must(t, db.Close())

	db, err = bloomkv.Open("db", options(mem))
	check("a table", db, err)
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{Rewrite: true}))
	check("a rewritten table", db, nil)
	_, err = db.Check(t.Context(), bloomkv.CheckOptions{})
	must(t, err)
	export, err := db.Export(t.Context(), bloomkv.ExportOptions{})
	must(t, err)
	var stream bytes.Buffer
	_, err = export.WriteTo(&stream)
	must(t, errors.Join(err, export.Close()))
	must(t, bloomkv.Import(t.Context(), &stream, "imported", bloomkv.NewStoreOptions{FS: mem}))
	imported, err := bloomkv.Open("imported", options(mem))
	check("an import", imported, err)
	must(t, imported.Close())
	swapped, err := db.CompareAndSwap(key, want, want)
	if swapped || !errors.Is(err, bloomkv.ErrTooLarge) {
		t.Errorf("a swap by a value above the limit: %v, %v, want ErrTooLarge", swapped, err)
	}
	if err := db.Put(key, want); !errors.Is(err, bloomkv.ErrTooLarge) {
		t.Errorf("a put of a value above the limit: %v, want ErrTooLarge", err)
	}
	if swapped, err = db.CompareAndSwap(key, want, []byte("short")); !swapped || err != nil {
		t.Errorf("a swap of the value by a short one: %v, %v", swapped, err)
	}
	must(t, db.Close())
	_, err = salvage.Run(t.Context(), "imported", "saved", salvage.Options{Store: options(mem)})
	must(t, err)
	db, err = bloomkv.Open("saved", options(mem))
	check("what was salvaged from a table", db, err)
	must(t, db.Close())
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
	must(t, db.Close()) // its manifest has a number that it reserves itself
	// After a clean Close, the manifest is read but not written until the first file needs a number.
	made := map[uint64]bool{}
	fs := vfstest.NewHook(mem, func(op vfstest.Op) error {
		kind, number := filename.Parse(strings.TrimPrefix(op.Name, "db/"))
		if op.Kind == vfstest.OpCreate && (kind == filename.Table || kind == filename.Log) {
			s, err := manifest.Load(mem, "db")
			if err != nil || number >= s.NextFile || number <= last || made[number] {
				t.Errorf("%s: %v; the manifest reserves numbers below %d, made were %d and %v", op.Name, err,
					s.NextFile, last, made)
			}
			made[number] = true
		}
		return nil
	})
	for i := range 2 {
		db = storetest.Open(t, "db", storetest.Tiny(fs))
		key := []byte("key")
		must(t, errors.Join(db.Put(key, nil), db.Flush(t.Context()), db.Put(key, nil), db.Close()))
		if len(made) <= i {
			t.Error("no file was made")
		}
	}
}
