package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/stream"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// meanwhile returns r, and calls f once before a byte behind the given number is read.
func meanwhile(r []byte, behind int, f func()) io.Reader {
	last := bytes.NewReader(r[behind:])
	return io.MultiReader(bytes.NewReader(r[:behind]), readerFunc(func(p []byte) (int, error) {
		if f != nil {
			f()
			f = nil
		}
		return last.Read(p)
	}))
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// overwritten returns the stream of a store of three runs of two tables, whose sequence numbers are not 0, and its
// contents.
func overwritten(t *testing.T) ([]byte, map[string]string) {
	t.Helper()
	db, want := storetest.OpenTiny(t), map[string]string{}
	rng := rand.New(rand.NewPCG(1, 2)) // values that do not compress
	for i := range 300 {
		k, v := fmt.Sprintf("k%03d", i%100), make([]byte, 250)
		for j := range v {
			v[j] = byte(rng.Uint32())
		}
		must(t, db.Put([]byte(k), v))
		want[k] = string(v)
		if i%100 == 99 {
			must(t, db.Flush(t.Context()))
		}
	}
	s := exported(t, db, bloomkv.ExportOptions{})
	must(t, db.Close())
	return s, want
}

// TestAnImportKeepsWhatIsWrittenNextToIt writes to the store while the stream is read, and after the import.
func TestAnImportKeepsWhatIsWrittenNextToIt(t *testing.T) {
	s, want := overwritten(t)
	putOwn := func(db *bloomkv.DB) error { return db.Put([]byte("own"), []byte("v")) }
	for _, c := range []struct {
		name    string
		replace bool
		during  func(db *bloomkv.DB) error
		refused bool
	}{
		{"nothing", false, nil, false},
		{"a key", false, putOwn, true},
		{"a mark", false, func(db *bloomkv.DB) error { return db.Apply(marked("own")) }, true},
		{"a key that is replaced", true, putOwn, false},
	} {
		for _, behind := range []int{0, 40, len(s) - 1} {
			mem := vfstest.NewMem()
			db := storetest.Open(t, "db", storetest.Tiny(mem))
			r := meanwhile(s, behind, func() {
				if c.during != nil {
					must(t, c.during(db))
				}
			})
			err := db.Import(t.Context(), r, bloomkv.ImportOptions{Replace: c.replace})
			if refused := errors.Is(err, fs.ErrExist); refused != c.refused || err != nil && !refused {
				t.Errorf("%s, behind byte %d: %v", c.name, behind, err)
			}
			testkit.Soon(t, c.name+": no other table is left", func() bool {
				names, err := mem.List("db")
				return err == nil && strings.Count(tables(names), ".sst") == len(db.Tables())
			})
			now := map[string]string{}
			if c.refused {
				if has, err := db.Has([]byte("own")); err != nil || has != (c.name == "a key") {
					t.Errorf("%s, behind byte %d: %v, %v", c.name, behind, has, err)
				}
				must(t, db.Delete([]byte("own")))
			} else {
				must(t, contains(db, want))
				now = want
			}
			must(t, db.Put([]byte("later"), nil)) // a number that is too small would hide what was imported
			must(t, db.Delete([]byte("later")))
			must(t, contains(db, now))
			must(t, db.Close())
			must(t, holds(mem, "db", now))
		}
	}
}

// TestAWriteOfAnExportOutlastsItsClose compacts the store once the first bytes are written.
func TestAWriteOfAnExportOutlastsItsClose(t *testing.T) {
	mem := vfstest.NewMem()
	db, _ := grown(t, mem)
	must(t, db.Flush(t.Context())) // as an export does
	storetest.Settle(t, db)        // both exports are of the same tables
	want := exported(t, db, bloomkv.ExportOptions{})
	x, err := db.Export(t.Context(), bloomkv.ExportOptions{})
	must(t, err)
	var got bytes.Buffer
	closed := false
	n, err := x.WriteTo(writerFunc(func(p []byte) (int, error) {
		if !closed {
			closed = true
			must(t, x.Close())
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{Rewrite: true}))
			newer := "db/" + db.Tables()[0].File
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{Rewrite: true}))
			testkit.Soon(t, "what the export does not have is removed", func() bool {
				_, err := mem.Stat(newer)
				return errors.Is(err, fs.ErrNotExist)
			})
		}
		return got.Write(p)
	}))
	if err != nil || n != x.Size() || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d of %d bytes, %v", n, x.Size(), err)
	}
	testkit.Soon(t, "the tables are removed", func() bool { return db.Metrics().Files.Obsolete == 0 })
	must(t, db.Close())
}

