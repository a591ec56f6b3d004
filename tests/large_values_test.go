package tests

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestLargeValuesAreCopiedOnce counts what operations with one large value allocate in the heap, per byte of the value.
// The memtable has it too, outside of the heap.
func TestLargeValuesAreCopiedOnce(t *testing.T) {
	if testkit.RaceEnabled {
		t.Skip("all memory is in the heap")
	}
	const size = 16 << 20
	key, value := []byte("key"), bytes.Repeat([]byte("0123456789abcdef"), size/16)
	for _, compression := range []bloomkv.Compression{bloomkv.CompressionNone, bloomkv.CompressionS2} {
		db := storetest.Open(t, t.TempDir(), &bloomkv.Options{
			Durability: bloomkv.DurabilityNoSync, Compression: compression, MemoryBudget: 8 << 20,
		})
		var batch bloomkv.Batch
		batch.Put(key, value)
		var dst []byte
		compact := func() error { return db.Compact(t.Context(), bloomkv.CompactOptions{}) }
		for _, tt := range []struct {
			name string
			most float64
			call func() error
		}{
			{"Put", 0.1, func() error { return db.Put(key, value) }},
			{"Flush after Put", 0.1, func() error { return db.Flush(t.Context()) }},
			{"Apply", 0.1, func() error { return db.Apply(&batch) }},
			{"Get from the memtable", 1.1, func() error { _, err := db.Get(key); return err }},
			{"Flush after Apply", 0.1, func() error { return db.Flush(t.Context()) }},
			{"Get from a table", 2.1, func() (err error) { dst, err = db.Get(key); return err }},
			{"AppendGet", 1.1, func() error { _, err := db.AppendGet(dst[:0], key); return err }},
			{"View", 1.1, func() error { return db.View(key, func([]byte) error { return nil }) }},
			{"Compact", 4.3, compact}, // or the next runs would be merged beside a later call
			{"CompareAndSwap", 3.1, func() error {
				swapped, err := db.CompareAndSwap(key, value, value)
				if err == nil && !swapped {
					t.Error("the value is another one")
				}
				return err
			}},
			{"Update", 1.1, func() error {
				return db.Update(t.Context(), func(tx *bloomkv.Tx) error { return tx.Put(key, value) })
			}},
			{"Compact again", 4.3, compact},
		} {
			// A compaction that drops the values before would be counted, too.
			testkit.Soon(t, "the tree is settled", func() bool { return db.Metrics().Settled })
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			must(t, tt.call())
			runtime.ReadMemStats(&after)
			got := float64(after.TotalAlloc-before.TotalAlloc) / size
			if got > tt.most {
				t.Errorf("%v, %s: %.2f bytes are allocated per byte of the value, want at most %.2f",
					compression, tt.name, got, tt.most)
			}
		}
		must(t, db.Close())
		if err := db.Put(key, value); err != bloomkv.ErrClosed { //nolint:errorlint // it is returned bare
			t.Errorf("a large put after Close: %v, want ErrClosed", err)
		}
	}
}

func TestALargePutIsSyncedIfTheOptionsSaySo(t *testing.T) {
	for _, d := range []bloomkv.Durability{bloomkv.DurabilitySync, bloomkv.DurabilityNoSync} {
		db := storetest.Open(t, "db", &bloomkv.Options{FS: vfstest.NewMem(), Durability: d})
		must(t, db.Put(nil, make([]byte, 1<<20)))
		if n := db.Metrics().Writes.LogSyncs; (n == 1) != (d == bloomkv.DurabilitySync) {
			t.Errorf("durability %v: %d syncs", d, n)
		}
		must(t, db.Close())
	}
}

// TestMemoryOfLargeValuesGoesBack puts values larger than the budget, each with a memtable of its own.
func TestMemoryOfLargeValuesGoesBack(t *testing.T) {
	testkit.Long(t)
	const size = 16 << 20
	db := storetest.Open(t, t.TempDir(), &bloomkv.Options{Durability: bloomkv.DurabilityNoSync, MemoryBudget: 8 << 20})
	value := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	for i := range 4 {
		must(t, db.Put(fmt.Append(nil, i), value))
		if got := db.Metrics().Memory.Memtables; got > 2*size+1<<20 {
			t.Errorf("after %d values memtables have %d bytes, want at most two values", i+1, got)
		}
	}
	must(t, db.Flush(t.Context()))
	if got := db.Metrics().Memory.Sum(); got > 8<<20 {
		t.Errorf("after a flush %d bytes are in memory, want at most the budget", got)
	}
	must(t, db.Close())
}

// TestLargePutsSurviveACrash writes values that are not copied on their way to the log, with and without others, reads
// them, and recovers them.
func TestLargePutsSurviveACrash(t *testing.T) {
	mem := vfstest.NewMem()
	o := storetest.Tiny(mem)
	o.MemtableSize = 2 << 20
	db := storetest.Open(t, "db", o)
	want := map[string][]byte{}
	for i, n := range []int{1<<20 - 1, 1 << 20, 10, 1<<20 + 1, 3 << 20, 0, 1 << 20} {
		key := fmt.Sprint("key", i%5)
		want[key] = bytes.Repeat([]byte{byte('a' + i)}, n)
		must(t, db.Put([]byte(key), want[key]))
		var b bloomkv.Batch
		b.Put([]byte("batch"+key), want[key])
		b.Put([]byte("small"+key), []byte(key))
		must(t, db.Apply(&b))
		want["batch"+key], want["small"+key] = want[key], []byte(key)
	}
	check := func(db *bloomkv.DB) {
		t.Helper()
		for key, value := range want {
			if got, err := db.Get([]byte(key)); err != nil || !bytes.Equal(got, value) {
				t.Errorf("%s has %d bytes, %v, want %d", key, len(got), err, len(value))
			}
		}
	}
	check(db)
	o.FS = mem.Crash(func(vfstest.Unsynced) bool { return false })
	again := storetest.Open(t, "db", o)
	check(again)
	must(t, again.Close())
	must(t, db.Close())
}
