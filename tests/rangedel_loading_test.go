package tests

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestRangeTombstonesThatAreLoadedLateGiveTheirSpaceBack opens a store whose range tombstones are not loaded yet when
// compaction looks at the tree and finds nothing to do. No write follows.
func TestRangeTombstonesThatAreLoadedLateGiveTheirSpaceBack(t *testing.T) {
	w := newWideStore(t)
	o := *w.o
	o.FS = w.mem
	db, err := bloomkv.Open("db", &o)
	must(t, err)
	snap, err := db.Snapshot() // so that nothing is compacted at first
	if err == nil {
		err = errors.Join(db.DeleteRange(bloomkv.KeyRange{Upper: w.key(w.keys / 2)}), db.Flush(t.Context()))
	}
	must(t, err)
	storetest.Settle(t, db)
	deleted := w.mem.Kill()
	must(t, errors.Join(snap.Close(), db.Close()))
	full := bytesOfTables(t, deleted)
	for _, byLookup := range []bool{false, true} { // otherwise by the warm-up
		t.Run(fmt.Sprintf("by a lookup: %v", byLookup), func(t *testing.T) {
			mem := deleted.Kill()
			cold := vfstest.NewHook(mem, func(op vfstest.Op) error {
				if byLookup && op.Kind == vfstest.OpReadAt && storetest.Inside(storetest.WarmUp) {
					return storetest.ErrCold
				}
				return nil
			})
			o := *w.o
			var warm func()
			o.FS, warm = storetest.Gated(cold, func(op vfstest.Op) bool {
				return op.Kind == vfstest.OpOpen && storetest.Inside(storetest.WarmUp)
			})
			db, err := bloomkv.Open("db", &o)
			must(t, err)
			// This Compact has nothing to do. When it returns, compaction has looked at the tree and waits.
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{Range: bloomkv.KeyRange{Lower: w.key(w.keys)}}))
			if now := bytesOfTables(t, mem); now != full {
				t.Fatalf("%d bytes of %d are left: the test tests nothing", now, full)
			}
			warm()
			if byLookup {
				storetest.Soon(t, "warming up has failed", func() bool { return db.Metrics().Warm })
				if db.Metrics().Writes.Compactions > 0 {
					t.Fatal("the tombstones were already loaded: the test tests nothing")
				}
				if _, err := db.Get(w.key(0)); !errors.Is(err, bloomkv.ErrNotFound) {
					t.Errorf("got %v, want ErrNotFound", err)
				}
			}
			storetest.Soon(t, "the space is free", func() bool { return bytesOfTables(t, mem) <= full*525/1000 })
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
