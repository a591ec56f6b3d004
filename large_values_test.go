package bloomkv_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/salvage"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestLargeValuesAreCopiedOnce counts what operations with one large value allocate in the heap, per byte of the value.
// The memtable has it too, outside of the heap.
func TestLargeValuesAreCopiedOnce(t *testing.T) {
	if storetest.RaceEnabled {
		t.Skip("all memory is in the heap")
	}
	const size = 16 << 20
	key, value := []byte("key"), bytes.Repeat([]byte("0123456789abcdef"), size/16)
	for _, compression := range []bloomkv.Compression{bloomkv.CompressionNone, bloomkv.CompressionS2} {
		db, err := bloomkv.Open(t.TempDir(), &bloomkv.Options{
			Durability: bloomkv.DurabilityNoSync, Compression: compression, MemoryBudget: 8 << 20,
		})
		must(t, err)
		var batch bloomkv.Batch
		batch.Put(key, value)
		var dst []byte
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
			{"Compact", 4.3, func() error { return db.Compact(t.Context(), bloomkv.CompactOptions{}) }},
		} {
			// A compaction that drops the values before would be counted, too.
			storetest.Soon(t, "the tree is settled", func() bool { return db.Metrics().Settled })
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
	}
}

// TestMemoryOfLargeValuesGoesBack puts values larger than the budget, each with a memtable of its own.
func TestMemoryOfLargeValuesGoesBack(t *testing.T) {
	const size = 16 << 20
	db, err := bloomkv.Open(t.TempDir(), &bloomkv.Options{Durability: bloomkv.DurabilityNoSync, MemoryBudget: 8 << 20})
	must(t, err)
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
	db, err := bloomkv.Open("db", o)
	must(t, err)
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
	again, err := bloomkv.Open("db", o)
	must(t, err)
	check(again)
	must(t, again.Close())
	must(t, db.Close())
}

// TestValuesAboveTheLimitStayReadable makes a store with a value that only older versions could write, in a log and
// then in a table, and does with it what stores are for.
func TestValuesAboveTheLimitStayReadable(t *testing.T) {
	key, want := []byte("large"), make([]byte, bloomkv.MaxValueSize+1)
	for i := 0; i < len(want); i += 4096 {
		want[i] = byte(i >> 12)
	}
	mem := vfstest.NewMem()
	options := func(fsys vfs.FS) *bloomkv.Options { return &bloomkv.Options{FS: fsys, MemoryBudget: 8 << 20} }
	check := func(what string, db *bloomkv.DB, err error) {
		t.Helper()
		must(t, err)
		got, err := db.Get(key)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v, want %d", what, len(got), err, len(want))
		}
		n := 0
		for kv, err := range db.Scan(bloomkv.IterOptions{}) {
			if must(t, err); bytes.Equal(kv.Value, want) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s: a scan finds the value %d times", what, n)
		}
	}
	db, err := bloomkv.Open("db", options(mem))
	must(t, err)
	must(t, db.Put([]byte("small"), nil))
	must(t, db.Writer().CommitPut(batch.AppendPut(nil, key, len(want)), want, true))
	check("a memtable", db, nil)
	logged := mem.Kill()
	must(t, db.Close())
	_, err = salvage.Run(t.Context(), "db", "salvaged", salvage.Options{Store: options(logged)})
	must(t, err)
	db, err = bloomkv.Open("salvaged", options(logged))
	check("what was salvaged from a log", db, err)
	must(t, db.Close())
	db, err = bloomkv.Open("db", options(logged))
	check("what was recovered from a log", db, err)
	must(t, db.Close())

	db, err = bloomkv.Open("db", options(mem))
	check("a table", db, err)
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{Rewrite: true}))
	check("a rewritten table", db, nil)
	_, err = db.Check(t.Context(), bloomkv.CheckOptions{})
	must(t, err)
	export, err := db.Export(t.Context(), bloomkv.ExportOptions{})
	must(t, err)
	var stream bytes.Buffer
	_, err = export.WriteTo(&stream)
	must(t, errors.Join(err, export.Close()))
	must(t, bloomkv.Import(t.Context(), &stream, "imported", bloomkv.NewStoreOptions{FS: mem}))
	imported, err := bloomkv.Open("imported", options(mem))
	check("an import", imported, err)
	must(t, imported.Close())
	swapped, err := db.CompareAndSwap(key, want, want)
	if swapped || !errors.Is(err, bloomkv.ErrTooLarge) {
		t.Errorf("a swap by a value above the limit: %v, %v, want ErrTooLarge", swapped, err)
	}
	if err := db.Put(key, want); !errors.Is(err, bloomkv.ErrTooLarge) {
		t.Errorf("a put of a value above the limit: %v, want ErrTooLarge", err)
	}
	if swapped, err = db.CompareAndSwap(key, want, []byte("short")); !swapped || err != nil {
		t.Errorf("a swap of the value by a short one: %v, %v", swapped, err)
	}
	must(t, db.Close())
	_, err = salvage.Run(t.Context(), "imported", "saved", salvage.Options{Store: options(mem)})
	must(t, err)
	db, err = bloomkv.Open("saved", options(mem))
	check("what was salvaged from a table", db, err)
	must(t, db.Close())
}
