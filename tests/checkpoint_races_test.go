package tests

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// isOfCopy reports whether op is on a checkpoint's files.
func isOfCopy(op vfstest.Op) bool {
	return strings.HasPrefix(op.Name, "copy") || strings.HasPrefix(op.To, "copy")
}

// TestOfTwoWhoMakeAStoreInADirectoryOneDoes lets a competitor act before each operation of a checkpoint.
func TestOfTwoWhoMakeAStoreInADirectoryOneDoes(t *testing.T) {
	testkit.Long(t)
	mem := vfstest.NewMem()
	db, want := grown(t, mem)
	must(t, db.Close())
	for name, other := range map[string]func(db *bloomkv.DB, mem *vfstest.Mem) error{
		"Open": func(_ *bloomkv.DB, mem *vfstest.Mem) error {
			o := storetest.Tiny(mem)
			o.ErrorIfExists = true
			other, err := bloomkv.Open("copy", o)
			if err == nil {
				err = errors.Join(other.Put([]byte("other"), []byte("x")), other.Close())
			}
			return err
		},
		"Checkpoint": func(db *bloomkv.DB, _ *vfstest.Mem) error { return db.Checkpoint(context.Background(), "copy") },
	} {
		t.Run(name, func(t *testing.T) {
			both := 0
			for at := 0; ; at++ {
				mem := mem.Kill()
				var armed, inside bool
				var db *bloomkv.DB
				op := 0
				var otherErr error
				db = storetest.Open(t, "db", storetest.Tiny(vfstest.NewHook(mem, func(o vfstest.Op) error {
					if isOfCopy(o) && armed && !inside { // not in the competitor's own operations
						if op++; op == at+1 {
							inside = true
							otherErr = other(db, mem)
						}
					}
					return nil
				})))
				storetest.Settle(t, db)
				armed = true
				err := db.Checkpoint(t.Context(), "copy")
				armed = false
				if op <= at {
					must(t, db.Close())
					break
				}
				content := want
				if name == "Open" && otherErr == nil {
					content = map[string]string{"other": "x"}
				}
				if (err == nil) == (otherErr == nil) {
					t.Errorf("at operation %d: %v and %v, want one of them", at, err, otherErr)
				}
				for _, err := range []error{err, otherErr} {
					if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, bloomkv.ErrLocked) {
						t.Errorf("at operation %d: %v, want fs.ErrExist or ErrLocked", at, err)
					}
				}
				must(t, db.Close())
				if err := holds(mem, "copy", content); err != nil {
					t.Errorf("at operation %d: %v", at, err)
				}
				both++
			}
			if both < 10 {
				t.Errorf("the competitor acted at only %d operations", both)
			}
		})
	}
}