// TestAnImportWaitsForTheCompactionThatItCancels holds a compaction, whose tables the import replaces, at its output.
func TestAnImportWaitsForTheCompactionThatItCancels(t *testing.T) {
	s, want := overwritten(t)
	mem, gate := vfstest.NewMem(), storetest.NewGate()
	o := storetest.Tiny(vfstest.NewHook(mem, func(op vfstest.Op) error {
		if storetest.CreatesTable(op) && storetest.Inside(storetest.CompactLoop) {
			gate.Pass()
		}
		return nil
	}))
	l := listen(o)
	db := l.open(t, o)
	for range triggerRuns {
		must(t, errors.Join(db.Put([]byte("own"), nil), db.Put([]byte("own2"), nil), db.Flush(t.Context())))
	}
	gate.Wait(t, "a compaction")
	imported := make(chan error, 1)
	go func() {
		imported <- db.Import(t.Context(), bytes.NewReader(s), bloomkv.ImportOptions{Replace: true})
	}()
	testkit.Soon(t, "the import waits", func() bool {
		return storetest.Running(storetest.PauseCompact) || len(imported) > 0
	})
	if len(imported) > 0 {
		t.Error("the import did not wait for the end of the compaction")
	}
	close(gate.Open)
	must(t, <-imported)
	must(t, contains(db, want))
	storetest.Settle(t, db)
	l.close(t)
	if len(l.failures) > 0 || len(l.readOnly) > 0 {
		t.Errorf("failures %v, %v", l.failures, l.readOnly)
	}
	must(t, holds(mem, "db", want))
}

// TestAnExportIsOfTheMomentInWhichItBegan writes, fails and cancels at the first read of a table, which is between the
// state and the header of the export.
func TestAnExportIsOfTheMomentInWhichItBegan(t *testing.T) {
	var during func() error
	mem := vfstest.NewMem()
	o := storetest.Tiny(vfstest.NewHook(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpReadAt && strings.HasSuffix(op.Name, ".sst") && during != nil {
			f := during
			during = nil
			return f()
		}
		return nil
	}))
	db := storetest.Open(t, "db", o)
	must(t, errors.Join(db.Apply(marked("first", "k")), db.Flush(t.Context())))
	storetest.AtRest(t, db, mem, "db")
	ctx, cancel := context.WithCancel(t.Context())
	for _, c := range []struct {
		want   error
		during func() error
	}{
		{syscall.EIO, func() error { return syscall.EIO }},
		{context.Canceled, func() error { cancel(); return ctx.Err() }},
		{nil, func() error { return db.Apply(marked("second", "k2")) }},
	} {
		use := ctx
		if c.want == nil {
			use = t.Context()
		}
		during = c.during
		x, err := db.Export(use, bloomkv.ExportOptions{})
		if !errors.Is(err, c.want) || during != nil {
			t.Fatalf("%v, want %v", err, c.want)
		}
		if x == nil {
			continue
		}
		var s bytes.Buffer
		_, err = x.WriteTo(&s)
		must(t, errors.Join(err, x.Close(), bloomkv.Import(t.Context(), &s, "copy", bloomkv.NewStoreOptions{FS: mem})))
		must(t, holds(mem, "copy", map[string]string{"k": "of first"}))
		copied := storetest.Open(t, "copy", &bloomkv.Options{FS: mem})
		if mark, err := copied.Mark(); err != nil || string(mark) != "first" || string(x.Mark()) != "first" {
			t.Errorf("marks %q and %q, %v, want the first", x.Mark(), mark, err)
		}
		must(t, copied.Close())
	}
	if i, err := db.Inventory(ctx); i != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("an inventory after the end of its context: %v, %v", i, err)
	}
	_, err := db.Inventory(t.Context())
	must(t, errors.Join(err, db.Compact(t.Context(), bloomkv.CompactOptions{Rewrite: true})))
	testkit.Soon(t, "no export keeps tables", func() bool { return db.Metrics().Files.Obsolete == 0 })
	must(t, db.Close())
}

