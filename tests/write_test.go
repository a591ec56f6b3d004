package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestWritersThatWaitShareOneSync holds the first sync until all other writers wait. They begin only then: the first
// group has whoever waits when it is taken.
func TestWritersThatWaitShareOneSync(t *testing.T) {
	const writers = 16
	var first atomic.Bool
	held := make(chan struct{})
	fs := vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSync && storetest.Inside(storetest.SyncLog) && !first.Swap(true) {
			close(held)
			testkit.Soon(t, "the other writers wait", func() bool {
				_, waiting := storetest.Writers()
				return waiting == writers-1
			})
		}
		return nil
	})
	db := storetest.Open(t, "db", &bloomkv.Options{FS: fs})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			if err := db.Put(fmt.Append(nil, w), nil); err != nil {
				t.Error(err)
			}
		})
		<-held
	}
	wg.Wait()
	if m := db.Metrics().Writes; m.Operations != writers || m.LogSyncs != 2 || m.Groups != 2 {
		t.Errorf("%d writes in %d groups with %d syncs, want %d in two groups, one sync per group",
			m.Operations, m.Groups, m.LogSyncs, writers)
	}
	must(t, db.Close())
}

// TestASyncedWriteJoinsNoGroupWithoutASync has a write without a sync lead while one with a sync waits behind it.
func TestASyncedWriteJoinsNoGroupWithoutASync(t *testing.T) {
	var held atomic.Bool
	mem := vfstest.NewMem()
	fs, open := storetest.Gated(mem, func(op vfstest.Op) bool {
		return op.Kind == vfstest.OpSync && storetest.Inside(storetest.SyncLog) && !held.Swap(true)
	})
	db := storetest.Open(t, "db", &bloomkv.Options{FS: fs})
	var wg sync.WaitGroup
	put := func(key string, d bloomkv.Durability, waiting int) {
		wg.Go(func() {
			if err := storetest.PutWith(db, d, []byte(key), nil); err != nil {
				t.Error(err)
			}
			if key == "synced" {
				lost := mem.Crash(vfstest.KeepNothing)
				if err := holds(lost, "db", map[string]string{"first": "", "unsynced": "", "synced": ""}); err != nil {
					t.Error(err)
				}
			}
		})
		testkit.Soon(t, key+" is under way", func() bool {
			_, n := storetest.Writers()
			return held.Load() && n == waiting
		})
	}
	put("first", bloomkv.DurabilitySync, 0)
	put("unsynced", bloomkv.DurabilityNoSync, 1)
	put("synced", bloomkv.DurabilitySync, 2)
	open()
	wg.Wait()
	must(t, db.Close())
}

func TestANewMemtableStallsNoWriterForTheSyncOfTheOldLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, open := storetest.Gated(vfstest.NewMem(), func(op vfstest.Op) bool {
			return op.Kind == vfstest.OpSync && storetest.Inside(storetest.SyncOldLog)
		})
		opts := storetest.Small(fs)
		opts.Durability = bloomkv.DurabilityNoSync
		db := storetest.Open(t, "db", opts)
		value := make([]byte, 1000)
		rotated := func() bool {
			return db.Metrics().Writes.Flushes > 0 || db.Metrics().Work.Memtables > 0
		}
		n := 0
		for ; !rotated(); n++ {
			must(t, db.Put(fmt.Appendf(nil, "%06d", n), value))
		}
		// The old log's sync blocks. Unsynced writes continue in the new log; a synced write there waits for the old
		// one.
		must(t, db.Put([]byte("after"), nil))
		done := make(chan error, 1)
		go func() {
			var b bloomkv.Batch
			b.Put([]byte("durable"), nil)
			done <- db.ApplyWith(&b, bloomkv.DurabilitySync)
		}()
		synctest.Wait()
		if db.Metrics().Writes.LogSyncs == 0 {
			t.Error("the Sync write has not synced its own log")
		}
		select {
		case err := <-done:
			t.Fatalf("a Sync write was acknowledged (%v) before the older log was durable", err)
		default:
		}
		if _, err := db.Get([]byte("after")); err != nil {
			t.Errorf("an unsynced write in the new log: %v", err)
		}
		open()
		if err := <-done; err != nil {
			t.Error(err)
		}
		must(t, db.Close())
	})
}

