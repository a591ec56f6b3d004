package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// refuseChanges returns fsys with a hook: every operation that could change a file fails, and fails the test.
func refuseChanges(t *testing.T, fsys vfs.FS) vfs.FS {
	t.Helper()
	return vfstest.NewHook(fsys, func(op vfstest.Op) error {
		if op.Kind.Changes() {
			t.Errorf("%v, want no change", op)
			return fs.ErrPermission
		}
		return nil
	})
}

// TestOptionsOfAStoreAreThoseInEffect also opens a store with the options of another: they are valid, with defaults in
// place of zeros.
func TestOptionsOfAStoreAreThoseInEffect(t *testing.T) {
	resources, err := bloomkv.NewResources(bloomkv.ResourcesOptions{MemoryBudget: 64 << 20})
	must(t, err)
	large, err := bloomkv.NewResources(bloomkv.ResourcesOptions{MemoryBudget: 65 << 30})
	must(t, err)
	for _, c := range []struct {
		given    bloomkv.Options
		memtable int64
	}{
		{bloomkv.Options{}, 16 << 20},
		{bloomkv.Options{FilterFPR: 0.25, MemoryBudget: 16 << 20}, 4 << 20},
		{bloomkv.Options{FilterMemory: 1 << 20}, 16 << 20},
		{bloomkv.Options{MemoryBudget: 5 << 30}, 1 << 30}, // the most, as with large
		{bloomkv.Options{Resources: resources}, 1 << 20},
		{bloomkv.Options{Resources: large}, 1 << 30},
	} {
		given := c.given
		given.FS = vfstest.NewMem()
		db := storetest.Open(t, "db", &given)
		o := db.Options()
		must(t, db.Close())
		if o.FS != given.FS || o.LevelRatio != 10 || o.MemtableSize != c.memtable || o.Logger == nil ||
			o.Compactions == 0 || o.FilterMemory != given.FilterMemory ||
			given.FilterFPR != 0 && o.FilterFPR != given.FilterFPR || (o.MemoryBudget == 0) != (o.Resources != nil) {
			t.Errorf("given %+v: got %+v", given, o)
		}
		o.FS = vfstest.NewMem()
		db = storetest.Open(t, "db", &o)
		if again := db.Options(); !reflect.DeepEqual(again, o) {
			t.Errorf("opened with %+v: got %+v", o, again)
		}
		must(t, db.Close())
	}
}

// TestAMemtableStaysAtItsLargestSize has a budget of which a memtable would get more than its log can have. What the
// memtables take does not grow with the budget any more, so a budget that keeps what is asked has it all.
func TestAMemtableStaysAtItsLargestSize(t *testing.T) {
	db := storetest.Open(t, "db", &bloomkv.Options{FS: vfstest.NewMem(), MemoryBudget: 8 << 30})
	if got := db.Options().MemtableSize; got != 1<<30 {
		t.Errorf("MemtableSize %d, want 1 GiB", got)
	}
	must(t, errors.Join(db.Put([]byte("k"), nil), db.Flush(t.Context())))
	if m := db.Metrics(); m.BudgetNeeded < 2<<30 || m.BudgetNeeded > 8<<30 {
		t.Errorf("%d bytes are needed, want those of two memtables and no more than there are", m.BudgetNeeded)
	}
	must(t, db.Close())
}

func TestErrorIfExistsChangesNothingAndElseMakesAStore(t *testing.T) {
	mem := vfstest.NewMem()
	o := storetest.Tiny(mem)
	o.ErrorIfExists = true
	db := storetest.Open(t, "db", o)
	must(t, errors.Join(db.Put([]byte("k"), []byte("v")), db.Close()))
	before := filesIn(t, mem)
	again := storetest.Tiny(refuseChanges(t, mem))
	again.ErrorIfExists = true
	if _, err := bloomkv.Open("db", again); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "db") {
		t.Errorf("for an existing store: %v, want fs.ErrExist and the directory", err)
	}
	if after := filesIn(t, mem); !maps.Equal(after, before) {
		t.Error("the store was changed")
	}
	again.ErrorIfMissing = true
	if _, err := bloomkv.Open("db", again); err == nil || !strings.Contains(err.Error(), "ErrorIfExists") {
		t.Errorf("with ErrorIfMissing: %v, want an error naming the option", err)
	}
}

// TestErrorIfExistsSeesAStoreThatIsMadeMeanwhile creates a store between Open's first look and its lock.
func TestErrorIfExistsSeesAStoreThatIsMadeMeanwhile(t *testing.T) {
	mem := vfstest.NewMem()
	made := false
	o := storetest.Tiny(vfstest.NewHook(mem, func(op vfstest.Op) error {
		if op.Kind != vfstest.OpLock || made {
			return nil
		}
		made = true
		db, err := bloomkv.Open("db", storetest.Tiny(mem))
		if err == nil {
			err = errors.Join(db.Put([]byte("k"), []byte("v")), db.Close())
		}
		return err
	}))
	o.ErrorIfExists = true
	if _, err := bloomkv.Open("db", o); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want fs.ErrExist", err)
	}
	if got := filesIn(t, mem); got[filename.CurrentName] == "" {
		t.Error("the store created meanwhile is lost")
	}
	db := storetest.Open(t, "db", storetest.Tiny(mem))
	defer db.Close()
	if v, err := db.Get([]byte("k")); string(v) != "v" {
		t.Errorf("got %q, %v, want v", v, err)
	}
}

func TestOpenSaysWhichDirectoryCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for dir, want := range map[string]string{
		"":                         "the name of the directory is empty",
		file:                       "not a directory",
		filepath.Join(file, "dir"): "not a directory",
	} {
		for _, readOnly := range []bool{false, true} {
			want := "bloomkv: open " + dir + ": " + want
			if _, err := bloomkv.Open(dir, &bloomkv.Options{ReadOnly: readOnly}); err == nil || err.Error() != want {
				t.Errorf("read-only %v: %v, want %s", readOnly, err, want)
			}
		}
	}
}

func TestOpenMakesTheParentsThatAreMissing(t *testing.T) {
	fsys := vfstest.NewMem()
	db, err := bloomkv.Open(filepath.Join("a", "b", "c"), &bloomkv.Options{FS: fsys})
	must(t, err)
	must(t, db.Put([]byte("key"), []byte("value")))
	after := fsys.Crash(vfstest.KeepNothing) // every name must be durable
	must(t, db.Close())
	db = storetest.Open(t, filepath.Join("a", "b", "c"), &bloomkv.Options{FS: after, ErrorIfMissing: true})
	if v, err := db.Get([]byte("key")); string(v) != "value" {
		t.Errorf("%q, %v", v, err)
	}
	must(t, db.Close())
	if _, err := bloomkv.Open(filepath.Join("d", "e"),
		&bloomkv.Options{FS: fsys, ErrorIfMissing: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing store: %v", err)
	}
	if _, err := fsys.Stat("d"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its parent directory was created: %v", err)
	}
}

// TestOpenEndsWithItsContext ends the context at each operation on a file while a store with logs is opened.
func TestOpenEndsWithItsContext(t *testing.T) {
	left := vfstest.NewMem()
	db := storetest.Open(t, "db", storetest.Tiny(left))
	for i := range 400 {
		must(t, db.Put(fmt.Appendf(nil, "key%03d", i), bytes.Repeat([]byte("v"), 100)))
	}
	left = left.Kill() // without Close, so that logs are replayed
	must(t, db.Close())
	for _, readOnly := range []bool{false, true} {
		ended, n := 0, int64(0)
		for opened := false; !opened; n++ {
			mem := left.Kill()
			before := filesIn(t, mem)
			ctx, cancel := context.WithCancel(t.Context())
			var ops atomic.Int64 // of background goroutines too
			o := storetest.Tiny(vfstest.NewHook(mem, func(vfstest.Op) error {
				if ops.Add(1) > n {
					cancel()
				}
				return nil
			}))
			o.ReadOnly = readOnly
			db, err := bloomkv.OpenContext(ctx, "db", o)
			switch opened = ctx.Err() == nil; {
			case errors.Is(err, context.Canceled):
				ended++
				if changed := storetest.Diff(filesIn(t, mem), before); readOnly && changed != "" {
					t.Errorf("operation %d: the directory was changed: %s", n, changed)
				}
			default: // the context ended after the last long step, or not at all
				cancel()
				must(t, err)
				must(t, checkKeys(db, 400))
				must(t, db.Close())
			}
			cancel()
			db = storetest.Open(t, "db", storetest.Tiny(mem))
			if err := checkKeys(db, 400); err != nil {
				t.Errorf("operation %d: after another Open: %v", n, err)
			}
			must(t, db.Close())
		}
		if ended < 5 {
			t.Errorf("read-only %v: %d of %d opens ended, want most", readOnly, ended, n)
		}
	}
}

// TestOpenCreatesNothingOnceItsContextHasEnded also holds for the parent directory.
func TestOpenCreatesNothingOnceItsContextHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fsys := vfstest.NewMem()
	_, err := bloomkv.OpenContext(ctx, filepath.Join("d", "e"), &bloomkv.Options{FS: fsys})
	if _, stat := fsys.Stat("d"); !errors.Is(err, context.Canceled) || !errors.Is(stat, fs.ErrNotExist) {
		t.Errorf("OpenContext: %v, Stat: %v", err, stat)
	}
}

// checkKeys returns an error unless the store has the keys that TestOpenEndsWithItsContext has put.
func checkKeys(db *bloomkv.DB, want int) error {
	got := 0
	for _, err := range db.Scan(bloomkv.IterOptions{}) {
		if err != nil {
			return err
		}
		got++
	}
	if got != want {
		return fmt.Errorf("%d keys, want %d", got, want)
	}
	return nil
}