// TestAStoreThatIsOnlyReadOrClosedMakesNoTransfer asks for each: only an inventory can be had of a store that is read.
func TestAStoreThatIsOnlyReadOrClosedMakesNoTransfer(t *testing.T) {
	mem := vfstest.NewMem()
	db := storetest.Open(t, "db", storetest.Tiny(mem))
	must(t, errors.Join(db.Put([]byte("k"), nil), db.Close()))
	o := storetest.Tiny(mem)
	o.ReadOnly = true
	db = storetest.Open(t, "db", o)
	for _, want := range []error{bloomkv.ErrReadOnly, bloomkv.ErrClosed} {
		if errors.Is(want, bloomkv.ErrClosed) {
			must(t, db.Close())
		}
		x, err := db.Export(t.Context(), bloomkv.ExportOptions{})
		if x != nil || !errors.Is(err, want) {
			t.Errorf("Export: %v, want %v", err, want)
		}
		r := bytes.NewReader([]byte("no stream"))
		if err := db.Import(t.Context(), r, bloomkv.ImportOptions{}); !errors.Is(err, want) || r.Len() != 9 {
			t.Errorf("Import: %v, %d bytes are left of the stream, want %v and all", err, r.Len(), want)
		}
		if err := db.IngestTables(t.Context(), "no file"); !errors.Is(err, want) {
			t.Errorf("IngestTables: %v, want %v", err, want)
		}
		i, err := db.Inventory(t.Context())
		if reads := errors.Is(want, bloomkv.ErrReadOnly); reads != (err == nil) || reads != (i != nil) {
			t.Errorf("Inventory: %v, %v", i, err)
		}
	}
}

// TestAnImportIntoAStoreWithKeysReadsNoTable is refused before, and says what it is.
func TestAnImportIntoAStoreWithKeysReadsNoTable(t *testing.T) {
	s, _ := overwritten(t)
	mem := vfstest.NewMem()
	created := 0
	db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewHook(mem, func(op vfstest.Op) error {
		if storetest.CreatesTable(op) {
			created++
		}
		return nil
	})))
	must(t, db.Put([]byte("k"), nil))
	err := db.Import(t.Context(), bytes.NewReader(s), bloomkv.ImportOptions{})
	if !errors.Is(err, fs.ErrExist) || created != 0 || !strings.HasPrefix(err.Error(), "bloomkv: import: ") {
		t.Errorf("%v, %d tables are created; want fs.ErrExist and none", err, created)
	}
	must(t, db.Close())
	err = bloomkv.Import(t.Context(), bytes.NewReader(s), "db", bloomkv.NewStoreOptions{FS: mem})
	if !errors.Is(err, fs.ErrExist) || !strings.HasPrefix(err.Error(), "bloomkv: import db: ") {
		t.Errorf("into its directory: %v", err)
	}
}

// TestAnExportEndsWithItsStoreAtAnyWrite closes the store at each write of a stream whose table has several frames, and
// fails each.
func TestAnExportEndsWithItsStoreAtAnyWrite(t *testing.T) {
	mem := vfstest.NewMem()
	o := storetest.Tiny(mem)
	o.Compression = bloomkv.CompressionNone
	db := storetest.Open(t, "db", o)
	must(t, errors.Join(db.Put([]byte("k"), make([]byte, 600<<10)), db.Close()))
	all := 1
	for _, closes := range []bool{true, false} {
		for nth := 1; nth <= all; nth++ {
			db := storetest.Open(t, "db", o)
			x, err := db.Export(t.Context(), bloomkv.ExportOptions{})
			must(t, err)
			writes, written := 0, int64(0)
			n, err := x.WriteTo(writerFunc(func(p []byte) (int, error) {
				if writes++; writes == nth && closes {
					must(t, db.Close())
				} else if writes == nth {
					return 0, syscall.EIO
				}
				written += int64(len(p))
				return len(p), nil
			}))
			want := map[bool]error{true: bloomkv.ErrClosed, false: syscall.EIO}[closes]
			all = max(all, nth+1)
			if last := nth > writes || closes && err == nil; last {
				must(t, err)
				all = nth
			} else if !errors.Is(err, want) || n != written ||
				!closes && !strings.HasPrefix(err.Error(), "bloomkv: export: ") {
				t.Errorf("write %d: %d bytes of %d, %v; want %v", nth, n, written, err, want)
			}
			must(t, x.Close())
			if err := db.Close(); err != nil && !errors.Is(err, bloomkv.ErrClosed) {
				t.Error(err)
			}
		}
		if all < 5 {
			t.Errorf("%d writes are too few", all)
		}
	}
}