func TestWritersSlowDownBeforeTheyStopAndGoOnWhenCompactionDoes(t *testing.T) {
	fs, open := storetest.Gated(vfstest.NewMem(), func(op vfstest.Op) bool {
		return op.Kind == vfstest.OpCreate && storetest.Inside(storetest.CompactLoop)
	})
	opts := storetest.Small(fs)
	opts.Durability = bloomkv.DurabilityNoSync
	db := storetest.Open(t, "db", opts)
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
	// Metrics locks the tree: a writer that waited for the last flush was woken before, and waits then for level 0.
	level0 := func() int { return db.Metrics().Levels[0].Runs }
	testkit.Soon(t, "level 0 is full", func() bool { return level0() >= stopRuns })
	if db.Metrics().Writes.SlowedByLevel0.Duration == 0 {
		t.Error("writers were stopped without being slowed first")
	}
	testkit.Soon(t, "writers are stopped", func() bool { return len(done) > 0 || storetest.WritesStopped() })
	if len(done) > 0 {
		t.Fatalf("all keys were written (%v) although compaction is blocked", <-done)
	}
	if got := level0(); got > stopRuns {
		t.Errorf("%d runs in level 0, want at most %d", got, stopRuns)
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
	must(t, db.Close())
}

func TestABatchLargerThanAMemtableGetsOneOfItsOwn(t *testing.T) {
	var flushed []uint64 // versions; Close waits for the last
	o := storetest.Small(vfstest.NewMem())
	o.Events.Flushed = func(f bloomkv.FlushInfo) { flushed = append(flushed, f.Versions) }
	db := storetest.Open(t, "db", o)
	must(t, db.Put([]byte("before"), nil))
	var b bloomkv.Batch
	for i := range 1000 {
		b.Put(fmt.Appendf(nil, "%06d", i), make([]byte, 1000))
	}
	must(t, db.ApplyWith(&b, bloomkv.DurabilitySync))
	if _, err := db.Get([]byte("before")); err != nil {
		t.Error(err)
	}
	b.Reset()
	b.Put([]byte("after"), nil)
	must(t, db.ApplyWith(&b, bloomkv.DurabilitySync))
	must(t, db.Close())
	if !slices.Equal(flushed, []uint64{1, 1000, 1}) {
		t.Errorf("memtables of %d versions were flushed, want the batch alone in one", flushed)
	}
}

func TestFlushGivesUpWaitingForRoomWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, open := storetest.Gated(vfstest.NewMem(), storetest.CreatesTable)
		opts := storetest.Small(fs)
		opts.Durability = bloomkv.DurabilityNoSync
		db := storetest.Open(t, "db", opts)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		for i := range 2 { // the first flush hangs, the second has to wait
			must(t, db.Put(fmt.Appendf(nil, "%d", i), nil))
			if err := db.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("flush %d: %v, want the deadline", i, err)
			}
		}
		open()
		must(t, db.Close())
	})
}

// TestALogReservesWhatTheOneBeforeItHad opens a store, fills a log, flushes it, and does so twice more: only the first
// log, whose size nobody can know, reserves space in several steps.
func TestALogReservesWhatTheOneBeforeItHad(t *testing.T) {
	var reserves atomic.Int64
	db := storetest.Open(t, "db", &bloomkv.Options{
		FS: vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
			if op.Kind == vfstest.OpReserve {
				reserves.Add(1)
			}
			return nil
		}),
		Durability: bloomkv.DurabilityNoSync,
	})
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

// TestASyncWriterBehindANoSyncWriterIsDurable queues both during a sync, so that the NoSync writer leads the next
// group.
func TestASyncWriterBehindANoSyncWriterIsDurable(t *testing.T) {
	g := storetest.NewGate()
	var gated atomic.Bool
	mem := vfstest.NewMem()
	db, err := bloomkv.Open("db", storetest.Tiny(vfstest.NewHook(mem, func(op vfstest.Op) error {
		if gated.Load() && op.Kind == vfstest.OpSync && storetest.Inside(storetest.SyncLog) {
			gated.Store(false)
			g.Pass()
		}
		return nil
	})))
	must(t, err)
	must(t, db.Put([]byte("begin"), nil))
	gated.Store(true)
	var done []chan error
	for i, d := range []bloomkv.Durability{bloomkv.DurabilitySync, bloomkv.DurabilityNoSync, bloomkv.DurabilitySync} {
		out := make(chan error, 1)
		done = append(done, out)
		go func() {
			var b bloomkv.Batch
			b.Put(fmt.Append(nil, "writer ", i), nil)
			out <- db.ApplyWith(&b, d)
		}()
		testkit.Soon(t, fmt.Sprintf("writer %d waits", i), func() bool {
			leading, waiting := storetest.Writers()
			return leading && waiting == i
		})
	}
	close(g.Open)
	for _, out := range done {
		must(t, <-out)
	}
	lost := mem.Crash(vfstest.KeepNothing)
	must(t, db.Close())
	db = storetest.Open(t, "db", storetest.Tiny(lost))
	for i := range done {
		if ok, err := db.Has(fmt.Append(nil, "writer ", i)); !ok || err != nil {
			t.Errorf("writer %d, queued with or before a Sync writer: %v, %v", i, ok, err)
		}
	}
	must(t, db.Close())
}

