package bloomkv_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
)

// A spaciousFS reports any amount of free space that a test sets. It never runs out of space.
type spaciousFS struct {
	vfs.FS
	free atomic.Uint64
	err  error
}

func (s *spaciousFS) FreeSpace(string) (uint64, error) { return s.free.Load(), s.err }

func TestCompactSaysThatTheDiskHasNoRoom(t *testing.T) {
	fsys := &spaciousFS{FS: vfs.NewMem()}
	o := &bloomkv.Options{FS: fsys}
	l := listen(o)
	db := l.open(t, o)
	putNumbers(t, db, 10_000, 1)
	putNumbers(t, db, 10_000, 2)
	fsys.free.Store(100)
	if err := db.Compact(t.Context(), bloomkv.CompactOptions{}); !errors.Is(err, compaction.ErrDiskSpace) ||
		!strings.Contains(err.Error(), "100 bytes are free") {
		t.Errorf("Compact: %v, want %v", err, compaction.ErrDiskSpace)
	}
	if err := db.Put([]byte("key"), nil); err != nil {
		t.Errorf("a write after it: %v", err)
	}
	fsys.free.Store(1 << 40)
	if err := db.Compact(t.Context(), bloomkv.CompactOptions{}); err != nil {
		t.Errorf("Compact with room: %v", err)
	}
	l.close(t)
	if len(l.failures)+len(l.readOnly) > 0 || l.merged(t).Keys != 10_001 {
		t.Errorf("failures %v, read-only %v, want one compaction and no reports", l.failures, l.readOnly)
	}
}

func TestWhoCannotTellWhatIsFreeStopsNoCompaction(t *testing.T) {
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: &spaciousFS{FS: vfs.NewMem(), err: errors.ErrUnsupported}})
	must(t, err)
	putNumbers(t, db, 10_000, 1)
	putNumbers(t, db, 10_000, 2)
	if err := errors.Join(db.Compact(t.Context(), bloomkv.CompactOptions{}), db.Close()); err != nil {
		t.Error(err)
	}
}

// TestACompactionWaitsForRoomAsLongAsWritesDoNotWaitForIt checks that a compaction without disk space is reported once,
// done when there is space, and tried anyway when level 0 is full.
func TestACompactionWaitsForRoomAsLongAsWritesDoNotWaitForIt(t *testing.T) {
	fsys := &spaciousFS{FS: vfs.NewMem()}
	o := storetest.Tiny(fsys)
	l := listen(o)
	db := l.open(t, o)
	runs := func() int { return len(db.Tree().Load().Version.Levels[0]) }
	fill := func(want int) {
		t.Helper()
		for runs() < want {
			putNumbers(t, db, 100, 1)
		}
	}
	putOff := func(times int) {
		t.Helper()
		storetest.Soon(t, "the compaction is put off", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.failures) == times
		})
	}
	putNumbers(t, db, 100, 1)
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	fill(bloomkv.StopRuns - 1)
	putOff(1)
	if m := db.Metrics(); m.Settled || m.Writes.Compactions > 0 {
		t.Errorf("%d compactions without disk space, settled %v", m.Writes.Compactions, m.Settled)
	}
	fsys.free.Store(1 << 40)
	putNumbers(t, db, 100, 1) // changes the tree
	storetest.Soon(t, "the compaction is done when there is disk space", func() bool { return db.Metrics().Settled })

	fsys.free.Store(0)
	before := db.Metrics().Writes.Compactions
	fill(bloomkv.StopRuns - 1)
	putOff(2)
	putNumbers(t, db, 100, 1)
	storetest.Soon(t, "the compaction is tried when writes wait for it",
		func() bool { return db.Metrics().Writes.Compactions > before })
	l.close(t)
	for _, f := range l.failures { // the remaining work after the one that was tried may be postponed too
		if !errors.Is(f.Err, compaction.ErrDiskSpace) {
			t.Errorf("unexpected failure %v", f)
		}
	}
	if len(l.failures) < 2 || len(l.readOnly) > 0 {
		t.Errorf("failures %v, read-only %v; want at least two failures and no read-only", l.failures, l.readOnly)
	}
}

// TestACompactionThatWasPutOffIsLookedAtAgain has too little disk space, and later enough, without any other change.
func TestACompactionThatWasPutOffIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &spaciousFS{FS: vfs.NewMem()}
		const spaceAgain = time.Second // after which a compaction that was put off is considered again
		o := storetest.Tiny(fsys)
		o.Durability = bloomkv.DurabilityNoSync
		l := listen(o)
		db := l.open(t, o)
		for i := range bloomkv.TriggerRuns + 1 {
			must(t, db.Put([]byte("key"), fmt.Append(nil, i)))
			must(t, db.Flush(t.Context()))
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

// TestWhatUnfinishedWorkLeftGoesBeforeAnythingIsWritten opens stores with a log, on a disk that is full as long as a
// table that no manifest names is there.
func TestWhatUnfinishedWorkLeftGoesBeforeAnythingIsWritten(t *testing.T) {
	for _, c := range []struct {
		name, file string
		opens      bool
	}{
		{"a table that was never named", "db/000090.sst", true},
		{"a file that is no table", "db/notes", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			db, err := bloomkv.Open("db", &bloomkv.Options{FS: mem})
			must(t, err)
			must(t, db.Put([]byte("key"), []byte("value")))
			left, err := mem.Create(c.file)
			must(t, err)
			must(t, left.Close())
			image := mem.Kill()
			must(t, db.Close())
			full := vfs.NewHook(image, func(op vfs.Op) error {
				if op.Kind == vfs.OpWrite {
					if _, err := image.Stat(c.file); err == nil {
						return syscall.ENOSPC
					}
				}
				return nil
			})
			db, err = bloomkv.Open("db", &bloomkv.Options{FS: full})
			if (err == nil) != c.opens || err != nil && !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("Open: %v, want an open store %v", err, c.opens)
			}
			if err != nil {
				return
			}
			if v, err := db.Get([]byte("key")); string(v) != "value" {
				t.Errorf("the value of the log: %q, %v", v, err)
			}
			must(t, db.Close())
		})
	}
}

// putNumbers puts the keys 0, step, 2*step and so on below hi, and flushes.
func putNumbers(t *testing.T, db *bloomkv.DB, hi, step int) {
	t.Helper()
	var b bloomkv.Batch
	for i := 0; i < hi; i += step {
		b.Put(fmt.Appendf(nil, "key%08d", i), []byte("value"))
	}
	must(t, db.ApplyWith(&b, bloomkv.DurabilityNoSync))
	must(t, db.Flush(t.Context()))
}
