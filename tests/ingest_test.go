package tests

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/sstable"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// tableFilesIn counts the tables in the directory db.
func tableFilesIn(t *testing.T, fsys vfs.FS) (n int) {
	t.Helper()
	names, err := fsys.List("db")
	must(t, err)
	for _, name := range names {
		if filepath.Ext(name) == ".sst" {
			n++
		}
	}
	return n
}

// TestEveryFailedOperationOfAnIngestIsReportedAndLeavesNothing makes each file operation fail in turn: the ingest is
// visible as a whole or not at all, now and after reopening, and a failed one leaves no file.
func TestEveryFailedOperationOfAnIngestIsReportedAndLeavesNothing(t *testing.T) {
	pairs := map[string]string{}
	for i := range 120 {
		pairs[fmt.Sprintf("key%03d", i*3)] = strings.Repeat("v", 300)
	}
	boom := errors.New("boom")
	for fail := 0; ; fail++ {
		mem := vfstest.NewMem()
		var armed atomic.Bool
		var ops atomic.Int64
		fsys := vfstest.NewHook(mem, func(op vfstest.Op) error {
			if armed.Load() && op.Kind.Changes() && ops.Add(1)-1 == int64(fail) {
				return fmt.Errorf("%v: %w", op, boom)
			}
			return nil
		})
		o := storetest.Tiny(fsys)
		o.Compression = bloomkv.CompressionNone // so that there are several tables
		db := storetest.Open(t, "db", o)
		before := map[string]string{}
		for i := range 40 {
			k := fmt.Sprintf("key%03d", i*7)
			must(t, db.Put([]byte(k), []byte("old")))
			before[k] = "old"
		}
		must(t, db.Flush(t.Context()))
		storetest.AtRest(t, db, mem, "db") // so that only operations of the ingest fail below
		tables := tableFilesIn(t, mem)
		after := maps.Clone(before)
		maps.DeleteFunc(after, func(k, _ string) bool { return k >= "key1" && k < "key2" })
		maps.Copy(after, pairs)

		armed.Store(true)
		err := db.Ingest(t.Context(), storetest.PairsOf(pairs),
			bloomkv.IngestOptions{Replace: &bloomkv.KeyRange{Lower: []byte("key1"), Upper: []byte("key2")}})
		armed.Store(false)
		done := ops.Load() <= int64(fail)
		if done != (err == nil) || err != nil && !errors.Is(err, boom) {
			t.Fatalf("operation %d: %v", fail, err)
		}
		want := before
		if err == nil {
			want = after
		}
		got, readErr := storetest.Contents(db)
		if d := storetest.Diff(got, want); readErr != nil || d != "" {
			t.Fatalf("operation %d, %v: %v, %s", fail, err, readErr, d)
		}
		uncertain := errors.Is(err, bloomkv.ErrReadOnly) // the manifest may name the tables or not
		if n := tableFilesIn(t, mem); err != nil && !uncertain && n != tables {
			t.Fatalf("operation %d, %v: %d tables, want %d", fail, err, n, tables)
		}
		if closeErr := db.Close(); closeErr != nil && !uncertain {
			t.Fatalf("operation %d: close: %v", fail, closeErr)
		}
		db, openErr := bloomkv.Open("db", storetest.Tiny(mem))
		if openErr != nil {
			t.Fatalf("operation %d, %v: reopened: %v", fail, err, openErr)
		}
		got, readErr = storetest.Contents(db)
		if d := storetest.Diff(got, want); readErr != nil || d != "" &&
			(!uncertain || storetest.Diff(got, after) != "") {
			t.Fatalf("operation %d, %v: reopened: %v, %s", fail, err, readErr, d)
		}
		must(t, db.Close())
		if done {
			if fail < 10 {
				t.Errorf("only %d operations failed: the test tests little", fail)
			}
			return
		}
	}
}

