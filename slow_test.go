package bloomkv

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv/vfs"
)

// TestAWriteIsSlowedByItsSizeUpToItsCap writes while a compaction is blocked, in a synctest bubble: the delay of a
// group of writes depends only on its size and on the runs of level 0.
func TestAWriteIsSlowedByItsSizeUpToItsCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys, open := gated(vfs.NewMem(), func(op vfs.Op) bool {
			return createsTable(op) && inside("(*DB).compactLoop")
		})
		o := tiny(fsys)
		o.Durability, o.MemtableSize = NoSync, 1<<20
		db, err := Open("db", o)
		if err != nil {
			t.Fatal(err)
		}
		runs := func() int { return len(db.tree.Load().Version.Levels[0]) }
		put := func(size int) time.Duration {
			t.Helper()
			began := time.Now()
			if err := db.Put([]byte("key"), make([]byte, size)); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		took := func(size int64) time.Duration { // the delay of a group of writes of that size
			db.commitMu.Lock()
			defer db.commitMu.Unlock()
			began := time.Now()
			db.slowDown(size)
			return time.Since(began)
		}
		flush := func() {
			t.Helper()
			// The runs must overlap: disjoint ones would be moved without making a table.
			err := errors.Join(db.Put([]byte("a"), nil), db.Put([]byte("z"), nil), db.Flush(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // a compaction may move the oldest run; one that merges then blocks at its first table
		}
		for runs() < slowRuns {
			flush()
		}
		if d := put(100<<10) + took(100<<20); d != 0 {
			t.Errorf("with %d runs, a write waits %v, want 0", runs(), d)
		}
		for over := 1; over < stopRuns-slowRuns; over++ {
			flush()
			if got := runs(); got != slowRuns+over {
				t.Fatalf("%d runs, want %d", got, slowRuns+over)
			}
			per := 8 * time.Microsecond << (over - 1) // per KiB
			const kib = 100
			if d, want := put(kib<<10), kib*per; d < want || d > want+want/20 {
				t.Errorf("with %d runs, 100 KiB take %v, want %v", runs(), d, want)
			}
			sum, want := time.Duration(0), 100*per
			for range 200 { // delays too short for a sleep add up
				sum += took(512)
			}
			if short := 200 * time.Microsecond; sum < want-2*short || sum > want+want/5+2*short {
				t.Errorf("with %d runs, 200 times 512 bytes take %v, want %v", runs(), sum, want)
			}
			if d := took(40 << 20); d != 100*time.Millisecond {
				t.Errorf("with %d runs, 40 MiB take %v, want the cap of 100ms", runs(), d)
			}
			if d := took(1 << 10); d > time.Millisecond {
				t.Errorf("with %d runs, the next KiB takes %v: it must not pay for the write before", runs(), d)
			}
		}
		open()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestACompactionThatWasPutOffIsLookedAtAgain has too little disk space, and later enough, without any other change.
func TestACompactionThatWasPutOffIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &spaciousFS{FS: vfs.NewMem()}
		o := tiny(fsys)
		o.Durability = NoSync
		l := listen(o)
		db := l.open(t, o)
		for i := range triggerRuns + 1 {
			if err := db.Put([]byte("key"), fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
			if err := db.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if w := db.Metrics().Writes; w.Compactions != 0 || len(l.failures) != 1 {
			t.Fatalf("%d compactions, failures %v; want one postponed", w.Compactions, l.failures)
		}
		time.Sleep(3 * spaceAgain)
		synctest.Wait()
		if w := db.Metrics().Writes; w.Compactions != 0 || len(l.failures) != 1 {
			t.Fatalf("%d compactions without disk space, failures %v; want one report", w.Compactions, l.failures)
		}
		fsys.free.Store(1 << 40)
		began := time.Now()
		time.Sleep(spaceAgain)
		synctest.Wait()
		if m := db.Metrics(); m.Writes.Compactions == 0 || !m.Settled {
			t.Errorf("%v after there was enough disk space, the compaction is not done", time.Since(began))
		}
		l.close(t)
	})
}
