package tests

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
)

// TestAClosedStoreKeepsLittleMemory keeps stores after Close that had memtables, many tables, cached blocks and large
// batches, and with them a closed snapshot, iterator and export of each.
func TestAClosedStoreKeepsLittleMemory(t *testing.T) {
	storetest.Roomy(t)
	const stores, most = 4, 48 << 10
	heap := func() int64 {
		runtime.GC() // releases what the memory outside of the heap needs
		runtime.GC()
		runtime.GC() // empties what pools of the library have kept
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	use := func() (kept []any) {
		dir := t.TempDir()
		db, err := bloomkv.Open(dir, &bloomkv.Options{
			Durability: bloomkv.DurabilityNoSync, MemtableSize: 256 << 10, TableSize: 16 << 10, BlockSize: 1 << 10,
			Compression: bloomkv.CompressionNone,
		})
		must(t, err)
		for i := range 1500 {
			must(t, db.Put(fmt.Appendf(nil, "key%d", i*7919%1500), make([]byte, 1000)))
		}
		must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		if n := db.Metrics().Files.Tables; n < 50 {
			t.Errorf("%d tables, want 50 or more", n)
		}
		for i := range 1500 {
			_, err := db.Get(fmt.Appendf(nil, "key%d", i))
			must(t, err)
		}
		snapshot, err := db.Snapshot()
		must(t, err)
		it := db.Iter(bloomkv.IterOptions{})
		it.Last()
		export, err := db.Export(t.Context(), bloomkv.ExportOptions{})
		must(t, err)
		_, err = export.WriteTo(io.Discard)
		must(t, err)
		var b bloomkv.Batch
		b.Put([]byte("large"), make([]byte, 900<<10))
		must(t, db.Apply(&b))
		before := db.Metrics()
		must(t, errors.Join(it.Close(), snapshot.Close(), export.Close(), db.Close()))
		after := db.Metrics()
		if after.Lookups.Gets != 1500 || after.BudgetNeeded != before.BudgetNeeded {
			t.Errorf("after Close %d lookups, a budget of %d bytes is needed; before 1500 and %d",
				after.Lookups.Gets, after.BudgetNeeded, before.BudgetNeeded)
		}
		return []any{db, snapshot, it, export}
	}
	use() // what the program keeps, whatever stores there are
	before := heap()
	var kept []any
	for range stores {
		kept = append(kept, use()...)
	}
	if each := (heap() - before) / stores; each > most {
		t.Errorf("each closed store keeps %d bytes, want at most %d", each, most)
	}
	runtime.KeepAlive(kept)
}
