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
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/backup"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/salvage"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// usual returns options with which a few puts are several tables, on the system's own files. The hook sees operations.
func usual(d bloomkv.Durability, hook func(vfstest.Op)) *bloomkv.Options {
	return &bloomkv.Options{
		FS:         vfstest.NewHook(vfs.OS, func(op vfstest.Op) error { hook(op); return nil }),
		Durability: d, MemoryBudget: 8 << 20, MemtableSize: 64 << 10, TableSize: 16 << 10, BaseLevelSize: 64 << 10,
	}
}

// usualWork writes, flushes and compacts, and returns the keys whose puts returned nil. It goes on after errors.
func usualWork(db *bloomkv.DB, tag string) (acknowledged []string, err error) {
	for round := range 2 {
		for i := range 40 {
			key := fmt.Sprintf("%s/%02d/%d", tag, i, round)
			putErr := db.Put([]byte(key), make([]byte, 600))
			if putErr == nil {
				acknowledged = append(acknowledged, key)
			}
			err = errors.Join(err, putErr)
		}
		ctx := context.Background()
		err = errors.Join(err, db.Flush(ctx), db.Compact(ctx, bloomkv.CompactOptions{}))
	}
	return acknowledged, err
}

// usualUse works in a store that was opened, unless err is not nil, and closes it.
func usualUse(db *bloomkv.DB, err error) (acknowledged []string, _ error) {
	if err != nil {
		return nil, err
	}
	acknowledged, err = usualWork(db, "first")
	return acknowledged, errors.Join(err, db.Close())
}

// filesOf returns the contents of all files of a directory.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir)] = string(b)
		return err
	}))
	return all
}

// have returns an error if a store lacks keys, or is damaged.
func have(t *testing.T, dir string, keys []string) error {
	t.Helper()
	if _, err := bloomkv.Check(t.Context(), dir, bloomkv.CheckOptions{}); err != nil {
		return err
	}
	db, err := bloomkv.Open(dir, usual(bloomkv.DurabilityNoSync, func(vfstest.Op) {}))
	if err != nil {
		return err
	}
	for _, key := range keys {
		if _, err := db.Get([]byte(key)); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", key, err), db.Close())
		}
	}
	return db.Close()
}

// TestTheDirectoryOfAStoreIsHeld moves or removes the directory of an open store at an operation of a program, and puts
// another store in its place. That is left as it is, and the first one goes on where it is now, or fails. The flag
// -long makes it try more of the operations.
func TestTheDirectoryOfAStoreIsHeld(t *testing.T) {
	testkit.Long(t)
	if runtime.GOOS == "windows" || runtime.GOOS == "js" {
		t.Skip("the system does not move a directory that is in use")
	}
	template := filepath.Join(t.TempDir(), "template")
	db, err := bloomkv.Open(template, usual(bloomkv.DurabilityNoSync, func(vfstest.Op) {}))
	must(t, err)
	_, err = usualWork(db, "other")
	must(t, errors.Join(err, db.Close()))
	want := filesOf(t, template)
	another := func(dir string) { must(t, os.CopyFS(dir, os.DirFS(template))) }

	for _, c := range []struct {
		name string
		do   func(parent, dir string) (now string)
	}{
		{"moved", func(parent, dir string) string {
			must(t, os.Rename(dir, parent+"/moved"))
			another(dir)
			return parent + "/moved"
		}},
		{"moved with its parent", func(parent, dir string) string {
			must(t, os.Rename(parent, parent+".moved"))
			another(dir)
			return parent + ".moved/store"
		}},
		{"removed", func(_, dir string) string {
			for os.RemoveAll(dir) != nil { // the store may be creating a file there
			}
			another(dir)
			return ""
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			total := int64(0)
			for at := int64(0); at <= total; at += max(total/int64(12**storetest.Long), 1) { // 0: no change
				parent := filepath.Join(t.TempDir(), "parent")
				dir, now, done := filepath.Join(parent, "store"), "", false
				must(t, os.Mkdir(parent, 0o700))
				var n atomic.Int64
				var held atomic.Bool
				keys, err := usualUse(bloomkv.Open(dir, usual(bloomkv.DurabilityNoSync, func(op vfstest.Op) {
					if held.Load() && n.Add(1) == at {
						now, done = c.do(parent, dir), true
					}
					if op.Kind == vfstest.OpLock {
						held.Store(true)
					}
				})))
				if at == 0 {
					total = n.Load()
				}
				if !done { // background work takes one operation more or less
					must(t, err)
					continue
				}
				if got := filesOf(t, dir); !maps.Equal(got, want) {
					t.Fatalf("at operation %d of %d: the other store has changed: %d files, want %d",
						at, total, len(got), len(want))
				}
				if now == "" {
					continue
				}
				if err != nil {
					t.Errorf("at operation %d of %d: %v", at, total, err)
				}
				if err := have(t, now, keys); err != nil || len(keys) == 0 {
					t.Fatalf("at operation %d of %d: the first store with %d keys: %v", at, total, len(keys), err)
				}
			}
		})
	}
}

