package tests

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// The memory of a memtable is given back after its flush. In these tests, as in all tests of stores, a read that comes
// later crashes the process, or is reported by the race detector.

// TestAValueOfAMemtableOutlivesTheMemtable flushes or closes the store while a reader has a value of the memtable.
func TestAValueOfAMemtableOutlivesTheMemtable(t *testing.T) {
	key, value := []byte("key"), strings.Repeat("value", 10)
	for way, end := range map[string]func(db *bloomkv.DB) error{
		"flush": func(db *bloomkv.DB) error { return db.Flush(t.Context()) },
		"close": func(db *bloomkv.DB) error { return db.Close() },
	} {
		for name, read := range map[string]func(db *bloomkv.DB, check func(k, v []byte) error) error{
			"View": func(db *bloomkv.DB, check func(k, v []byte) error) error {
				return db.View(key, func(v []byte) error { return check(key, v) })
			},
			"GetMany": func(db *bloomkv.DB, check func(k, v []byte) error) error {
				return db.GetMany([][]byte{key}, func(_ int, v []byte, _ bool) error { return check(key, v) })
			},
			"Iter": func(db *bloomkv.DB, check func(k, v []byte) error) error {
				it := db.Iter(bloomkv.IterOptions{})
				it.SeekGE([]byte("k"))
				return errors.Join(check(it.Key(), it.Value()), it.Close())
			},
			"an iterator that goes back": func(db *bloomkv.DB, check func(k, v []byte) error) error {
				it := db.Iter(bloomkv.IterOptions{})
				it.Last()
				return errors.Join(check(it.Key(), it.Value()), it.Close())
			},
			"Snapshot": func(db *bloomkv.DB, check func(k, v []byte) error) error {
				s, err := db.Snapshot()
				if err != nil {
					return err
				}
				return errors.Join(s.View(key, func(v []byte) error { return check(key, v) }), s.Close())
			},
		} {
			db := storetest.OpenTiny(t)
			must(t, db.Put(key, []byte(value)))
			err := read(db, func(k, v []byte) error {
				if err := end(db); err != nil {
					return err
				}
				if string(k) != string(key) || string(v) != value {
					return fmt.Errorf("%q = %q", k, v)
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s, %s: %v", name, way, err)
			}
			if way == "flush" {
				must(t, db.Close())
			}
		}
	}
}

// TestReadersOfMemtablesThatComeAndGo reads in every way while small memtables are frozen and flushed all the time.
func TestReadersOfMemtablesThatComeAndGo(t *testing.T) {
	o := storetest.Tiny(vfstest.NewMem())
	o.Durability = bloomkv.DurabilityNoSync
	db := storetest.Open(t, "db", o)
	const keys = 100
	name := func(i int) []byte { return fmt.Appendf(nil, "key%03d", i%keys) }
	value := func(i int) string { return strings.Repeat(fmt.Sprint(i%keys, ";"), 20) }
	right := func(i int, v []byte) error {
		if string(v) != value(i) {
			return fmt.Errorf("key %d has %q", i%keys, v)
		}
		return nil
	}
	for i := range keys {
		must(t, db.Put(name(i), []byte(value(i))))
	}
	var stop atomic.Bool
	var all sync.WaitGroup
	for _, read := range []func(i int) error{
		func(i int) error {
			v, err := db.Get(name(i))
			return errors.Join(err, right(i, v))
		},
		func(i int) error { return db.View(name(i), func(v []byte) error { return right(i, v) }) },
		func(i int) error {
			if ok, err := db.Has(name(i)); err != nil || !ok || !db.MayContain(name(i)) {
				return fmt.Errorf("key %d is not there: %w", i%keys, err)
			}
			return nil
		},
		func(i int) error {
			return db.GetMany([][]byte{name(i), name(i + 1), name(i + 2)}, func(j int, v []byte, _ bool) error {
				return right(i+j, v)
			})
		},
		func(i int) error {
			n := 0
			for kv, err := range db.Scan(bloomkv.IterOptions{Lower: name(i % 50)}) {
				if err == nil {
					err = right(i%50+n, kv.Value)
				}
				if n++; err != nil || n == 20 {
					return err
				}
			}
			return nil
		},
		func(i int) error {
			_, err := db.CompareAndSwap(name(i), []byte(value(i)), []byte(value(i)))
			return err
		},
	} {
		all.Go(func() {
			for i := 0; !stop.Load(); i++ {
				if err := read(i * 31); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	flushed := func() uint64 { return db.Metrics().Writes.Flushes }
	for i, begin := 0, time.Now(); !t.Failed() && (time.Since(begin) < time.Second || flushed() < 20); i++ {
		must(t, db.Put(name(i*7), []byte(value(i*7))))
	}
	stop.Store(true)
	all.Wait()
	must(t, db.Close())
}

// TestAClosedStoreKeepsLittleMemory keeps stores after Close that had memtables, many tables, cached blocks and large
// batches, and with them a closed snapshot, iterator and export of each.
func TestAClosedStoreKeepsLittleMemory(t *testing.T) {
	testkit.Long(t)
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
		db := storetest.Open(t, dir, &bloomkv.Options{
			Durability: bloomkv.DurabilityNoSync, MemtableSize: 256 << 10, TableSize: 16 << 10, BlockSize: 1 << 10,
			Compression: bloomkv.CompressionNone,
		})
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

func TestDescriptorsStayInsideTheirBoundAndDropNoFilter(t *testing.T) {
	testkit.LongUnderRace(t)
	storetest.Uncached(t) // every lookup reads its file
	opts := storetest.Small(vfstest.NewMem())
	opts.Durability, opts.MaxOpenFiles, opts.Compression = bloomkv.DurabilityNoSync, 8, bloomkv.CompressionNone
	db := storetest.Open(t, "db", opts)
	defer func() {
		must(t, db.Close())
	}()
	key := func(i uint64) []byte { return binary.BigEndian.AppendUint64(nil, i*0x9e3779b97f4a7c15) }
	value := make([]byte, 100)
	for i := range uint64(10_000) {
		must(t, db.Put(key(2*i), value))
	}
	must(t, db.Compact(context.Background(), bloomkv.CompactOptions{}))
	for i := range uint64(10_000) {
		if ok, err := db.Has(key(2 * i)); !ok || err != nil {
			t.Fatalf("key %d: %v, %v", i, ok, err)
		}
		if i%16 > 0 {
			continue
		}
		if open := db.Metrics().Files.Open; open > 8 {
			t.Fatalf("%d descriptors, want at most 8", open)
		}
	}
	m := db.Metrics()
	if m.Levels[lastLevel].Tables <= 16 || m.Memory.Filters == 0 || m.Levels[lastLevel].Unfiltered > 0 {
		t.Errorf("%d tables, want more than 16; %d filter bytes; %d searches without a filter, want 0",
			m.Levels[lastLevel].Tables, m.Memory.Filters, m.Levels[lastLevel].Unfiltered)
	}
}

// TestTablesTakeTheMemoryThatIsCounted compares stores of a few tables and of many: what the many take more of the heap
// is about what the store counts for them.
func TestTablesTakeTheMemoryThatIsCounted(t *testing.T) {
	testkit.LongUnderRace(t)
	const few, many = 40, 640
	heap := func() (bytes uint64) {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what the first has finalized
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	takes := func(tables int) (counted, taken int64) {
		o := storetest.Tiny(vfstest.NewMem())
		o.Durability, o.MemtableSize, o.MaxOpenFiles = bloomkv.DurabilityNoSync, 1<<20, 2*many
		db, err := bloomkv.Open("db", o)
		must(t, err)
		value := make([]byte, 1000)
		random := rand.NewChaCha8([32]byte{})
		for i := 0; db.Metrics().Files.Tables < tables; i++ {
			for n := range 100 {
				_, _ = random.Read(value)
				must(t, db.Put(fmt.Appendf(nil, "a key of 24 bytes%07d", 100*i+n), value))
			}
			if i%10 == 9 {
				must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
			}
		}
		must(t, db.Close())
		o.ReadOnly = true
		before := heap()
		db = storetest.Open(t, "db", o)
		testkit.Soon(t, "all tables are known", func() bool { return db.Metrics().Warm })
		m := db.Metrics().Memory
		taken = int64(heap() - before)
		must(t, db.Close())
		return m.Tables + m.Indexes, taken
	}
	for try := 1; ; try++ { // the heap has what the runtime and earlier tests leave in it, too
		fewCounted, fewTaken := takes(few)
		manyCounted, manyTaken := takes(many)
		counted, taken := manyCounted-fewCounted, manyTaken-fewTaken
		t.Logf("%d bytes are counted for the others, and they take %d", counted, taken)
		if counted >= taken*9/10 && counted <= taken*5/4 {
			break
		}
		if try == 3 {
			t.Fatalf("%d bytes are counted, want about %d, three times", counted, taken)
		}
	}
}
