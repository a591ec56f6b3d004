package bloomkv_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

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
		storetest.Soon(t, fmt.Sprintf("writer %d waits", i), func() bool {
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
	if db, err = bloomkv.Open("db", storetest.Tiny(lost)); err != nil {
		t.Fatal(err)
	}
	for i := range done {
		if ok, err := db.Has(fmt.Append(nil, "writer ", i)); !ok || err != nil {
			t.Errorf("writer %d, queued with or before a Sync writer: %v, %v", i, ok, err)
		}
	}
	must(t, db.Close())
}

// TestALogPromisesThatOlderOnesAreDurableOnceTheyAre reads a younger log before and after the older one is durable.
func TestALogPromisesThatOlderOnesAreDurableOnceTheyAre(t *testing.T) {
	g, flush := storetest.NewGate(), make(chan struct{})
	var gated atomic.Bool
	mem := vfstest.NewMem()
	db, err := bloomkv.Open("db", storetest.Tiny(vfstest.NewHook(mem, func(op vfstest.Op) error {
		if gated.Load() && op.Kind == vfstest.OpSync && storetest.Inside(storetest.SyncOldLog) {
			g.Pass()
		}
		if storetest.CreatesTable(op) {
			<-flush // so that both logs stay
		}
		return nil
	})))
	must(t, err)
	put := func(key string) {
		t.Helper()
		var b bloomkv.Batch
		b.Put([]byte(key), nil)
		must(t, db.ApplyWith(&b, bloomkv.DurabilityNoSync))
	}
	promises := func(number uint64) bool {
		t.Helper()
		base := filename.Base(filename.Log, number)
		f, err := mem.Open(filename.Make("db", filename.Log, number))
		must(t, err)
		res, err := wal.Replay(f, base, number, nil)
		must(t, errors.Join(err, f.Close()))
		return res.OlderDurable
	}
	put("older")
	gated.Store(true)
	if _, err := db.Writer().Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.Wait(t, "the older log is synced")
	put("younger")
	put("younger still")
	younger := db.Tree().View().Log
	if promises(younger.Number()) {
		t.Error("the younger log records the older one as durable, but it is not")
	}
	close(g.Open)
	storetest.Soon(t, "the older log is durable", func() bool { return younger.Mark() != nil })
	put("after")
	if db.Tree().View().Log != younger {
		t.Fatal("there is a third log")
	}
	if !promises(younger.Number()) {
		t.Error("the younger log does not record that the older one is durable")
	}
	close(flush)
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
	for i := range 3 {
		for j := range 20 {
			k, v := fmt.Sprint("key", j), fmt.Sprint("value", i)
			want[k] = v
			must(t, db.Put([]byte(k), []byte(v)))
		}
		must(t, db.Flush(t.Context()))
	}
	atRest(t, db)
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
	db, err = bloomkv.Open("db", storetest.Tiny(vfstest.NewHook(left, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpRemove && strings.HasSuffix(op.Name, ".sst") {
			removed++
		}
		fail(op.String())
		return nil
	})))
	must(t, err)
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

// TestAnIngestIsVisibleWithItsState checks, just after the state is swapped, whether readers of it see its tables: a
// compaction that found them before readers do could drop keys that readers still need.
func TestAnIngestIsVisibleWithItsState(t *testing.T) {
	var db *bloomkv.DB
	var leave func()
	var err error
	db, err = bloomkv.Open("db", storetest.Tiny(vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSync && strings.Contains(op.Name, "MANIFEST") && leave != nil &&
			storetest.Inside(storetest.InstallIngest) {
			leave()
			leave = nil
		}
		return nil
	})))
	must(t, err)
	must(t, db.Put([]byte("key"), []byte("old")))
	atRest(t, db)
	// A callback retired while a reader is inside runs at the first retirement after it left, which is that of the old
	// state.
	looked := make(chan struct{})
	g := db.Tree().Domain.Enter()
	db.Tree().Domain.Retire(func() {
		defer close(looked)
		db.Tree().Load().EachTable(func(_ int, table *tree.Table) {
			if visible := db.Tree().NewestSeq(); table.Meta.MaxSeq > visible {
				t.Errorf("the state has a table of sequence number %d, but readers see up to %d", table.Meta.MaxSeq,
					visible)
			}
		})
	})
	leave = g.Leave
	must(t, db.Ingest(t.Context(), ascending(map[string]string{"key": "new"}), bloomkv.IngestOptions{}))
	db.Tree().Domain.Wait() // another goroutine may have begun the check
	select {
	case <-looked:
	default:
		t.Error("the check did not run")
	}
	must(t, db.Close())
}