// TestAnIngestIsSeenWholeOrNotAtAll runs readers of every kind during ingests that write one number under all keys.
func TestAnIngestIsSeenWholeOrNotAtAll(t *testing.T) {
	db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewMem()))
	const keys = 60
	write := func(n int) error {
		pairs := map[string]string{}
		for i := range keys {
			pairs[fmt.Sprintf("key%02d", i)] = strconv.Itoa(n)
		}
		return db.Ingest(t.Context(), storetest.PairsOf(pairs), bloomkv.IngestOptions{Replace: &bloomkv.KeyRange{}})
	}
	must(t, write(0))
	stop := make(chan struct{})
	failed := make(chan error, 3)
	read := func(f func() (values []string, err error)) {
		for {
			select {
			case <-stop:
				failed <- nil
				return
			default:
			}
			values, err := f()
			if err != nil || len(values) != keys || values[0] != values[keys-1] || len(slices.Compact(values)) != 1 {
				failed <- fmt.Errorf("saw %d keys, %v, %w", len(values), slices.Compact(values), err)
				return
			}
		}
	}
	go read(func() (values []string, err error) {
		for kv, err := range db.Scan(bloomkv.IterOptions{}) {
			if err != nil {
				return nil, err
			}
			values = append(values, string(kv.Value))
		}
		return values, nil
	})
	go read(func() (values []string, err error) {
		snap, err := db.Snapshot()
		if err != nil {
			return nil, err
		}
		for i := range keys {
			v, err := snap.Get(fmt.Appendf(nil, "key%02d", i))
			if err != nil {
				return nil, err
			}
			values = append(values, string(v))
		}
		return values, snap.Close()
	})
	go read(func() (values []string, err error) {
		ask := make([][]byte, keys)
		for i := range ask {
			ask[i] = fmt.Appendf(nil, "key%02d", i)
		}
		err = db.GetMany(ask, func(_ int, v []byte, _ bool) error {
			values = append(values, string(v))
			return nil
		})
		return values, err
	})
	for n := range storetest.AtStride(200) {
		must(t, write(n))
	}
	close(stop)
	for range 3 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	must(t, db.Close())
}

// built writes a table of keys from..to-1 outside of a store, unsynced.
func built(t *testing.T, fsys vfs.FS, path string, from, to int, value string) {
	t.Helper()
	params, err := bloomblock.ParamsFor(0.01)
	must(t, err)
	f, err := fsys.Create(path)
	must(t, err)
	w := sstable.NewWriter(f, sstable.WriterOptions{Filter: params, Codec: sstable.CodecS2})
	for i := from; i < to; i++ {
		must(t, w.Add(fmt.Appendf(nil, "k%03d", i), []byte(value)))
	}
	must(t, errors.Join(w.Finish(), f.Close()))
}

// TestAnIngestThatReplacesAnEmptyRangeMakesNoTable has bounds that are equal or cross each other.
func TestAnIngestThatReplacesAnEmptyRangeMakesNoTable(t *testing.T) {
	o := storetest.Tiny(vfstest.NewMem())
	l := listen(o)
	db := l.open(t, o)
	for lower, tables := range map[string]int{"b": 0, "c": 0, "a": 1} {
		replace := &bloomkv.KeyRange{Lower: []byte(lower), Upper: []byte("b")}
		before := len(db.Tables())
		must(t, db.Ingest(t.Context(), storetest.PairsOf(nil), bloomkv.IngestOptions{Replace: replace}))
		if n := len(db.Tables()) - before; n != tables {
			t.Errorf("%s to b: %d tables, want %d", lower, n, tables)
		}
	}
	for _, lower := range []string{"b", "c"} { // with a key, there is a table, but no range delete
		replace := &bloomkv.KeyRange{Lower: []byte(lower), Upper: []byte("b")}
		pairs := storetest.PairsOf(map[string]string{lower: ""})
		must(t, db.Ingest(t.Context(), pairs, bloomkv.IngestOptions{Replace: replace}))
	}
	dels := uint64(0)
	for _, table := range db.Tables() {
		dels += table.RangeDeletes
	}
	if l.close(t); len(l.ingested) != 3 || dels != 1 {
		t.Errorf("events %+v and %d range deletes; want three events and one range delete", l.ingested, dels)
	}
}