// TestAStoreWhoseLockIsRemovedIsReadOnly removes LOCK each time when a store is about to look at it, and lets another
// writer in. No synced write of either is lost, and the first store says why it is read-only.
func TestAStoreWhoseLockIsRemovedIsReadOnly(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "js" {
		t.Skip("the system does not remove a file that is in use")
	}
	total := int64(0)
	for at := int64(0); at <= total; at += max(total/int64(12**storetest.Long), 1) { // 0: no change
		dir, done, removal := filepath.Join(t.TempDir(), "store"), false, false
		var n atomic.Int64
		keys, err := usualUse(bloomkv.Open(dir, usual(bloomkv.DurabilitySync, func(op vfstest.Op) {
			if op.Kind != vfstest.OpStat || filepath.Base(op.Name) != "LOCK" || n.Add(1) != at {
				return
			}
			done, removal = true, storetest.Inside(storetest.Remove)
			must(t, os.Remove(op.Name))
			o := usual(bloomkv.DurabilitySync, func(vfstest.Op) {})
			second, err := bloomkv.Open(dir, o)
			// Another goroutine of the first store may be cutting off a log that Open is reading.
			for begin := time.Now(); err != nil && time.Since(begin) < testkit.Patience; {
				second, err = bloomkv.Open(dir, o)
			}
			must(t, err)
			must(t, second.Put([]byte("second"), nil))
			must(t, second.Close())
		})))
		if at == 0 {
			total = n.Load()
		}
		if !done { // background work looks once more or less
			must(t, err)
			continue
		}
		if !errors.Is(err, vfs.ErrLockLost) && !(err == nil && removal) { // a file that stays is no error of Close
			t.Errorf("at look %d of %d: %v, want %v", at, total, err, vfs.ErrLockLost)
		}
		if err := have(t, dir, append(keys, "second")); err != nil {
			t.Fatalf("at look %d of %d: %v", at, total, err)
		}
	}
}

// TestAStoreAtARelativePathStaysWhenTheWorkingDirectoryChanges works in another directory that has a store of the same
// name.
func TestAStoreAtARelativePathStaysWhenTheWorkingDirectoryChanges(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	for _, name := range []string{"store", ".", "./deep/store"} {
		t.Chdir(two)
		other := storetest.Open(t, name, nil)
		must(t, errors.Join(other.Put([]byte("other"), nil), other.Close()))
		want := filesOf(t, two)
		t.Chdir(one)
		db := storetest.Open(t, name, usual(bloomkv.DurabilityNoSync, func(vfstest.Op) {}))
		t.Chdir(two)
		keys, err := usualWork(db, "first")
		must(t, errors.Join(err, db.Close()))
		if got := filesOf(t, two); !maps.Equal(got, want) {
			t.Errorf("%s: the store in the other directory has changed", name)
		}
		must(t, have(t, filepath.Join(one, name), keys))
	}
}

