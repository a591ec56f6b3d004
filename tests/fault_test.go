package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// Every file operation fails, once or permanently, in each of the ways in which a disk fails. The calls that depend on
// it must report it; nothing panics or hangs, no acknowledged commit is lost, and a failed commit is there completely
// or not at all.

// A fault is a kind of failure and its duration.
type fault struct {
	name string
	err  error
	last int64 // number of consecutive operations that fail
	hits func(vfstest.OpKind) bool
}

func anyOp(vfstest.OpKind) bool { return true }

func needsSpace(k vfstest.OpKind) bool {
	return k == vfstest.OpCreate || k == vfstest.OpWrite || k == vfstest.OpReserve || k == vfstest.OpMkdir ||
		k == vfstest.OpSync
}

const forEver = int64(1) << 60

var faults = []fault{
	{"EIO once", syscall.EIO, 1, anyOp},
	{"EIO five times", syscall.EIO, 5, anyOp},
	{"EIO from then on", syscall.EIO, forEver, anyOp},
	{"a short write", vfstest.ErrShortWrite, 1, func(k vfstest.OpKind) bool { return k == vfstest.OpWrite }},
	{"a short write, and then EIO", vfstest.ErrShortWrite, forEver, vfstest.OpKind.Changes},
	{"a full disk from then on", syscall.ENOSPC, forEver, needsSpace},
	{"a full disk for a while", syscall.ENOSPC, 4, needsSpace},
}

// A faulty file system fails operations first, first+1 … of those that the fault hits.
type faulty struct {
	fault
	first int64

	count  atomic.Int64 // number of operations that the fault may hit
	healed atomic.Bool
	struck atomic.Bool
	memory *bloomkv.Resources // nil for what a store has by default
	where  atomic.Value       // string: the first operation that failed
}

func (f *faulty) hook(op vfstest.Op) error {
	if f.hits == nil || !f.hits(op.Kind) {
		return nil
	}
	n := f.count.Add(1) - 1
	if f.healed.Load() || n < f.first || n >= f.first+f.last {
		return nil
	}
	if f.struck.CompareAndSwap(false, true) {
		f.where.Store(op.String())
	}
	return &fs.PathError{Op: op.Kind.String(), Path: op.Name, Err: f.err}
}

// An uncertain history also records which commits failed: those may be there or not.
type uncertain struct {
	mu      sync.Mutex
	commits []modelWrite
	acked   []bool
	durable []bool

	crashed int     // number of crashes
	left    *images // distinct file systems after them
}

// write applies w and records whether it was acknowledged.
func (u *uncertain) write(db *bloomkv.DB, d bloomkv.Durability, w modelWrite) error {
	u.mu.Lock()
	n := len(u.commits)
	w = append(w, modelOp{key: fmt.Sprintf("c%03d", n), value: "there"})
	u.commits = append(u.commits, w)
	u.acked, u.durable = append(u.acked, false), append(u.durable, false)
	u.mu.Unlock()
	if err := db.ApplyWith(w.batch(), d); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.acked[n] = true
	if d == bloomkv.DurabilitySync {
		u.barrier()
	}
	return nil
}

// barrier records that all acknowledged commits are durable. mu is held.
func (u *uncertain) barrier() { copy(u.durable, u.acked) }

// matches checks contents against the commits: each commit that must be there is there, and no commit is there in part.
func (u *uncertain) matches(got map[string]string, must []bool) error {
	want := map[string]string{}
	for n, w := range u.commits {
		_, there := got[fmt.Sprintf("c%03d", n)]
		if must[n] && !there {
			return fmt.Errorf("commit %d of %d was acknowledged and is lost", n, len(u.commits))
		}
		if there {
			w.apply(want)
		}
	}
	if d := storetest.Diff(got, want); d != "" {
		return errors.New(d)
	}
	return nil
}