func TestAnIngestOutOfOrderNamesTheKey(t *testing.T) {
	db := storetest.OpenTiny(t)
	err := db.Ingest(t.Context(), func(yield func(bloomkv.KV, error) bool) {
		_ = yield(bloomkv.KV{Key: []byte("a")}, nil) && yield(bloomkv.KV{Key: []byte("c")}, nil) &&
			yield(bloomkv.KV{Key: []byte("b")}, nil)
	}, bloomkv.IngestOptions{})
	if !errors.Is(err, bloomkv.ErrOrder) || !strings.Contains(err.Error(), `key 3, "b", after "c"`) {
		t.Errorf("%v, want that key 3 is out of order", err)
	}
	must(t, db.Close())
}

func TestTheLongestKeyIsIngestedAndNoLongerOne(t *testing.T) {
	db := storetest.OpenTiny(t)
	for n, want := range map[int]error{bloomkv.MaxKeySize: nil, bloomkv.MaxKeySize + 1: bloomkv.ErrTooLarge} {
		pairs := storetest.PairsOf(map[string]string{strings.Repeat("k", n): ""})
		if err := db.Ingest(t.Context(), pairs, bloomkv.IngestOptions{}); !errors.Is(err, want) {
			t.Errorf("a key of %d bytes: %v, want %v", n, err, want)
		}
	}
	must(t, db.Close())
}

func TestTablesBuiltElsewhereAreIngestedInOneStep(t *testing.T) {
	for _, links := range []bool{true, false} {
		t.Run(fmt.Sprint("links ", links), func(t *testing.T) {
			mem := vfstest.NewMem()
			db, want := grown(t, vfstest.NewHook(mem, func(op vfstest.Op) error {
				if op.Kind == vfstest.OpLink && !links {
					return errors.ErrUnsupported
				}
				return nil
			}))
			snapshot, err := db.Snapshot()
			must(t, err)
			before := maps.Clone(want)
			built(t, mem, "b", 200, 300, "b")
			built(t, mem, "a", 100, 200, "a")
			must(t, db.IngestTables(t.Context(), "b", "a"))
			for i := 100; i < 300; i++ {
				want[fmt.Sprintf("k%03d", i)] = string("ab"[(i-100)/100])
			}
			must(t, contains(db, want))
			must(t, contains(snapshot, before))
			must(t, snapshot.Close())
			must(t, holds(mem.Crash(vfstest.KeepNothing), "db", want)) // durable, though nobody had synced the tables
			must(t, errors.Join(mem.Remove("a"), mem.Remove("b")))
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
			must(t, contains(db, want))
			must(t, db.Close())
			must(t, holds(mem, "db", want))
		})
	}
}

func TestATableIsIngestedOnceAsLongAsItIsThere(t *testing.T) {
	mem := vfstest.NewMem()
	removals := -1 << 30
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: vfstest.NewHook(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpRemove && strings.HasSuffix(op.Name, ".sst") {
			if removals++; removals == 1 {
				return fs.ErrPermission
			}
		}
		return nil
	})})
	must(t, err)
	built(t, mem, "a", 0, 10, "a")
	built(t, mem, "b", 20, 30, "b")
	for _, name := range []string{"c", "d"} {
		f, err := mem.Create(name)
		must(t, err)
		w := sstable.NewWriter(f, sstable.WriterOptions{ID: 7})
		must(t, errors.Join(w.Add([]byte(name), nil), w.Finish(), f.Close()))
	}
	removals = 0 // the first of two fails
	err = db.IngestTables(t.Context(), "c", "d")
	if !errors.Is(err, bloomkv.ErrSameTable) || !errors.Is(err, fs.ErrPermission) ||
		removals != 2 || tableFilesIn(t, mem) != 1 {
		t.Errorf("two tables with one id: %v, %d are removed", err, removals)
	}
	removals = -1 << 30
	must(t, db.IngestTables(t.Context(), "a"))
	if err := db.IngestTables(t.Context(), "b", "a"); !errors.Is(err, bloomkv.ErrSameTable) {
		t.Errorf("a table that is there: %v, want ErrSameTable", err)
	}
	must(t, db.IngestTables(t.Context(), "b"))
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{Rewrite: true}))
	must(t, db.IngestTables(t.Context(), "a"))
	must(t, db.Close())
	_, err = bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: mem})
	must(t, err)
}