// TestCheckReadsTheDirectoryThatItLocked moves a store, and puts another one in its place, while Check reads it.
func TestCheckReadsTheDirectoryThatItLocked(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "js" {
		t.Skip("the system does not move a directory that is in use")
	}
	base := t.TempDir()
	dir, other, moved := filepath.Join(base, "store"), filepath.Join(base, "other"), filepath.Join(base, "moved")
	for _, d := range []string{dir, other} {
		db := storetest.Open(t, d, nil)
		for i := range 3 { // tables
			must(t, errors.Join(db.Put(fmt.Append(nil, d, i), nil), db.Flush(t.Context())))
		}
		must(t, db.Close())
	}
	want, err := bloomkv.Check(t.Context(), dir, bloomkv.CheckOptions{})
	must(t, err)
	once := sync.OnceFunc(func() { must(t, errors.Join(os.Rename(dir, moved), os.Rename(other, dir))) })
	got, err := bloomkv.Check(t.Context(), dir, bloomkv.CheckOptions{Progress: func(uint64, uint64) { once() }})
	if err != nil || got.Tables < 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v of several tables", got, err, want)
	}
}

// TestABackupTargetIsHeld moves the directory of a backup while one is being written.
func TestABackupTargetIsHeld(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "js" {
		t.Skip("the system does not move a directory that is in use")
	}
	base := t.TempDir()
	db := storetest.Open(t, filepath.Join(base, "store"), usual(bloomkv.DurabilityNoSync, func(vfstest.Op) {}))
	defer func() { must(t, db.Close()) }()
	keys, err := usualWork(db, "first")
	must(t, err)
	target, moved := filepath.Join(base, "target"), filepath.Join(base, "moved")
	creates := 0
	fsys := vfstest.NewHook(vfs.OS, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpCreate {
			if creates++; creates == 2 {
				must(t, errors.Join(os.Rename(target, moved), os.MkdirAll(filepath.Join(target, "tables"), 0o700)))
			}
		}
		return nil
	})
	d, err := backup.OpenDir(fsys, target)
	must(t, err)
	_, err = backup.Make(t.Context(), db, d)
	must(t, errors.Join(err, d.Close()))
	if got := filesOf(t, target); len(got) > 0 {
		t.Errorf("the new directory of the name has %d files", len(got))
	}
	d, err = backup.OpenDir(nil, moved)
	must(t, err)
	all, err := backup.List(t.Context(), d)
	must(t, err)
	restored := filepath.Join(base, "restored")
	must(t, errors.Join(backup.Restore(t.Context(), d, all[0], restored, bloomkv.NewStoreOptions{}), d.Close()))
	must(t, have(t, restored, keys))
}

// TestTheRootOfAVolumeTakesAStore makes stores in directories that hold nothing but a lost+found, in each way.
func TestTheRootOfAVolumeTakesAStore(t *testing.T) {
	ctx, base := t.Context(), t.TempDir()
	source := filepath.Join(base, "source")
	db := storetest.Open(t, source, usual(bloomkv.DurabilityNoSync, func(vfstest.Op) {}))
	keys, err := usualWork(db, "key")
	must(t, err)
	target, err := backup.OpenDir(nil, filepath.Join(base, "backup"))
	must(t, err)
	report, err := backup.Make(ctx, db, target)
	must(t, err)
	var stream bytes.Buffer
	export, err := db.Export(ctx, bloomkv.ExportOptions{})
	must(t, err)
	_, err = export.WriteTo(&stream)
	must(t, errors.Join(err, export.Close()))
	for name, make := range map[string]func(dir string) error{
		"checkpoint": func(dir string) error { return db.Checkpoint(ctx, dir) },
		"restore": func(dir string) error {
			return backup.Restore(ctx, target, report.Generation, dir, bloomkv.NewStoreOptions{})
		},
		"import": func(dir string) error { return bloomkv.Import(ctx, &stream, dir, bloomkv.NewStoreOptions{}) },
	} {
		dir := filepath.Join(base, name)
		must(t, os.MkdirAll(filepath.Join(dir, "lost+found"), 0o700))
		if err := errors.Join(make(dir), have(t, dir, keys)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, errors.Join(target.Close(), db.Close()))
	salvaged := filepath.Join(base, "salvaged")
	must(t, os.MkdirAll(filepath.Join(salvaged, "lost+found"), 0o700))
	if _, err := salvage.Run(ctx, source, salvaged, salvage.Options{}); err != nil {
		t.Errorf("salvage: %v", err)
	}
	must(t, have(t, salvaged, keys))
}
