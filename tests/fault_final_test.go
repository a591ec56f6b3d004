package tests

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestAFailedSyncIsFinal fails one sync. A failed sync of a log or of the manifest makes the store read-only at once,
// since a later successful sync proves nothing; one of a table costs that table, and another is written.
func TestAFailedSyncIsFinal(t *testing.T) {
	for _, tt := range []struct {
		name     string
		kind     vfstest.OpKind
		file     string // the failing file's name contains it
		readOnly bool
	}{
		{"of a log", vfstest.OpSync, ".log", true},
		{"of the manifest", vfstest.OpSync, "MANIFEST-", true},
		{"of the directory", vfstest.OpSyncDir, "db", true},
		{"of a table", vfstest.OpSync, ".sst", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mem := vfstest.NewMem()
			var armed atomic.Bool
			var mu sync.Mutex
			failed := "" // the file
			db, err := bloomkv.Open("db", storetest.Tiny(vfstest.NewHook(mem, func(op vfstest.Op) error {
				mu.Lock()
				defer mu.Unlock()
				if failed != "" && op.Name == failed && (op.Kind == vfstest.OpSync || op.Kind == vfstest.OpWrite) {
					t.Errorf("%v after its sync failed", op)
				}
				if failed == "" && armed.Load() && op.Kind == tt.kind && strings.Contains(op.Name, tt.file) {
					failed = op.Name
					return &fs.PathError{Op: op.Kind.String(), Path: op.Name, Err: syscall.EIO}
				}
				return nil
			})))
			must(t, err)
			put := func(k string, d bloomkv.Durability) error {
				return db.ApplyWith(modelWrite{{key: k, value: strings.Repeat(k, 1000)}}.batch(), d)
			}
			must(t, put("before", bloomkv.DurabilitySync))
			armed.Store(true)
			err = put("during", bloomkv.DurabilitySync)
			flushErr := db.Flush(t.Context())
			if !tt.readOnly {
				if err != nil || flushErr != nil {
					t.Errorf("write: %v, flush: %v, want success with another table", err, flushErr)
				}
			} else {
				if err = errors.Join(err, flushErr); !errors.Is(err, bloomkv.ErrReadOnly) ||
					!errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "db") {
					t.Errorf("write and flush: %v, want ErrReadOnly, the cause and its path", err)
				}
				for what, err := range map[string]error{
					"put": put("after", bloomkv.DurabilityNoSync), "sync": db.Sync(), "flush": db.Flush(t.Context()),
					"compact": db.Compact(t.Context(), bloomkv.CompactOptions{}),
				} {
					if !errors.Is(err, bloomkv.ErrReadOnly) || !errors.Is(err, syscall.EIO) {
						t.Errorf("%s: %v, want ErrReadOnly and the cause", what, err)
					}
				}
				if _, err := db.Get([]byte("after")); !errors.Is(err, bloomkv.ErrNotFound) {
					t.Errorf("a failed write is visible: %v", err)
				}
			}
			if v, err := db.Get([]byte("before")); err != nil || len(v) != 6000 {
				t.Errorf("reads: %d bytes, %v", len(v), err)
			}
			if got, err := storetest.Contents(db); err != nil || len(got) == 0 {
				t.Errorf("scan: %d keys, %v", len(got), err)
			}
			mu.Lock()
			if failed == "" {
				t.Error("no sync of that file happened")
			}
			mu.Unlock()
			if err := db.Close(); errors.Is(err, bloomkv.ErrReadOnly) != tt.readOnly {
				t.Errorf("close: %v", err)
			}
			if db, err = bloomkv.Open("db", storetest.Tiny(mem.Crash(vfstest.KeepNothing))); err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if v, err := db.Get([]byte("before")); err != nil || len(v) != 6000 {
				t.Errorf("after reopening: %d bytes, %v", len(v), err)
			}
			if err := put("after", bloomkv.DurabilitySync); err != nil {
				t.Errorf("after reopening: %v", err)
			}
		})
	}
}

// A smallDisk has a number of free bytes, consumed by writes to files and by reservations of logs.
type smallDisk struct {
	mu       sync.Mutex
	free     int64            // guarded by mu
	reserved map[string]int64 // guarded by mu; by name, bytes reserved and not written yet
}

func (d *smallDisk) take(op vfstest.Op) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := int64(op.Size)
	switch op.Kind {
	case vfstest.OpCreate:
		n = 0
	case vfstest.OpReserve:
		if n -= d.reserved[op.Name]; n <= d.free {
			d.reserved[op.Name] += n
		}
	case vfstest.OpWrite:
		covered := min(n, d.reserved[op.Name])
		d.reserved[op.Name] -= covered
		n -= covered
	default:
		return nil
	}
	if n > d.free || d.free == 0 {
		if op.Kind == vfstest.OpWrite {
			d.free = 0 // a part of the data used up the rest
		}
		return syscall.ENOSPC
	}
	d.free -= n
	return nil
}

// TestAFullDiskFailsWritesAndLosesNothing uses a disk of a few blocks. If space is freed in time, the store uses it;
// otherwise it is read-only until reopened. It also uses the last space when no more can be reserved.
func TestAFullDiskFailsWritesAndLosesNothing(t *testing.T) {
	const free = 150 << 10
	mem := vfstest.NewMem()
	disk := &smallDisk{free: free, reserved: map[string]int64{}}
	fsys := vfstest.NewHook(mem, disk.take)
	o := storetest.Tiny(fsys)
	o.MemtableSize = 1 << 20 // so that a log reserves more than once
	db, err := bloomkv.Open("db", o)
	must(t, err)
	acked := 0
	for ; acked < 1000; acked++ {
		if err = db.Put(fmt.Appendf(nil, "k%04d", acked), bytes.Repeat([]byte{byte(acked)}, 500)); err != nil {
			break
		}
	}
	if !errors.Is(err, bloomkv.ErrReadOnly) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("after %d writes: %v, want ErrReadOnly because the disk is full", acked, err)
	}
	if acked < free/600 { // each takes some 540 bytes
		t.Errorf("full after %d writes, most of a disk of %d bytes should have been used", acked, free)
	}
	read := func(db *bloomkv.DB) {
		t.Helper()
		for i := range acked {
			if v, err := db.Get(fmt.Appendf(nil, "k%04d", i)); err != nil || len(v) != 500 || v[0] != byte(i) {
				t.Fatalf("key %d of %d: %d bytes, %v", i, acked, len(v), err)
			}
		}
	}
	read(db)
	if err := db.Close(); !errors.Is(err, bloomkv.ErrReadOnly) {
		t.Errorf("close: %v", err)
	}
	before, _ := mem.List("db")
	if db, err := bloomkv.Open("db", storetest.Tiny(fsys)); err == nil { // Open may succeed if it needs no space
		read(db)
		_ = db.Close()
	} else if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("open on a full disk: %v", err)
	}
	for _, name := range before {
		if filepath.Ext(name) == ".log" {
			if _, err := mem.Stat(filepath.Join("db", name)); err != nil {
				t.Errorf("open on a full disk: %v", err)
			}
		}
	}
	disk.mu.Lock()
	disk.free = 1 << 30
	disk.mu.Unlock()
	if db, err = bloomkv.Open("db", storetest.Tiny(fsys)); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	read(db)
	if err := db.Put([]byte("more"), nil); err != nil {
		t.Error(err)
	}
}
