package tests

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// isOfCopy reports whether op is on a checkpoint's files.
func isOfCopy(op vfstest.Op) bool {
	return strings.HasPrefix(op.Name, "copy") || strings.HasPrefix(op.To, "copy")
}

// TestOfTwoWhoMakeAStoreInADirectoryOneDoes lets a competitor act before each operation of a checkpoint.
func TestOfTwoWhoMakeAStoreInADirectoryOneDoes(t *testing.T) {
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
				db, err := bloomkv.Open("db", storetest.Tiny(vfstest.NewHook(mem, func(o vfstest.Op) error {
					if isOfCopy(o) && armed && !inside { // not in the competitor's own operations
						if op++; op == at+1 {
							inside = true
							otherErr = other(db, mem)
						}
					}
					return nil
				})))
				must(t, err)
				storetest.Soon(t, "it is warm", func() bool { return db.Metrics().Warm && db.Metrics().Settled })
				armed = true
				err = db.Checkpoint(t.Context(), "copy")
				armed = false
				if op <= at {
					if err := db.Close(); err != nil {
						t.Error(err)
					}
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
				if err := db.Close(); err != nil {
					t.Error(err)
				}
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
			for at, ended := 1, false; !ended; at += max(1, 5/storetest.AtStride(5)) {
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
				storetest.Within(t, 20*time.Second, "the checkpoint", func() {
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
	db, err := bloomkv.Open("db", storetest.Tiny(mem))
	must(t, err)
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
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	lost := mem.Crash(vfstest.KeepNothing)
	for n := range checkpoints {
		dir := fmt.Sprint("copy", n)
		if _, err := bloomkv.Check(t.Context(), dir, bloomkv.CheckOptions{FS: lost}); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
		o := storetest.Tiny(lost)
		o.ErrorIfMissing = true
		db, err := bloomkv.Open(dir, o)
		must(t, err)
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