// faultScript uses a store whose files fail, and returns an error unless the fault explains it.
func faultScript(u *uncertain, f *faulty, mem *vfstest.Mem, seed uint64) error {
	files := storetest.TrackOpen(mem)
	fsys := vfstest.NewHook(files, f.hook)
	rng := rand.New(rand.NewPCG(seed, 3))
	ctx := context.Background()
	excused := func(what string, err error) error {
		switch {
		case err == nil:
			return nil
		case !f.struck.Load():
			return fmt.Errorf("%s: %w, before any fault", what, err)
		case !errors.Is(err, f.err):
			return fmt.Errorf("%s: %w, which does not name the cause", what, err)
		}
		return nil
	}
	for range 2 {
		o := storetest.Tiny(fsys)
		if f.memory != nil {
			o.MemoryBudget, o.Resources = 0, f.memory
		}
		db, err := bloomkv.Open("db", o)
		if err != nil {
			if err := errors.Join(excused("open", err), files.Left()); err != nil {
				return err
			}
			continue
		}
		var bad error // the first finding
		note := func(what string, err error) {
			if bad == nil {
				bad = excused(what, err)
			}
		}
		now, err := storetest.Contents(db) // what readers must see
		if err != nil {
			note("scan", err)
			note("close", db.Close())
			if bad != nil {
				return bad
			}
			continue
		}
		for i := range 46 {
			d := bloomkv.DurabilitySync + bloomkv.Durability(rng.IntN(2))
			w := modelWrite{
				{key: fmt.Sprintf("k%02d", rng.IntN(20)), value: strings.Repeat("v", rng.IntN(1500))},
				{key: fmt.Sprintf("k%02d", rng.IntN(20)), del: true},
			}
			err := u.write(db, d, w)
			note("write", err)
			if err == nil {
				u.commits[len(u.commits)-1].apply(now)
			} else if v, err := db.Get(fmt.Appendf(nil, "c%03d", len(u.commits)-1)); err == nil {
				return fmt.Errorf("a failed write is visible: %q", v)
			}
			k := fmt.Sprintf("k%02d", rng.IntN(20))
			want, there := now[k]
			switch v, err := db.Get([]byte(k)); {
			case err == nil && (!there || string(v) != want):
				return fmt.Errorf("get %s: %.20q, want %.20q (there: %v)", k, v, want, there)
			case errors.Is(err, bloomkv.ErrNotFound):
				if there {
					return fmt.Errorf("get %s: not found, want %.20q", k, want)
				}
			default:
				note("get", err)
			}
			switch i {
			case 15, 35:
				err := db.Flush(ctx)
				note("flush", err)
				if err == nil {
					u.barrier()
				}
			case 38:
				note("compact", db.Compact(ctx, bloomkv.CompactOptions{}))
			case 20, 44:
				got, err := storetest.Contents(db)
				note("scan", err)
				if d := storetest.Diff(got, now); err == nil && d != "" {
					return fmt.Errorf("scan: %s", d)
				}
			}
		}
		_ = db.Sync() // if it fails, the store takes no more writes
		if err := db.Sync(); err != nil && !errors.Is(err, bloomkv.ErrReadOnly) {
			return fmt.Errorf("writes fail for ever, but not as read-only: %w", err)
		}
		if f.struck.Load() { // otherwise this run is like one without faults, as many are
			if err := u.crashes(mem, f); err != nil {
				return errors.Join(err, db.Close())
			}
		}
		if err := db.Close(); err == nil {
			u.barrier()
		} else {
			note("close", err)
		}
		if err := errors.Join(bad, files.Left()); err != nil {
			return err
		}
	}
	return nil
}

// TestEveryFailedFileOperationIsSurvivedAndReported fails each operation in turn.
func TestEveryFailedFileOperationIsSurvivedAndReported(t *testing.T) {
	for i, kind := range faults {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			failEach(t, kind, i%storetest.Stride(), nil)
		})
	}
	t.Run("EIO once while filters are asked in their files", func(t *testing.T) {
		t.Parallel()
		reads := fault{"EIO of a read", syscall.EIO, 1, func(k vfstest.OpKind) bool { return k == vfstest.OpReadAt }}
		failEach(t, reads, 0, littleMemory(t, 0))
	})
}

