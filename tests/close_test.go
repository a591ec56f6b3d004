package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestCloseBesideEveryOtherCall closes a store in use: concurrent calls succeed or return ErrClosed, and no goroutine
// or file of the store outlives it.
func TestCloseBesideEveryOtherCall(t *testing.T) {
	rounds := 8
	if testing.Short() {
		rounds = 4
	}
	var flushes, compactions uint64 // before Close
	begun, during := int64(0), int64(0)
	for round := range rounds {
		var fsys vfs.FS = vfstest.NewMem()
		dir := "db"
		if round%8 == 0 {
			fsys, dir = vfs.OS, filepath.Join(t.TempDir(), "db")
		}
		o := storetest.Tiny(fsys)
		o.MaxOpenFiles = 8
		db := storetest.Open(t, dir, o)
		var wg sync.WaitGroup
		// In a rush, a few callers keep the processors busy, so that Close takes long and most calls arrive while it
		// waits. Otherwise all yield in turn, and Close meets flushes and compactions under way.
		rush := round%4 == 1
		var calls atomic.Int64
		begin := make(chan struct{})
		call := func(what string, f func(rng *rand.Rand) error) {
			for g := range 2 {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(round), uint64(g)))
					<-begin
					for {
						calls.Add(1)
						if !rush {
							runtime.Gosched()
						}
						switch err := f(rng); {
						case errors.Is(err, bloomkv.ErrClosed):
							if !errors.Is(db.Sync(), bloomkv.ErrClosed) {
								t.Errorf("%s: ErrClosed, but the store is open", what)
							}
							return
						case err != nil && !errors.Is(err, bloomkv.ErrNotFound):
							t.Errorf("%s: %v", what, err)
							return
						}
					}
				})
			}
		}
		key := func(rng *rand.Rand) []byte { return fmt.Appendf(nil, "k%03d", rng.IntN(500)) }
		ctx := t.Context()
		call("put", func(rng *rand.Rand) error { return db.Put(key(rng), make([]byte, rng.IntN(500))) })
		call("apply", func(rng *rand.Rand) error {
			var b bloomkv.Batch
			for range 20 {
				b.Put(key(rng), make([]byte, rng.IntN(200)))
				b.Delete(key(rng))
			}
			return db.ApplyWith(&b, bloomkv.DurabilityNoSync)
		})
		call("get", func(rng *rand.Rand) error {
			if _, err := db.Get(key(rng)); err != nil && !errors.Is(err, bloomkv.ErrNotFound) {
				return err
			}
			_, err := db.AppendGet(nil, key(rng))
			return err
		})
		call("has", func(rng *rand.Rand) error { _, err := db.Has(key(rng)); return err })
		call("scan", func(rng *rand.Rand) error {
			for _, err := range db.Scan(bloomkv.IterOptions{Lower: key(rng)}) {
				if err != nil {
					return err
				}
			}
			return nil
		})
		call("delete", func(rng *rand.Rand) error {
			if rng.IntN(4) > 0 {
				return db.Delete(key(rng))
			}
			lo := key(rng)
			return db.DeleteRange(bloomkv.KeyRange{Lower: lo, Upper: append(lo, '0')})
		})
		call("conditional writes", func(rng *rand.Rand) error {
			k := key(rng)
			if _, err := db.PutIfAbsent(k, k); err != nil {
				return err
			}
			if _, err := db.CompareAndSwap(k, nil, k); err != nil {
				return err
			}
			_, err := db.CompareAndDelete(k, k)
			return err
		})
		call("view and trace", func(rng *rand.Rand) error {
			k := key(rng)
			_ = db.MayContain(k)
			err := db.View(k, func(v []byte) error { _ = string(v); return nil })
			if err == nil {
				_, _, err = db.GetTraced(k)
			}
			return err
		})
		call("get many", func(rng *rand.Rand) error {
			keys := make([][]byte, 80)
			for i := range keys {
				keys[i] = key(rng)
			}
			return db.GetMany(keys, func(_ int, v []byte, _ bool) error { _ = string(v); return nil })
		})
		call("snapshot", func(rng *rand.Rand) error {
			snap, err := db.Snapshot()
			if err != nil {
				return err
			}
			for range 20 {
				if _, err := snap.Get(key(rng)); err != nil && !errors.Is(err, bloomkv.ErrNotFound) {
					return errors.Join(err, snap.Close())
				}
			}
			for _, err := range snap.Scan(bloomkv.IterOptions{Lower: key(rng)}) {
				if err != nil {
					return errors.Join(err, snap.Close())
				}
			}
			return snap.Close()
		})
		call("iterate", func(rng *rand.Rand) error {
			it := db.Iter(bloomkv.IterOptions{Prefix: []byte("k")})
			for ok := it.SeekGE(key(rng)); ok; {
				_ = string(it.Key()) + string(it.Value())
				switch rng.IntN(8) {
				case 0:
					ok = it.SeekLT(key(rng))
				case 1, 2, 3:
					ok = it.Prev()
				case 4:
					ok = false
				default:
					ok = it.Next()
				}
			}
			return it.Close()
		})
		call("ingest", func(rng *rand.Rand) error {
			time.Sleep(2 * time.Millisecond)
			return db.Ingest(ctx, func(yield func(bloomkv.KV, error) bool) {
				for i := rng.IntN(50); i < 500; i += 1 + rng.IntN(50) {
					if !yield(bloomkv.KV{Key: fmt.Appendf(nil, "k%03d", i), Value: make([]byte, 20)}, nil) {
						return
					}
				}
			}, bloomkv.IngestOptions{})
		})
		var copies atomic.Int64
		call("checkpoint", func(*rand.Rand) error {
			time.Sleep(3 * time.Millisecond)
			return db.Checkpoint(ctx, fmt.Sprint(dir, "-copy", copies.Add(1)))
		})
		call("check and size", func(rng *rand.Rand) error {
			if _, err := db.ApproximateSize(bloomkv.KeyRange{Lower: key(rng)}); err != nil {
				return err
			}
			_, err := db.Check(ctx, bloomkv.CheckOptions{})
			return err
		})
		call("sync", func(*rand.Rand) error { time.Sleep(time.Millisecond); return db.Sync() })
		call("flush", func(*rand.Rand) error { time.Sleep(time.Millisecond); return db.Flush(ctx) })
		call("compact", func(*rand.Rand) error {
			time.Sleep(2 * time.Millisecond)
			return db.Compact(ctx, bloomkv.CompactOptions{})
		})
		call("checkpoint", func(rng *rand.Rand) error {
			time.Sleep(2 * time.Millisecond)
			return db.Checkpoint(ctx, fmt.Sprint(dir, rng.Uint64()))
		})
		call("cancelled flush", func(*rand.Rand) error {
			short, cancel := context.WithTimeout(ctx, 100*time.Microsecond)
			defer cancel()
			if err := db.Flush(short); !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			return nil
		})
		call("metrics", func(*rand.Rand) error { _ = db.Metrics().String(); return closedErr(db) })
		close(begin)
		for !rush && calls.Load() < int64(round%20)*400 {
			time.Sleep(100 * time.Microsecond)
		}
		m := db.Metrics().Writes
		flushes, compactions = flushes+m.Flushes, compactions+m.Compactions
		before := calls.Load()
		var closed []error
		var mu sync.Mutex
		for range 3 {
			wg.Go(func() {
				err := db.Close()
				mu.Lock()
				defer mu.Unlock()
				closed = append(closed, err)
			})
		}
		testkit.Within(t, "closing", wg.Wait)
		storetest.Progress.Add(1)
		begun, during = begun+before, during+calls.Load()-before
		nils := 0
		for _, err := range closed {
			if err == nil {
				nils++
			} else if !errors.Is(err, bloomkv.ErrClosed) {
				t.Errorf("close: %v", err)
			}
		}
		if nils != 1 {
			t.Errorf("three calls of Close: %v, want one nil and two ErrClosed", closed)
		}
		if left := storetest.LeakedGoroutines(testkit.Patience); left != "" {
			t.Fatalf("goroutines outlive Close:\n%s", left)
		}
		stores, err := fsys.List(filepath.Dir(dir)) // and its checkpoints, which must be complete
		must(t, err)
		for _, name := range stores {
			copied := filepath.Join(filepath.Dir(dir), name)
			if _, err := bloomkv.Check(ctx, copied, bloomkv.CheckOptions{FS: o.FS}); err != nil {
				t.Fatalf("check: %v", err)
			}
		}
	}
	t.Logf("%d rounds: %d calls, %d flushes and %d compactions before Close, %d calls concurrent with it",
		rounds, begun, flushes, compactions, during)
	if flushes == 0 || compactions == 0 {
		t.Errorf("%d flushes and %d compactions before Close, want some", flushes, compactions)
	}
}

