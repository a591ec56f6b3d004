package tests

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestACrashDuringACheckpointLeavesTheWholeStoreOrNone crashes by power cut and by process death before each operation.
func TestACrashDuringACheckpointLeavesTheWholeStoreOrNone(t *testing.T) {
	for _, c := range []struct {
		name   string
		copies bool // the file system has no links
		there  bool // the directory exists before
	}{{"of links", false, false}, {"of copies into an empty directory", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfstest.NewMem()
			type state struct {
				fs   *vfstest.Mem
				what string
			}
			var found []state
			var armed atomic.Bool
			var mu sync.Mutex
			crash := func(op string) {
				mu.Lock()
				defer mu.Unlock()
				at := func(kind string) string {
					return fmt.Sprintf("before operation %d (%s), %s", len(found), op, kind)
				}
				found = append(found, state{mem.Kill(), at("process death")},
					state{mem.Crash(vfstest.KeepNothing), at("nothing kept")},
					state{mem.Crash(vfstest.KeepAll), at("all kept")})
				for i := range 6 * *storetest.Long {
					seed, percent := uint64(len(found)), (15+14*i)%100
					found = append(found, state{
						mem.Crash(vfstest.KeepSome(seed, percent)),
						at(fmt.Sprintf("%d %% kept by seed %d", percent, seed)),
					})
				}
			}
			db, want := grown(t, vfstest.NewHook(mem, func(op vfstest.Op) error {
				if armed.Load() && op.Kind.Changes() {
					crash(op.String())
				}
				if c.copies && op.Kind == vfstest.OpLink {
					return errors.ErrUnsupported
				}
				return nil
			}))
			defer db.Close()
			if c.there {
				must(t, errors.Join(mem.Mkdir("copy"), mem.SyncDir(".")))
			}
			must(t, db.Flush(t.Context()))
			storetest.Soon(t, "no background work is left", func() bool {
				return db.Metrics().Settled && db.Metrics().Warm
			})
			armed.Store(true)
			must(t, db.Checkpoint(t.Context(), "copy"))
			armed.Store(false)
			if err := holds(mem.Crash(vfstest.KeepNothing), "copy", want); err != nil {
				t.Errorf("after it: %v", err)
			}
			whole := 0
			for i, s := range found {
				if i%(20/storetest.AtStride(20)) > 0 {
					continue
				}
				there, err := wholeOrNone(s.fs, want)
				if err != nil {
					t.Errorf("%s: %v", s.what, err)
				}
				if there {
					whole++
				}
				if err := holds(s.fs, "db", want); err != nil {
					t.Errorf("%s: the source: %v", s.what, err)
				}
			}
			t.Logf("%d states, %d of them with a checkpoint", len(found), whole)
			if storetest.AtStride(20) == 20 && (whole == 0 || whole > len(found)/2) {
				t.Errorf("%d of %d states have a checkpoint, want a few", whole, len(found))
			}
		})
	}
}

// wholeOrNone opens what a crash left of a checkpoint in each mode: the checkpoint is complete, or it is absent, or
// Open refuses it; and opening does not complete it.
func wholeOrNone(fsys *vfstest.Mem, want map[string]string) (there bool, err error) {
	for _, o := range []bloomkv.Options{{ReadOnly: true}, {ErrorIfMissing: true}} {
		o.FS = fsys.Kill()
		db, err := bloomkv.Open("copy", &o)
		switch {
		case errors.Is(err, fs.ErrNotExist),
			errors.Is(err, bloomkv.ErrCorruption) && strings.Contains(err.Error(), "CURRENT"):
			continue
		case err != nil:
			return false, err
		}
		if err := db.Close(); err != nil {
			return false, err
		}
		return true, holds(fsys, "copy", want)
	}
	// Opening for writing creates an empty store there, or is refused.
	o := storetest.Tiny(fsys)
	db, err := bloomkv.Open("copy", o)
	if errors.Is(err, bloomkv.ErrCorruption) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	got, err := storetest.Contents(db)
	if d := storetest.Diff(got, map[string]string{}); err == nil && d != "" {
		err = errors.New(d)
	}
	return false, errors.Join(err, db.Close())
}