// TestACheckpointThatIsInterruptedLeavesNothing ends the context, or closes the store, at each operation.
func TestACheckpointThatIsInterruptedLeavesNothing(t *testing.T) {
	for _, c := range []struct {
		name        string
		copies      bool // the file system has no links
		there       bool // the directory exists before
		keepsOpen   bool // files cannot be removed while they are locked
		interrupted error
	}{
		{"by its context", false, false, false, context.Canceled},
		{"by its context, while copying into an existing directory", true, true, false, context.Canceled},
		{"by its context, where locked files cannot be removed", false, true, true, context.Canceled},
		{"by Close", false, true, false, bloomkv.ErrClosed},
		{"by Close, while copying", true, false, false, bloomkv.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			interrupted := 0
			for at, ended := 1, false; !ended; at += 20 / storetest.AtStride(20) {
				mem := vfstest.NewMem()
				ctx, cancel := context.WithCancel(t.Context())
				closed := make(chan error, 1)
				var db *bloomkv.DB
				var armed, over atomic.Bool
				op, locked := 0, false
				db, want := grown(t, vfstest.NewHook(mem, func(o vfstest.Op) error {
					if o.Name == filepath.Join("copy", filename.LockName) {
						locked = o.Kind == vfstest.OpLock || locked && o.Kind != vfstest.OpClose
						if locked && c.keepsOpen && o.Kind == vfstest.OpRemove {
							return fs.ErrPermission
						}
					}
					if isOfCopy(o) && armed.Load() {
						if op++; op == at {
							cancel()
							if errors.Is(c.interrupted, bloomkv.ErrClosed) {
								go func() {
									err := db.Close()
									over.Store(true)
									closed <- err
								}()
								for !storetest.Running(storetest.WaitForCalls) {
									time.Sleep(time.Millisecond)
								}
								time.Sleep(5 * time.Millisecond) // another goroutine ends the context of the call
							}
						}
						if over.Load() {
							t.Errorf("at operation %d: %v after Close", at, o)
						}
					}
					if c.copies && o.Kind == vfstest.OpLink {
						return errors.ErrUnsupported
					}
					return nil
				}))
				if c.there {
					must(t, mem.Mkdir("copy"))
				}
				armed.Store(true)
				var err error
				testkit.Within(t, "the checkpoint", func() {
					if errors.Is(c.interrupted, bloomkv.ErrClosed) {
						err = db.Checkpoint(context.Background(), "copy")
					} else {
						err = db.Checkpoint(ctx, "copy")
					}
				})
				ended = op < at
				cancel()
				if errors.Is(c.interrupted, bloomkv.ErrClosed) && !ended {
					if err != nil && err != bloomkv.ErrClosed { //nolint:errorlint // documented as returned unwrapped
						t.Errorf("at operation %d: %v, want ErrClosed, unwrapped", at, err)
					}
					if err := <-closed; err != nil {
						t.Error(err)
					}
				} else if err := db.Close(); err != nil {
					t.Error(err)
				}
				if err == nil {
					if err := holds(mem, "copy", want); err != nil { // it finished before it noticed
						t.Errorf("at operation %d: no error, and %v", at, err)
					}
					continue
				}
				interrupted++
				if !errors.Is(err, c.interrupted) {
					t.Errorf("at operation %d: %v, want %v", at, err, c.interrupted)
				}
				if left := leftOf(mem, c.there); left != "" {
					t.Errorf("at operation %d: left %s", at, left)
				}
			}
			if interrupted == 0 {
				t.Error("the checkpoint was never interrupted")
			}
		})
	}
}

// TestACheckpointReportsWhatItCannotRemove ends the context, and lets no file be removed.
func TestACheckpointReportsWhatItCannotRemove(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stuck := errors.New("stuck")
	var logged strings.Builder
	o := storetest.Tiny(vfstest.NewHook(vfstest.NewMem(), func(o vfstest.Op) error {
		if isOfCopy(o) && o.Kind == vfstest.OpLink {
			cancel()
		}
		if isOfCopy(o) && o.Kind == vfstest.OpRemove {
			return stuck
		}
		return nil
	}))
	o.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	db := storetest.Open(t, "db", o)
	must(t, db.Put([]byte("key"), nil))
	if err := db.Checkpoint(ctx, "copy"); !errors.Is(err, context.Canceled) || !errors.Is(err, stuck) ||
		!strings.HasPrefix(err.Error(), "bloomkv: checkpoint copy: ") {
		t.Errorf("got %v, want that it was canceled, and that files stay", err)
	}
	must(t, db.Close())
	if text := logged.String(); strings.Contains(text, "checkpoint made") || !strings.Contains(text, "closed") {
		t.Errorf("logged a checkpoint that was not made:\n%s", text)
	}
}

// leftOf describes what a failed checkpoint left, also after a power cut; "" for nothing.
func leftOf(mem *vfstest.Mem, there bool) string {
	for _, fsys := range []*vfstest.Mem{mem, mem.Crash(vfstest.KeepNothing), mem.Crash(vfstest.KeepAll)} {
		names, err := fsys.List("copy")
		if there && (err != nil || len(names) > 0) || !there && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprintf("%q, %v; there before: %v", names, err, there)
		}
	}
	return ""
}