func closedErr(db *bloomkv.DB) error {
	if db.Tables() == nil {
		return bloomkv.ErrClosed
	}
	return nil
}

// TestAScanThatCloseOvertakesStopsWithErrClosed checks that the current key and value stay readable, wherever they are
// stored.
func TestAScanThatCloseOvertakesStopsWithErrClosed(t *testing.T) {
	for _, where := range []string{"memtable", "tables"} {
		db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewMem()))
		for i := range 300 {
			key, value := fmt.Sprintf("k%03d", i), strings.Repeat(strconv.Itoa(i%10), 20)
			must(t, storetest.PutWith(db, bloomkv.DurabilityNoSync, []byte(key), []byte(value)))
		}
		if where == "tables" {
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		}
		steps := 0
		for kv, err := range db.Scan(bloomkv.IterOptions{}) {
			if steps++; steps == 100 {
				testkit.Within(t, "Close inside a scan", func() {
					if err := db.Close(); err != nil {
						t.Error(err)
					}
				})
				runtime.GC()
				if string(kv.Key) != "k099" || string(kv.Value) != strings.Repeat("9", 20) {
					t.Errorf("%s: after Close the scan is at %q = %q", where, kv.Key, kv.Value)
				}
			}
			if (err != nil) != (steps == 101) || err != nil && !errors.Is(err, bloomkv.ErrClosed) {
				t.Errorf("%s: step %d: %v, want ErrClosed at step 101", where, steps, err)
			}
		}
		if steps != 101 {
			t.Errorf("%s: the scan made %d steps, want 101", where, steps)
		}
		if err := db.Close(); !errors.Is(err, bloomkv.ErrClosed) {
			t.Errorf("%s: second Close: %v", where, err)
		}
	}
}