func TestARefusedInventoryChangesNone(t *testing.T) {
	s, _ := overwritten(t)
	six, err := bloomkv.ReadInventory(bytes.NewReader(s))
	must(t, err)
	encoded, err := six.MarshalBinary()
	must(t, err)
	var i bloomkv.Inventory
	for _, c := range []struct {
		b  []byte
		at int
	}{{append(bytes.Clone(encoded), 0), len(encoded)}, {encoded[:len(encoded)-1], len(encoded) - 1}, {nil, 0}} {
		err := i.UnmarshalBinary(c.b)
		damage, ok := errors.AsType[*bloomkv.CorruptionError](err)
		if !errors.Is(err, bloomkv.ErrCorruption) || !ok || damage.Offset != int64(c.at) || i.Tables() != 0 {
			t.Errorf("%d bytes of %d: %v, %d tables, want damage at %d", len(c.b), len(encoded), err, i.Tables(), c.at)
		}
	}
	must(t, i.UnmarshalBinary(encoded))
	clear(encoded)
	if again, err := i.MarshalBinary(); err != nil || i.Tables() != 6 || bytes.Equal(again, encoded) {
		t.Errorf("%d tables, %v; the inventory keeps the bytes that it was read from", i.Tables(), err)
	}
}

// importers import a stream, or part of one, into an open store and into a new directory.
func importers(t *testing.T, fsys vfs.FS) map[string]func(io.Reader) error {
	t.Helper()
	return map[string]func(io.Reader) error{
		"db": func(r io.Reader) error {
			db := storetest.Open(t, "db", storetest.Tiny(fsys))
			err := db.Import(t.Context(), r, bloomkv.ImportOptions{})
			must(t, db.Close())
			return err
		},
		"copy": func(r io.Reader) error {
			return bloomkv.Import(t.Context(), r, "copy", bloomkv.NewStoreOptions{FS: fsys})
		},
	}
}

// TestAnImportReportsTheSyncOfEachTable fails one after the other, also the last, whose error comes after the stream.
func TestAnImportReportsTheSyncOfEachTable(t *testing.T) {
	s, want := overwritten(t)
	for _, dir := range []string{"db", "copy"} {
		nth, last := int64(1), false
		for ; !last; nth++ {
			mem := vfstest.NewMem()
			var seen atomic.Int64
			err := importers(t, vfstest.NewHook(mem, func(op vfstest.Op) error {
				if op.Kind == vfstest.OpSync && strings.HasSuffix(op.Name, ".sst") && seen.Add(1) == nth {
					return syscall.EIO
				}
				return nil
			}))[dir](bytes.NewReader(s))
			if last = seen.Load() < nth; last {
				must(t, errors.Join(err, holds(mem, dir, want)))
				continue
			}
			names, _ := mem.List(dir)
			if !errors.Is(err, syscall.EIO) || tables(names) != "" {
				t.Errorf("%s: the sync of table %d fails: %v, left %q", dir, nth, err, names)
			}
		}
		if nth < 5 {
			t.Errorf("%s: %d tables are too few", dir, nth-2)
		}
	}
}