// failEach fails each operation that the fault hits, from a first one on, in a store with the given memory, nil for its
// own. The last one is that of a run without faults.
func failEach(t *testing.T, kind fault, first int, memory *bloomkv.Resources) {
	t.Helper()
	left := new(images)
	var crashes atomic.Int64
	run := func(at int64) *faulty {
		f := &faulty{fault: kind, first: at, memory: memory}
		u := &uncertain{left: left}
		what := fmt.Sprintf("%s at operation %d", kind.name, at)
		testkit.Within(t, what, func() {
			if err := survives(u, f, vfstest.NewMem()); err != nil {
				t.Errorf("%s (%v): %v", what, f.where.Load(), err)
			}
		})
		crashes.Add(int64(u.crashed))
		storetest.Progress.Add(1)
		return f
	}
	end, stride := run(forEver).count.Load(), int64(storetest.Stride())
	var next, missed atomic.Int64
	var wg sync.WaitGroup
	for range 24 { // the store mostly waits between attempts
		wg.Go(func() {
			for !t.Failed() {
				at := int64(first) + (next.Add(1)-1)*stride
				if at >= end {
					return
				}
				if !run(at).struck.Load() { // this run had fewer operations
					missed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	places := (end - int64(first) + stride - 1) / stride
	if places < 1 || missed.Load() > 2+places/10 {
		t.Errorf("%d of %d faults did not strike", missed.Load(), places)
	}
	t.Logf("faults at %d of %d operations, %d crashes, which left %d images", places, end, crashes.Load(), left.len())
}

// survives runs the script, repairs the disk, and checks the contents.
func survives(u *uncertain, f *faulty, mem *vfstest.Mem) error {
	if err := faultScript(u, f, mem, 1); err != nil {
		return err
	}
	if err := u.crashes(mem, f); err != nil {
		return fmt.Errorf("closed: %w", err)
	}
	return nil
}

// crashes opens the store as a process death or a power cut would leave it now, on a repaired disk.
func (u *uncertain) crashes(mem *vfstest.Mem, f *faulty) error {
	for _, after := range []struct {
		name string
		fs   *vfstest.Mem
		must []bool
	}{
		{"a power cut", mem.Crash(vfstest.KeepNothing), u.durable},
		{"a power cut that kept half", mem.Crash(vfstest.KeepSome(uint64(f.first), 50)), u.durable},
		{"the process's death", mem.Kill(), u.acked},
	} {
		u.crashed++
		found := u.left.of(after.fs).recovered(heal)
		if found.err == nil {
			found.err = u.matches(found.contents, after.must)
		}
		if found.err != nil {
			return fmt.Errorf("after %s: %w", after.name, found.err)
		}
	}
	return nil
}

// heal recovers a store, reads it, and uses it further.
func heal(mem *vfstest.Mem) (f finding) {
	db, err := bloomkv.Open("db", storetest.Tiny(mem))
	if err != nil {
		return finding{err: err}
	}
	if f.contents, err = storetest.Contents(db); err == nil {
		err = db.Put([]byte("healed"), nil)
	}
	if f.err = errors.Join(err, db.Close()); f.err == nil {
		_, f.err = bloomkv.Check(context.Background(), "db", bloomkv.CheckOptions{FS: mem})
	}
	return f
}

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
			db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewHook(mem, func(op vfstest.Op) error {
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
			put := func(k string, d bloomkv.Durability) error {
				return db.ApplyWith(modelWrite{{key: k, value: strings.Repeat(k, 1000)}}.batch(), d)
			}
			must(t, put("before", bloomkv.DurabilitySync))
			armed.Store(true)
			err := put("during", bloomkv.DurabilitySync)
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
			db = storetest.Open(t, "db", storetest.Tiny(mem.Crash(vfstest.KeepNothing)))
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
	db = storetest.Open(t, "db", storetest.Tiny(fsys))
	defer db.Close()
	read(db)
	if err := db.Put([]byte("more"), nil); err != nil {
		t.Error(err)
	}
}