// TestNoDescriptorOutlivesClose counts descriptors, with fewer allowed than there are tables, and with unfinished
// scans.
func TestNoDescriptorOutlivesClose(t *testing.T) {
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("no /proc/self/fd")
		}
		return len(fds)
	}
	before := count()
	o := storetest.Tiny(vfs.OS)
	o.MaxOpenFiles = 8
	o.Durability, o.Compression = bloomkv.DurabilityNoSync, bloomkv.CompressionNone
	dir := filepath.Join(t.TempDir(), "db")
	for range 3 {
		db := storetest.Open(t, dir, o)
		for i := range 3000 {
			must(t, db.Put(fmt.Appendf(nil, "k%05d", i*7919%3000),
				[]byte(strings.Repeat(strconv.Itoa(i), 50))))
		}
		must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		for i := range 3000 {
			if _, err := db.Get(fmt.Appendf(nil, "k%05d", i)); err != nil {
				t.Fatal(err)
			}
		}
		tables := 0
		for _, l := range db.Metrics().Levels {
			tables += l.Tables
		}
		// Further descriptors are those of the lock, the log, the manifest, and of a running flush.
		if open := db.Metrics().Files.Open; tables <= o.MaxOpenFiles || open > o.MaxOpenFiles {
			t.Errorf("%d tables, %d of them open, want at most %d", tables, open, o.MaxOpenFiles)
		}
		testkit.Soon(t, "what was evicted is closed", func() bool { return count() <= before+o.MaxOpenFiles+6 })
		for _, err := range db.Scan(bloomkv.IterOptions{}) {
			if err != nil {
				t.Error(err)
			}
			break
		}
		must(t, db.Close())
		if _, err := bloomkv.Open(filepath.Join(dir, "CURRENT", "store"), o); err == nil {
			t.Error("a store below a file was opened")
		}
		bad := storetest.Tiny(vfs.OS)
		bad.ErrorIfMissing = true
		if _, err := bloomkv.Open(t.TempDir(), bad); err == nil {
			t.Error("ErrorIfMissing made a store")
		}
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// TestASecondCloseWaitsForTheFirst holds the first Close back before it gives up the lock: whoever has closed a store,
// first or not, can open it again.
func TestASecondCloseWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfstest.NewMem()
		begun, goOn := make(chan bool), make(chan bool)
		db, err := bloomkv.Open("db", &bloomkv.Options{FS: vfstest.NewHook(mem, func(op vfstest.Op) error {
			if op.Kind == vfstest.OpClose && filepath.Base(op.Name) == "LOCK" {
				begun <- true
				<-goOn
			}
			return nil
		})})
		must(t, err)
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- db.Close() }()
		<-begun
		go func() { second <- db.Close() }()
		synctest.Wait()
		select {
		case err := <-second:
			t.Errorf("a second Close returned %v before the first", err)
		default:
		}
		goOn <- true
		must(t, <-first)
		if err := <-second; !errors.Is(err, bloomkv.ErrClosed) {
			t.Errorf("a second Close: %v, want %v", err, bloomkv.ErrClosed)
		}
		db = storetest.Open(t, "db", &bloomkv.Options{FS: mem})
		must(t, db.Close())
	})
}
