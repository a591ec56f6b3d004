package bloomkv_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// memoryKey returns a key of 8 bytes; odd numbers are never stored.
func memoryKey(dst []byte, i uint64) []byte {
	return binary.BigEndian.AppendUint64(dst[:0], i*0x9e3779b97f4a7c15)
}

func TestFiltersAndIndexesStayInsideTheMemoryBudget(t *testing.T) {
	if storetest.RaceEnabled {
		t.Skip("900,000 keys in one goroutine: nothing to race")
	}
	const n = 900_000
	opts := &bloomkv.Options{
		FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync, MemoryBudget: 8 << 20, MemtableSize: 2 << 20,
		BlockSize: 256,
		FilterFPR: 1e-6,
		TableSize: 1 << 20,
	}
	db, err := bloomkv.Open("db", opts)
	must(t, err)
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	db.Pool().Reserved.Add(5 << 18) // as if other stores had it
	var b bloomkv.Batch
	var key []byte
	for i := range uint64(n) {
		key = memoryKey(key, 2*i)
		b.Put(key, nil)
		if b.Len() == 1000 {
			must(t, db.ApplyWith(&b, bloomkv.DurabilityNoSync))
			b.Reset()
		}
	}
	must(t, db.Compact(context.Background(), bloomkv.CompactOptions{}))
	lookups := func() {
		t.Helper()
		for i := uint64(0); i < n; i += 7 {
			key = memoryKey(key, 2*i)
			if ok, err := db.Has(key); !ok || err != nil {
				t.Fatalf("present key %d: %v, %v", i, ok, err)
			}
			key = memoryKey(key, 2*i+1)
			if ok, err := db.Has(key); ok || err != nil {
				t.Fatalf("absent key %d: %v, %v", i, ok, err)
			}
			if i%(7*1000) != 0 {
				continue
			}
			m := db.Metrics().Memory
			if sum := m.Memtables + m.Filters + m.Indexes + m.Tables + m.Cache; sum > m.Budget {
				t.Fatalf("%d bytes in memory, the budget is %d: %+v", sum, m.Budget, m)
			}
			// Background work may change what is in memory between the two readings.
			storetest.Soon(t, "the pool counts the bytes of the store", func() bool {
				m := db.Metrics().Memory
				return m.Filters+m.Indexes+m.Tables == db.Pool().Resident()
			})
		}
	}
	lookups()
	m := db.Metrics()
	if disk := m.Levels[bloomkv.Bottom].FilterBytes; uint64(m.Memory.Filters) >= disk || m.Memory.Filters == 0 {
		t.Errorf("%d of %d filter bytes in memory, want some and not all: the test must need more than the budget",
			m.Memory.Filters, disk)
	}
	if m.Levels[bloomkv.Bottom].Unfiltered > 0 || m.Levels[bloomkv.Bottom].FiltersShed == 0 {
		t.Errorf("%d searches without a filter, %d tables that lack units; want units dropped, and no filter",
			m.Levels[bloomkv.Bottom].Unfiltered, m.Levels[bloomkv.Bottom].FiltersShed)
	}
	if m.FPRPredicted > 2e-4 {
		t.Errorf("%v wasted reads predicted, want the rate of two of three units\n%v", m.FPRPredicted, m)
	}
	t.Logf("predicted %.2g; %d of %d filter bytes in memory, %d index bytes, %d cache bytes", m.FPRPredicted,
		m.Memory.Filters, m.Levels[bloomkv.Bottom].FilterBytes, m.Memory.Indexes, m.Memory.Cache)
}

func TestDescriptorsStayInsideTheirBoundAndDropNoFilter(t *testing.T) {
	opts := storetest.Small(vfstest.NewMem())
	opts.Durability, opts.MaxOpenFiles, opts.Compression = bloomkv.DurabilityNoSync, 8, bloomkv.CompressionNone
	db, err := bloomkv.Open("db", opts)
	must(t, err)
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	var key []byte
	value := make([]byte, 100)
	for i := range uint64(10_000) {
		key = memoryKey(key, 2*i)
		must(t, db.Put(key, value))
	}
	must(t, db.Compact(context.Background(), bloomkv.CompactOptions{}))
	db.Pool().Blocks.SetCapacity(0) // every lookup reads its file
	for i := range uint64(10_000) {
		key = memoryKey(key, 2*i)
		if ok, err := db.Has(key); !ok || err != nil {
			t.Fatalf("key %d: %v, %v", i, ok, err)
		}
		if open := db.Metrics().Files.Open; open > 8 {
			t.Fatalf("%d descriptors, want at most 8", open)
		}
	}
	m := db.Metrics()
	if m.Levels[bloomkv.Bottom].Tables <= 16 || m.Memory.Filters == 0 || m.Levels[bloomkv.Bottom].Unfiltered > 0 {
		t.Errorf("%d tables, want more than 16; %d filter bytes; %d searches without a filter, want 0",
			m.Levels[bloomkv.Bottom].Tables, m.Memory.Filters, m.Levels[bloomkv.Bottom].Unfiltered)
	}
}

// TestAMemtableThatWasWrittenOutIsLeftToTheCollector checks that the store does not keep a flushed memtable in memory.
func TestAMemtableThatWasWrittenOutIsLeftToTheCollector(t *testing.T) {
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: vfstest.NewMem()})
	must(t, err)
	for range 2 {
		must(t, db.Put([]byte("key"), []byte("value")))
		mem := weak.Make(db.Tree().Load().Mem)
		must(t, db.Flush(t.Context()))
		atRest(t, db)
		for deadline := time.Now().Add(20 * time.Second); mem.Value() != nil; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the memtable is still held")
			}
			runtime.GC()
		}
	}
	must(t, db.Close())
}

// TestTablesTakeTheMemoryThatIsCounted compares stores of a few tables and of many: what the many take more of the heap
// is about what the store counts for them.
func TestTablesTakeTheMemoryThatIsCounted(t *testing.T) {
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
		db, err = bloomkv.Open("db", o)
		must(t, err)
		storetest.Soon(t, "all tables are known", func() bool { return db.Metrics().Warm })
		m := db.Metrics().Memory
		taken = int64(heap() - before)
		must(t, db.Close())
		return m.Tables + m.Indexes, taken
	}
	fewCounted, fewTaken := takes(few)
	manyCounted, manyTaken := takes(many)
	counted, taken := manyCounted-fewCounted, manyTaken-fewTaken
	t.Logf("%d bytes are counted for the others, and they take %d", counted, taken)
	if counted < taken*9/10 || counted > taken*5/4 {
		t.Errorf("%d bytes are counted, want about %d", counted, taken)
	}
}