// TestACheckpointBesideWritersAndCompactions checks that a checkpoint holds all commits that returned before it began,
// and a prefix of the others.
func TestACheckpointBesideWritersAndCompactions(t *testing.T) {
	const writers, checkpoints = 3, 6
	var hs [writers]*history
	var clock atomic.Int64
	for i := range hs {
		hs[i] = &history{prefix: fmt.Sprintf("w%d/", i), clock: &clock}
	}
	mem := vfstest.NewMem()
	db := storetest.Open(t, "db", storetest.Tiny(mem))
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i, h := range hs {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(36, uint64(i)))
			for {
				select {
				case <-stop:
					return
				default:
				}
				var w modelWrite
				for range 1 + rng.IntN(4) {
					k := fmt.Sprintf("%s%02d", h.prefix, rng.IntN(20))
					w = append(w, modelOp{
						key: k, del: rng.IntN(5) == 0,
						value: strings.Repeat(string(rune('a'+rng.IntN(26))), rng.IntN(700)),
					})
				}
				if err := h.write(db, bloomkv.DurabilitySync+bloomkv.Durability(rng.IntN(2)), w); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				if err := db.Compact(t.Context(), bloomkv.CompactOptions{}); err != nil {
					t.Error(err)
				}
			}
		}
	})
	var low, high [checkpoints][writers]int64
	for n := range checkpoints {
		for i, h := range hs {
			low[n][i] = h.acked.Load()
		}
		if err := db.Checkpoint(t.Context(), fmt.Sprint("copy", n)); err != nil {
			t.Error(err)
		}
		for i, h := range hs {
			high[n][i] = h.started.Load()
		}
		time.Sleep(5 * time.Millisecond)
	}
	close(stop)
	wg.Wait()
	must(t, db.Close())
	lost := mem.Crash(vfstest.KeepNothing)
	for n := range checkpoints {
		dir := fmt.Sprint("copy", n)
		if _, err := bloomkv.Check(t.Context(), dir, bloomkv.CheckOptions{FS: lost}); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
		o := storetest.Tiny(lost)
		o.ErrorIfMissing = true
		db := storetest.Open(t, dir, o)
		got, err := storetest.Contents(db)
		if err = errors.Join(err, db.Close()); err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		var last, first int64 = 0, 1 << 62 // latest begin of a commit that is there; earliest end of one that is not
		for i, h := range hs {
			own := maps.Clone(got)
			maps.DeleteFunc(own, func(k, _ string) bool { return !strings.HasPrefix(k, h.prefix) })
			k, err := prefixOf(own, h.all(), h.prefix, low[n][i], high[n][i])
			if err != nil {
				t.Fatalf("%s: writer %d: %v", dir, i, err)
			}
			if k > 0 {
				last = max(last, h.spans[k-1][0])
			}
			if int(k) < len(h.spans) {
				first = min(first, h.spans[k][1])
			}
		}
		if first < last {
			t.Errorf("%s: a commit that began at %d is there, but one that ended at %d is not", dir, last, first)
		}
	}
}

// TestACrashDuringACheckpointLeavesTheWholeStoreOrNone crashes by power cut and by process death before each operation.
func TestACrashDuringACheckpointLeavesTheWholeStoreOrNone(t *testing.T) {
	testkit.Long(t)
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
			storetest.Settle(t, db)
			armed.Store(true)
			must(t, db.Checkpoint(t.Context(), "copy"))
			armed.Store(false)
			if err := holds(mem.Crash(vfstest.KeepNothing), "copy", want); err != nil {
				t.Errorf("after it: %v", err)
			}
			whole := 0
			for _, s := range found {
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
			if whole == 0 || whole > len(found)/2 {
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

// TestCheckpointReportsFailuresAndLeavesNothing fails each operation in turn, once or permanently,
// with an I/O error or a full disk.
func TestCheckpointReportsFailuresAndLeavesNothing(t *testing.T) {
	testkit.Long(t)
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
					for ; ; at++ {
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
	for !db.Metrics().Settled {
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