func TestTablesThatCannotBeIngestedLeaveNothing(t *testing.T) {
	mem := vfstest.NewMem()
	var fails atomic.Int32 // the kind of operations that fail
	open := storetest.TrackOpen(vfstest.NewHook(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpKind(fails.Load()) && strings.HasSuffix(op.Name+op.To, ".sst") {
			return &fs.PathError{Op: op.Kind.String(), Path: op.Name, Err: errors.New("failed")}
		}
		return nil
	}))
	db, want := grown(t, open)
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	storetest.Settle(t, db)
	built(t, mem, "a", 0, 100, "a")
	built(t, mem, "overlap", 50, 60, "b")
	built(t, mem, "touches", 99, 110, "b")
	built(t, mem, "ok", 100, 110, "b")
	for i := range 60 {
		must(t, db.Put(fmt.Appendf(nil, "v%02d", i%2), []byte("v")))
		want[fmt.Sprintf("v%02d", i%2)] = "v"
	}
	must(t, db.Flush(t.Context()))
	storetest.AtRest(t, db, mem, "db")
	tables := func() []string { // a log may still be on its way out
		names, err := mem.List("db")
		must(t, err)
		return slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ".sst") })
	}
	names := tables()
	whole, err := vfs.ReadFile(mem, "a", 1<<20)
	must(t, err)
	write := func(name string, b []byte) {
		f, err := mem.Create(name)
		must(t, err)
		_, err = f.Write(b)
		must(t, errors.Join(err, f.Close()))
	}
	write("cut", whole[:len(whole)-1])
	flipped := bytes.Clone(whole)
	flipped[len(whole)-100] ^= 1
	write("flipped", flipped)
	write("empty", nil)
	other := storetest.Open(t, "other", &bloomkv.Options{FS: mem})
	must(t, errors.Join(other.DeleteRange(bloomkv.KeyRange{}), other.Flush(t.Context())))
	deletes := "other/" + other.Tables()[0].File // one range tombstone
	must(t, other.Close())
	versions := ""
	for _, n := range names {
		versions = "db/" + n // the newest table: several sequence numbers
	}
	for _, c := range []struct {
		paths []string
		want  error
	}{
		{[]string{"a", "overlap"}, bloomkv.ErrOrder},
		{[]string{"a", "a"}, bloomkv.ErrOrder},
		{[]string{"touches", "a"}, bloomkv.ErrOrder}, // in one key
		{[]string{"ok", "cut"}, bloomkv.ErrCorruption},
		{[]string{"ok", "flipped"}, bloomkv.ErrCorruption},
		{[]string{"ok", "empty"}, bloomkv.ErrCorruption},
		{[]string{"ok", "missing"}, fs.ErrNotExist},
		{[]string{"ok", versions}, nil},
		{[]string{deletes}, nil},
	} {
		err := db.IngestTables(t.Context(), c.paths...)
		if err == nil || c.want != nil && !errors.Is(err, c.want) ||
			errors.Is(err, bloomkv.ErrOrder) != errors.Is(c.want, bloomkv.ErrOrder) {
			t.Errorf("%q: %v, want %v", c.paths, err, c.want)
		}
		for _, path := range c.paths {
			if errors.Is(err, bloomkv.ErrOrder) && !strings.Contains(err.Error(), path+" with ") {
				t.Errorf("%q: %v does not name %s", c.paths, err, path)
			}
		}
		for _, path := range c.paths {
			if n := open.Of(path); n > 0 && path != versions {
				t.Errorf("%q: %s stays open", c.paths, path)
			}
		}
	}
	for _, kind := range []vfstest.OpKind{vfstest.OpLink, vfstest.OpSync, vfstest.OpReadAt} {
		fails.Store(int32(kind))
		if err := db.IngestTables(t.Context(), "ok"); err == nil {
			t.Errorf("no error for a %v that failed", kind)
		}
	}
	fails.Store(0)
	if after := tables(); !slices.Equal(names, after) {
		t.Errorf("the directory has the tables %q, want %q", after, names)
	}
	must(t, db.IngestTables(t.Context()))
	must(t, contains(db, want))
	must(t, errors.Join(db.Close(), open.Left()))
	if err := db.IngestTables(t.Context(), "ok"); !errors.Is(err, bloomkv.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	must(t, holds(mem, "db", want))
}
