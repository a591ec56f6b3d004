package bloomkv_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func TestWritersThatWaitShareOneSync(t *testing.T) {
	fs := vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSync && strings.HasSuffix(op.Name, ".log") {
			time.Sleep(time.Millisecond) // like a disk
		}
		return nil
	})
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: fs})
	must(t, err)
	const writers, each = 16, 25
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := db.Put(fmt.Appendf(nil, "%d/%d", w, i), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	m := db.Metrics().Writes
	if m.Operations != writers*each || m.LogSyncs > writers*each/4 || m.Groups != m.LogSyncs {
		t.Errorf("%d writes in %d groups with %d syncs, want %d in at most %d groups, one sync per group",
			m.Operations, m.Groups, m.LogSyncs, writers*each, writers*each/4)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func TestANewMemtableStallsNoWriterForTheSyncOfTheOldLog(t *testing.T) {
	fs, open := storetest.Gated(vfstest.NewMem(), func(op vfstest.Op) bool {
		return op.Kind == vfstest.OpSync && storetest.Inside(storetest.SyncOldLog)
	})
	opts := storetest.Small(fs)
	opts.Durability = bloomkv.DurabilityNoSync
	db, err := bloomkv.Open("db", opts)
	must(t, err)
	value := make([]byte, 1000)
	rotated := func() bool {
		return db.Metrics().Writes.Flushes > 0 || db.Tree().View().Flushing.Mem != nil
	}
	n := 0
	for ; !rotated(); n++ {
		must(t, db.Put(fmt.Appendf(nil, "%06d", n), value))
	}
	// The old log's sync blocks. unsynced writes continue in the new log; a synced write there waits for the old one.
	must(t, db.Put([]byte("after"), nil))
	done := make(chan error, 1)
	go func() {
		var b bloomkv.Batch
		b.Put([]byte("durable"), nil)
		done <- db.ApplyWith(&b, bloomkv.DurabilitySync)
	}()
	storetest.Soon(t, "the Sync write has its own log synced", func() bool { return db.Writer().Counts().LogSyncs > 0 })
	select {
	case err := <-done:
		t.Fatalf("a Sync write was acknowledged (%v) before the older log was durable", err)
	case <-time.After(20 * time.Millisecond):
	}
	if _, err := db.Get([]byte("after")); err != nil {
		t.Errorf("an unsynced write in the new log: %v", err)
	}
	open()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func TestWritersSlowDownBeforeTheyStopAndGoOnWhenCompactionDoes(t *testing.T) {
	fs, open := storetest.Gated(vfstest.NewMem(), func(op vfstest.Op) bool {
		return op.Kind == vfstest.OpCreate && storetest.Inside(storetest.CompactLoop)
	})
	opts := storetest.Small(fs)
	opts.Durability = bloomkv.DurabilityNoSync
	db, err := bloomkv.Open("db", opts)
	must(t, err)
	done := make(chan error, 1)
	const n = 1500
	go func() {
		value := make([]byte, 1000)
		for i := range n {
			if err := db.Put(fmt.Appendf(nil, "%06d", i*7919%n), value); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	// View locks the tree: a writer that waited for the last flush was woken before, and waits then for level 0.
	level0 := func() int { return len(db.Tree().View().State.Version.Levels[0]) }
	storetest.Soon(t, "level 0 is full", func() bool { return level0() >= bloomkv.StopRuns })
	if db.Metrics().Writes.SlowedByLevel0.Duration == 0 {
		t.Error("writers were stopped without being slowed first")
	}
	storetest.Soon(t, "writers are stopped", func() bool { return len(done) > 0 || storetest.WritesStopped() })
	if len(done) > 0 {
		t.Fatalf("all keys were written (%v) although compaction is blocked", <-done)
	}
	if got := level0(); got > bloomkv.StopRuns {
		t.Errorf("%d runs in level 0, want at most %d", got, bloomkv.StopRuns)
	}
	open()
	must(t, <-done)
	m := db.Metrics()
	if w := m.Writes; w.StoppedByLevel0.Count == 0 || w.StoppedByLevel0.Duration == 0 ||
		w.SlowedByLevel0.Count == 0 || w.SlowedByLevel0.Duration == 0 {
		t.Errorf("slowed %v, stopped %v, want both to be counted", w.SlowedByLevel0, w.StoppedByLevel0)
	}
	for i := range n {
		if ok, err := db.Has(fmt.Appendf(nil, "%06d", i)); !ok || err != nil {
			t.Fatalf("key %d: %v, %v", i, ok, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func TestABatchLargerThanAMemtableGetsOneOfItsOwn(t *testing.T) {
	db, err := bloomkv.Open("db", storetest.Small(vfstest.NewMem()))
	must(t, err)
	must(t, db.Put([]byte("before"), nil))
	var b bloomkv.Batch
	for i := range 1000 {
		b.Put(fmt.Appendf(nil, "%06d", i), make([]byte, 1000))
	}
	must(t, db.ApplyWith(&b, bloomkv.DurabilitySync))
	if _, err := db.Get([]byte("before")); err != nil {
		t.Error(err)
	}
	if got := db.Tree().Load().Mem.Len(); got != 1000 {
		t.Errorf("%d versions in the memtable, want only the batch", got)
	}
	b.Reset()
	b.Put([]byte("after"), nil)
	must(t, db.ApplyWith(&b, bloomkv.DurabilitySync))
	if got := db.Tree().Load().Mem.Len(); got != 1 {
		t.Errorf("%d versions in the next memtable, want 1", got)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func TestFlushGivesUpWaitingForRoomWithItsContext(t *testing.T) {
	fs, open := storetest.Gated(vfstest.NewMem(), storetest.CreatesTable)
	opts := storetest.Small(fs)
	opts.Durability = bloomkv.DurabilityNoSync
	db, err := bloomkv.Open("db", opts)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for i := range 2 { // the first flush hangs, the second has to wait
		must(t, db.Put(fmt.Appendf(nil, "%d", i), nil))
		if err := db.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("flush %d: %v, want the deadline", i, err)
		}
	}
	open()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestALogReservesWhatTheOneBeforeItHad opens a store, fills a log, flushes it, and does so twice more: only the first
// log, whose size nobody can know, reserves space in several steps.
func TestALogReservesWhatTheOneBeforeItHad(t *testing.T) {
	var reserves atomic.Int64
	db, err := bloomkv.Open("db", &bloomkv.Options{
		FS: vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
			if op.Kind == vfstest.OpReserve {
				reserves.Add(1)
			}
			return nil
		}),
		Durability: bloomkv.DurabilityNoSync,
	})
	must(t, err)
	defer func() { must(t, db.Close()) }()
	for i, want := range []int64{4, 1, 1} {
		reserves.Store(0)
		for j := range 500 {
			must(t, db.Put(fmt.Append(nil, i, ".", j), make([]byte, 1000)))
		}
		if got := reserves.Load(); got != want {
			t.Errorf("log %d of half a megabyte reserved space %d times, want %d", i, got, want)
		}
		must(t, db.Flush(t.Context()))
	}
}