// TestARefusedStreamLeavesNoFileOpen damages the end of each table, the record of one, and cuts the stream off.
func TestARefusedStreamLeavesNoFileOpen(t *testing.T) {
	whole, want := overwritten(t)
	var cases [][]byte
	for i := range decoded(t, whole).tables {
		f := decoded(t, whole)
		f.tables[i] = bytes.Clone(f.tables[i])
		f.tables[i][len(f.tables[i])-1] ^= 1 // not by what was sent, but by the fingerprint
		cases = append(cases, f.bytes(t))
		for _, change := range []func(*stream.Table){
			func(of *stream.Table) { of.Entries-- },
			func(of *stream.Table) { of.Sum++ },
		} {
			f = decoded(t, whole)
			change(&f.header.Tables[i])
			cases = append(cases, f.bytes(t))
		}
	}
	cases = append(cases, whole[:len(whole)/2], whole[:len(whole)-1])
	for i, s := range append(cases, whole) {
		for _, dir := range []string{"db", "copy"} {
			mem := vfstest.NewMem()
			open := storetest.TrackOpen(mem)
			err := importers(t, open)[dir](bytes.NewReader(s))
			must(t, open.Left())
			if i == len(cases) {
				must(t, errors.Join(err, holds(mem, dir, want)))
			} else if names, _ := mem.List(dir); !errors.Is(err, bloomkv.ErrCorruption) || tables(names) != "" {
				t.Errorf("stream %d into %s: %v, left %q", i, dir, err, names)
			}
		}
	}
}

// TestARefusedStreamLeavesOnlyWhatCannotBeRemoved fails the first removal of a table.
func TestARefusedStreamLeavesOnlyWhatCannotBeRemoved(t *testing.T) {
	s, _ := overwritten(t)
	for _, dir := range []string{"db", "copy"} {
		mem := vfstest.NewMem()
		var removed atomic.Int64
		err := importers(t, vfstest.NewHook(mem, func(op vfstest.Op) error {
			if op.Kind == vfstest.OpRemove && strings.HasSuffix(op.Name, ".sst") && removed.Add(1) == 1 {
				return syscall.EIO
			}
			return nil
		}))[dir](bytes.NewReader(s[:len(s)-1]))
		names, _ := mem.List(dir)
		if n := strings.Count(tables(names), ".sst"); n != 1 || removed.Load() != 6 {
			t.Errorf("%s: %d tables are removed, left %q", dir, removed.Load(), names)
		}
		if !errors.Is(err, bloomkv.ErrCorruption) || !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v, want both causes", dir, err)
		}
	}
}

// TestEveryFailedOperationOfAnImportLeavesNoStore fails each operation in turn, also the closing of files, of an import
// whose tables travel, and of imports whose tables are linked, or copied.
func TestEveryFailedOperationOfAnImportLeavesNoStore(t *testing.T) {
	testkit.Long(t)
	whole, want := overwritten(t)
	f := decoded(t, whole)
	for i := range f.header.Tables {
		f.header.Tables[i].Travels = false
	}
	none := f.bytes(t)
	base := vfstest.NewMem()
	must(t, bloomkv.Import(t.Context(), bytes.NewReader(whole), "base", bloomkv.NewStoreOptions{FS: base}))
	for _, c := range []struct {
		stream []byte
		base   string
		copies bool
	}{{whole, "", false}, {none, "base", false}, {none, "base", true}} {
		var mu sync.Mutex // tables are synced next to others
		var failed vfstest.Op
		for nth, struck := 1, true; struck; nth++ {
			mem := base.Kill()
			ops := 0
			struck = false
			open := storetest.TrackOpen(vfstest.NewHook(mem, func(op vfstest.Op) error {
				mu.Lock()
				defer mu.Unlock()
				if c.copies && op.Kind == vfstest.OpLink {
					return errors.ErrUnsupported
				}
				_, current := mem.Stat("copy/CURRENT")
				if op.Kind == vfstest.OpRemove && current == nil && op.Name != "copy/CURRENT" {
					t.Errorf("after %v failed, %v comes before the removal of CURRENT", failed, op)
				}
				if ops++; ops == nth {
					struck, failed = true, op
					return syscall.EIO
				}
				return nil
			}))
			o := bloomkv.NewStoreOptions{FS: open, Base: c.base}
			err := bloomkv.Import(t.Context(), bytes.NewReader(c.stream), "copy", o)
			if left := leftOf(mem, false); err != nil && (left != "" || !errors.Is(err, syscall.EIO)) {
				t.Errorf("%v fails: %v, left %s", failed, err, left)
			}
			if err == nil {
				must(t, holds(mem.Crash(vfstest.KeepNothing), "copy", want))
				if struck && (failed.Kind.Changes() || strings.HasSuffix(failed.Name, ".sst")) {
					t.Errorf("%v fails, and the import does not report it", failed)
				}
			}
			if err := open.Left(); err != nil || !struck && nth < 50 {
				t.Errorf("%v, the last of %d, fails: %v", failed, nth, err)
			}
		}
	}
}