// TestAnEditThatWasNotSyncedIsMadeDurableBeforeFilesGo kills a process when an edit has reached the operating system
// but not the disk. Then the power fails at each operation of the next Open, which removes the files replaced by the
// edit, and after it.
func TestAnEditThatWasNotSyncedIsMadeDurableBeforeFilesGo(t *testing.T) {
	mem := vfstest.NewMem()
	var left *vfstest.Mem
	editing := false
	db, err := bloomkv.Open("db", storetest.Tiny(vfstest.NewHook(mem, func(op vfstest.Op) error {
		if editing && op.Kind == vfstest.OpSync && strings.Contains(op.Name, "MANIFEST") &&
			storetest.Inside(storetest.Install) {
			left = mem.Kill() // the last copy has the edit that merges; earlier edits may only move tables
		}
		return nil
	})))
	must(t, err)
	want := map[string]string{}
	for i := range 2 {
		for j := range 20 {
			k, v := fmt.Sprint("key", j), fmt.Sprint("value", i)
			want[k] = v
			must(t, db.Put([]byte(k), []byte(v)))
		}
		must(t, db.Flush(t.Context()))
	}
	storetest.AtRest(t, db, mem, "db")
	editing = true
	if err := errors.Join(db.Compact(t.Context(), bloomkv.CompactOptions{}), db.Close()); err != nil || left == nil {
		t.Fatal(err)
	}
	type cut struct {
		before string
		left   *vfstest.Mem
	}
	var cuts []cut
	var mu sync.Mutex
	fail := func(before string) {
		mu.Lock()
		defer mu.Unlock()
		// Removed files are lost for good.
		left := left.Crash(func(u vfstest.Unsynced) bool { return u.What == vfstest.UnsyncedName })
		cuts = append(cuts, cut{before, left})
	}
	removed := 0
	db = storetest.Open(t, "db", storetest.Tiny(vfstest.NewHook(left, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpRemove && strings.HasSuffix(op.Name, ".sst") {
			removed++
		}
		fail(op.String())
		return nil
	})))
	if removed == 0 {
		t.Error("no table was removed")
	}
	fail("Close")
	must(t, db.Close())
	for _, c := range cuts {
		db, err := bloomkv.Open("db", storetest.Tiny(c.left))
		if err != nil {
			t.Fatalf("before %s: %v", c.before, err)
		}
		got, err := storetest.Contents(db)
		if d := storetest.Diff(got, want); err != nil || d != "" {
			t.Errorf("before %s: %v, %s", c.before, err, d)
		}
		must(t, db.Close())
	}
}

// A lengths keeps the lengths of logs, and not their contents.
type lengths struct {
	vfs.FS
	logs    int
	longest atomic.Int64
}

func (l *lengths) Create(name string) (vfs.File, error) {
	f, err := l.FS.Create(name)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	l.logs++
	return &length{File: f, of: l}, nil
}

type length struct {
	vfs.File
	of   *lengths
	size int64
}

func (l *length) Write(b []byte) (int, error) {
	l.size += int64(len(b))
	l.of.longest.Store(max(l.of.longest.Load(), l.size))
	return len(b), nil
}

// TestALogEndsBeforeItsLargestSize deletes a range between long bounds so often that its records, of which a memtable
// keeps little, are longer than a log may be.
func TestALogEndsBeforeItsLargestSize(t *testing.T) {
	testkit.LongUnderRace(t)
	fsys := &lengths{FS: vfstest.NewMem()}
	db := storetest.Open(t, "db", &bloomkv.Options{FS: fsys, Durability: bloomkv.DurabilityNoSync})
	var b bloomkv.Batch
	lower, upper := bytes.Repeat([]byte("a"), bloomkv.MaxKeySize), bytes.Repeat([]byte("b"), bloomkv.MaxKeySize)
	for range 100 {
		b.DeleteRange(bloomkv.KeyRange{Lower: lower, Upper: upper})
	}
	n := wal.MaxSize/int64(b.Size()) + 1
	for range n {
		must(t, db.Apply(&b))
	}
	if longest := fsys.longest.Load(); longest > wal.MaxSize || longest < wal.MaxSize/2 || fsys.logs != 2 {
		t.Errorf("%d logs, the longest of %d bytes; want 2 of at most %d", fsys.logs, longest, int64(wal.MaxSize))
	}
	must(t, db.Close())
}
