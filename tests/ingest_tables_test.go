package tests

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
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
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: mem})
	must(t, err)
	built(t, mem, "a", 0, 10, "a")
	built(t, mem, "b", 20, 30, "b")
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
	var full atomic.Bool
	db, want := grown(t, vfstest.NewHook(mem, func(op vfstest.Op) error {
		if full.Load() &&
			(op.Kind == vfstest.OpLink || op.Kind == vfstest.OpSync && strings.HasSuffix(op.Name, ".sst")) {
			return &fs.PathError{Op: "link", Path: op.To, Err: errors.New("no space")}
		}
		return nil
	}))
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	storetest.Settle(t, db)
	built(t, mem, "a", 0, 100, "a")
	built(t, mem, "overlap", 50, 60, "b")
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
		{[]string{"ok", "cut"}, bloomkv.ErrCorruption},
		{[]string{"ok", "flipped"}, bloomkv.ErrCorruption},
		{[]string{"ok", "empty"}, bloomkv.ErrCorruption},
		{[]string{"ok", "missing"}, fs.ErrNotExist},
		{[]string{"ok", versions}, nil},
	} {
		err := db.IngestTables(t.Context(), c.paths...)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%q: %v, want %v", c.paths, err, c.want)
		}
	}
	full.Store(true)
	if err := db.IngestTables(t.Context(), "ok"); err == nil {
		t.Error("no error for a link that failed")
	}
	full.Store(false)
	if after := tables(); !slices.Equal(names, after) {
		t.Errorf("the directory has the tables %q, want %q", after, names)
	}
	must(t, db.IngestTables(t.Context()))
	must(t, contains(db, want))
	must(t, db.Close())
	if err := db.IngestTables(t.Context(), "ok"); !errors.Is(err, bloomkv.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	must(t, holds(mem, "db", want))
}