// A limited file system has a fixed number of free bytes.
type limited struct {
	*vfstest.Mem

	free uint64
}

func (l limited) FreeSpace(string) (uint64, error) { return l.free, nil }

// TestAnImportNeedsTheSpaceOfTheTablesThatTravel has exactly that much, a byte less, and none for tables of a base.
func TestAnImportNeedsTheSpaceOfTheTablesThatTravel(t *testing.T) {
	s, want := overwritten(t)
	f := decoded(t, s)
	need := uint64(0)
	for i := range f.tables {
		need += uint64(len(f.tables[i]))
		f.header.Tables[i].Travels = false
	}
	none := f.bytes(t)
	mem := vfstest.NewMem()
	for i, c := range []struct {
		free   uint64
		stream []byte
		base   string
		want   error
	}{{need - 1, s, "", vfs.ErrNoSpace}, {need, s, "", nil}, {0, none, "copy 1", nil}} {
		dir := fmt.Sprint("copy ", i)
		o := bloomkv.NewStoreOptions{FS: limited{mem, c.free}, Base: c.base}
		err := bloomkv.Import(t.Context(), bytes.NewReader(c.stream), dir, o)
		if _, statErr := mem.Stat(dir); !errors.Is(err, c.want) || (statErr == nil) != (c.want == nil) {
			t.Errorf("%d bytes of %d are free: %v, %v", c.free, need, err, statErr)
		}
		if c.want == nil {
			must(t, holds(mem.Crash(vfstest.KeepNothing), dir, want))
		}
	}
}

// decoded returns a stream, to be changed and encoded again.
func decoded(t *testing.T, s []byte) *forgedStream {
	t.Helper()
	in, err := stream.NewReader(bytes.NewReader(s))
	must(t, err)
	f := &forgedStream{header: in.Header}
	for _, table := range in.Header.Tables {
		var b []byte
		if !table.Travels {
			f.tables = append(f.tables, nil)
			continue
		}
		must(t, in.Table(table.Size, func(p []byte) error { b = append(b, p...); return nil }))
		f.tables = append(f.tables, b)
	}
	must(t, in.End())
	return f
}

// TestAStreamComesInWhateverPiecesItsReaderYields has readers whose last bytes come with an error, and slow ones.
func TestAStreamComesInWhateverPiecesItsReaderYields(t *testing.T) {
	testkit.Long(t)
	s, want := overwritten(t)
	failed := errors.New("failed behind the end")
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"data with EOF": iotest.DataErrReader, "halves": iotest.HalfReader, "single bytes": iotest.OneByteReader,
		"data with an error": func(r io.Reader) io.Reader {
			return iotest.DataErrReader(io.MultiReader(r, iotest.ErrReader(failed)))
		},
	} {
		for _, dir := range []string{"db", "copy"} {
			mem := vfstest.NewMem()
			must(t, importers(t, mem)[dir](wrap(bytes.NewReader(s))))
			if err := holds(mem, dir, want); err != nil {
				t.Errorf("%s, %s: %v", name, dir, err)
			}
			failing := io.MultiReader(bytes.NewReader(s[:99]), iotest.ErrReader(failed))
			err := importers(t, vfstest.NewMem())[dir](wrap(failing))
			if !errors.Is(err, failed) {
				t.Errorf("%s, %s: %v, want the error of the reader", name, dir, err)
			}
		}
	}
}
