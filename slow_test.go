package bloomkv_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
)

// TestACompactionThatWasPutOffIsLookedAtAgain has too little disk space, and later enough, without any other change.
func TestACompactionThatWasPutOffIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &spaciousFS{FS: vfs.NewMem()}
		const spaceAgain = time.Second // after which a compaction that was put off is considered again
		o := storetest.Tiny(fsys)
		o.Durability = bloomkv.NoSync
		l := listen(o)
		db := l.open(t, o)
		for i := range bloomkv.TriggerRuns + 1 {
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