// TestEveryFailedOperationOfACheckpointIsReportedAndLeavesNothing fails each operation in turn, once or permanently,
// with an I/O error or a full disk.
func TestEveryFailedOperationOfACheckpointIsReportedAndLeavesNothing(t *testing.T) {
	source := vfstest.NewMem()
	db, want := grown(t, source)
	must(t, db.Close())
	for _, kind := range []fault{
		{"EIO once", syscall.EIO, 1, anyOp},
		{"EIO from then on", syscall.EIO, forEver, anyOp},
		{"a short write", vfstest.ErrShortWrite, 1, func(k vfstest.OpKind) bool { return k == vfstest.OpWrite }},
		{"a full disk from then on", syscall.ENOSPC, forEver, needsSpace},
	} {
		for _, there := range []bool{false, true} {
			for _, copies := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, directory exists %v, copies %v", kind.name, there, copies), func(t *testing.T) {
					at := int64(0)
					for ; ; at += int64(20 / storetest.AtStride(20)) {
						f := &faulty{fault: kind, first: at}
						done, err := failedCheckpoint(source.Kill(), f, want, there, copies)
						if err != nil {
							t.Fatalf("operation %d: %v", at, err)
						} else if done {
							break
						}
					}
					if at == 0 {
						t.Error("no operation failed")
					}
				})
			}
		}
	}
}

// failedCheckpoint makes a checkpoint under a fault; done is true if the fault did not strike.
func failedCheckpoint(mem *vfstest.Mem, f *faulty, want map[string]string, there, copies bool) (done bool, err error) {
	if there {
		if err := errors.Join(mem.Mkdir("copy"), mem.SyncDir(".")); err != nil {
			return false, err
		}
	}
	var armed atomic.Bool
	db, err := bloomkv.Open("db", storetest.Tiny(vfstest.NewHook(mem, func(op vfstest.Op) error {
		if armed.Load() {
			if err := f.hook(op); err != nil {
				return err
			}
		}
		if copies && op.Kind == vfstest.OpLink {
			return errors.ErrUnsupported
		}
		return nil
	})))
	if err != nil {
		return false, err
	}
	for m := db.Metrics(); !m.Warm || !m.Settled; m = db.Metrics() {
		time.Sleep(time.Millisecond)
	}
	armed.Store(true)
	made := db.Checkpoint(context.Background(), "copy")
	struck := f.struck.Load()
	armed.Store(false)
	got, err := storetest.Contents(db) // the source stays usable
	if err == nil {
		err = db.Put([]byte("more"), []byte("x"))
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return false, fmt.Errorf("%v: the source: %w", f.where.Load(), err)
	}
	if d := storetest.Diff(got, want); d != "" {
		return false, fmt.Errorf("%v: the source: %s", f.where.Load(), d)
	}
	more := maps.Clone(want)
	more["more"] = "x"
	if err := holds(mem, "db", more); err != nil {
		return false, fmt.Errorf("%v: the source: %w", f.where.Load(), err)
	}
	switch {
	case made == nil:
		if err := holds(mem.Crash(vfstest.KeepNothing), "copy", want); err != nil {
			return false, fmt.Errorf("%v: returned nil, but %w", f.where.Load(), err)
		}
	case !struck || !errors.Is(made, f.err) || !strings.Contains(made.Error(), "checkpoint copy: "):
		return false, fmt.Errorf("%v: %w, which does not name the cause and the directory", f.where.Load(), made)
	case f.last == 1 || errors.Is(f.err, syscall.ENOSPC): // the leftovers could be removed
		if left := leftOf(mem, there); left != "" {
			return false, fmt.Errorf("%v: left %s", f.where.Load(), left)
		}
	default:
		for _, found := range []*vfstest.Mem{mem, mem.Crash(vfstest.KeepNothing), mem.Crash(vfstest.KeepAll)} {
			if _, err := wholeOrNone(found, want); err != nil {
				return false, fmt.Errorf("%v: %w", f.where.Load(), err)
			}
		}
	}
	return !struck, nil
}
