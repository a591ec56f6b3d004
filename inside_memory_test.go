package bloomkv_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// sharing returns options like those of tiny, for a store that shares r.
func sharing(r *bloomkv.Resources) *bloomkv.Options {
	o := storetest.Tiny(vfstest.NewMem())
	o.MemoryBudget, o.Resources, o.Durability = 0, r, bloomkv.DurabilityNoSync
	return o
}

func newTestResources(t *testing.T, memory int64, files int) *bloomkv.Resources {
	t.Helper()
	storetest.Roomy(t)
	r, err := bloomkv.NewResources(bloomkv.ResourcesOptions{MemoryBudget: memory, MaxOpenFiles: files})
	must(t, err)
	return r
}

// fillStore puts the even ones of 2n numbers, compacts, and looks up all numbers, so that blocks are cached. A table of
// range tombstones is written and dropped.
func fillStore(t *testing.T, db *bloomkv.DB, n uint64) {
	t.Helper()
	var key []byte
	for i := range n {
		key = memoryKey(key, 2*i)
		must(t, db.Put(key, key))
	}
	must(t, errors.Join(db.DeleteRange(bloomkv.KeyRange{Lower: bytes.Repeat([]byte{0xff}, 9)}), db.Flush(t.Context())))
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	lookUp(t, db, n)
}

// lookUp checks that the even ones of 2n numbers are found, and the odd ones are not.
func lookUp(t *testing.T, db *bloomkv.DB, n uint64) {
	t.Helper()
	var key []byte
	for i := range 2 * n {
		key = memoryKey(key, i)
		if ok, err := db.Has(key); err != nil || ok != (i%2 == 0) {
			t.Fatalf("key %d: %v, %v", i, ok, err)
		}
	}
}

// accounts compares the totals of Resources with the sums over the open stores.
func accounts(t *testing.T, r *bloomkv.Resources, open ...*bloomkv.DB) {
	t.Helper()
	for _, db := range open {
		atRest(t, db)
	}
	var filters, indexes, rangeDeletes, tables, blocks, reserved int64
	files := 0
	for _, db := range open {
		m := db.Metrics().Memory
		s := db.Tree().Hold()
		s.EachTable(func(_ int, t *tree.Table) { rangeDeletes += t.Reader.RangeDelBytes() })
		db.Tree().Release(s)
		filters += m.Filters
		indexes += m.Indexes
		tables += m.Tables
		blocks += m.Cache
		reserved += 2 * db.Options().MemtableSize
		files += db.Metrics().Files.Open
	}
	pool := r.Pool().Blocks.Stats()
	held := r.Pool().Held.Bytes()
	descriptors, opening := r.Pool().Files.Usage()
	if opening != 0 {
		t.Errorf("%d descriptors are reserved, but no file is being opened", opening)
	}
	if held.RangeDeletes != rangeDeletes || held.Description != tables {
		t.Errorf("Resources count %d bytes of range tombstones and %d of tables; the stores have %d and %d",
			held.RangeDeletes, held.Description, rangeDeletes, tables)
	}
	if held.Filter+held.Prefix != filters || held.Top+r.Pool().Parts.Bytes() != indexes ||
		r.Pool().Reserved.Load() != reserved ||
		pool.Used != blocks || descriptors != files {
		t.Errorf("Resources count %d bytes of filters, %d of indexes, %d for memtables, %d of blocks, %d files; "+
			"the stores have %d, %d, %d, %d, %d",
			held.Filter+held.Prefix, held.Top+r.Pool().Parts.Bytes(), r.Pool().Reserved.Load(), pool.Used,
			descriptors, filters, indexes,
			reserved, blocks, files)
	}
	memtables := r.Pool().Usage().Memtables
	if sum := memtables + filters + indexes + tables + pool.Used + pool.Spare; sum > r.Pool().Memory {
		t.Errorf("%d bytes in memory, want at most %d", sum, r.Pool().Memory)
	}
	// The cache may use the remaining memory, rounded down to whole bytes for each shard.
	free := r.Pool().Free()
	want := max(free/16, free-filters-indexes-rangeDeletes-tables)
	if r.Pool().Usage().Stores == 0 {
		want = 0
	}
	if pool.Capacity > want || pool.Capacity < want-64 {
		t.Errorf("the cache may use %d bytes, want %d", pool.Capacity, want)
	}
	testkit.Soon(t, "the collector has given back the memory of replaced filters", func() bool {
		runtime.GC()
		return r.Pool().Pieces.Lent() == held.Filter+held.Prefix
	})
	if descriptors > r.Pool().Files.Limit {
		t.Errorf("%d descriptors, want at most %d", descriptors, r.Pool().Files.Limit)
	}
}

func TestResourcesGetBackAllOfClosedStores(t *testing.T) {
	const n = 3000
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		r := newTestResources(t, 8<<20, 8)
		var all, open []*bloomkv.DB
		for i := range 3 {
			db := storetest.Open(t, fmt.Sprintf("db%d", i), sharing(r))
			all, open = append(all, db), append(open, db)
			fillStore(t, db, n)
			storetest.Settle(t, db)
			accounts(t, r, open...)
		}
		for _, db := range all {
			if m := db.Metrics().Memory; m.Filters == 0 || m.Indexes == 0 || m.Cache == 0 || m.Budget != 8<<20 {
				t.Errorf("want filters, indexes and blocks in memory, and the whole budget: %+v", m)
			}
		}
		for _, i := range order {
			left := 0
			for _, err := range all[i].Scan(bloomkv.IterOptions{}) { // holds a state with tables while Close runs
				if err == nil {
					must(t, all[i].Close())
					continue
				}
				if left++; !errors.Is(err, bloomkv.ErrClosed) {
					t.Error(err)
				}
			}
			open = nil
			for _, db := range all {
				if db.Tree().Load() != nil {
					open = append(open, db)
					lookUp(t, db, n)
				}
			}
			accounts(t, r, open...)
		}
		if r.Pool().Usage().Stores > 0 || r.Pool().Reserved.Load() != 0 || r.Pool().Resident() != 0 {
			t.Errorf("all stores are closed: %d stores, %d bytes for memtables, %d of filters and indexes",
				r.Pool().Usage().Stores, r.Pool().Reserved.Load(), r.Pool().Resident())
		}
		if s := r.Pool().Blocks.Stats(); s.Used != 0 || s.Spare != 0 || s.Capacity != 0 {
			t.Errorf("all stores are closed: %+v, want no memory", s)
		}
	}
}

func TestMemtablesOfAllStoresTakeAtMostHalf(t *testing.T) {
	r := newTestResources(t, 16<<20, 0)
	var open []*bloomkv.DB
	for i := range 16 { // the default number of stores
		db := storetest.Open(t, fmt.Sprintf("db%d", i), &bloomkv.Options{FS: vfstest.NewMem(), Resources: r})
		if db.Options().MemtableSize != 256<<10 {
			t.Fatalf("a memtable of %d bytes, want 256 KiB", db.Options().MemtableSize)
		}
		open = append(open, db)
	}
	accounts(t, r, open...)
	fs := vfstest.NewMem()
	late := &bloomkv.Options{FS: fs, Resources: r, MemtableSize: 16 << 10}
	_, err := bloomkv.Open("late", late)
	if !errors.Is(err, bloomkv.ErrMemoryBudget) || !strings.Contains(err.Error(), "late") ||
		!strings.Contains(err.Error(), "option MemtableSize: two of 16384 bytes and the 8388608 of other stores") {
		t.Errorf("a seventeenth store: %v, want ErrMemoryBudget and the numbers", err)
	}
	if names, err := fs.List("."); err != nil || len(names) > 0 {
		t.Errorf("it left files %q, %v", names, err)
	}
	must(t, open[7].Close())
	if open[7], err = bloomkv.Open("late", late); err != nil {
		t.Fatalf("where there is room again: %v", err)
	}
	accounts(t, r, open...)
	for _, db := range open {
		must(t, db.Close())
	}
	late.ErrorIfMissing = true
	if _, err := bloomkv.Open("none", late); err == nil || r.Pool().Reserved.Load() != 0 ||
		r.Pool().Usage().Stores != 0 {
		t.Errorf("%v; %d bytes stay reserved for %d stores after a failed Open", err, r.Pool().Reserved.Load(),
			r.Pool().Usage().Stores)
	}
}

func TestResourcesAreSetAloneAndMadeByNewResources(t *testing.T) {
	r := newTestResources(t, 0, 0)
	if r.Pool().Memory != 64<<20 || r.Pool().Files.Limit != 500 {
		t.Errorf("by default %d bytes and %d files, want 64 MiB and 500", r.Pool().Memory, r.Pool().Files.Limit)
	}
	for _, tt := range []struct {
		want string
		o    bloomkv.Options
	}{
		{"option MemoryBudget: 8388608, want 0 with Resources", bloomkv.Options{Resources: r, MemoryBudget: 8 << 20}},
		{"option MaxMappedBytes: -1, want 0 with Resources", bloomkv.Options{Resources: r, MaxMappedBytes: -1}},
		{"option MaxOpenFiles: 100, want 0 with Resources", bloomkv.Options{Resources: r, MaxOpenFiles: 100}},
		{
			"option MemtableSize: 16777217, want 16384 to 16777216",
			bloomkv.Options{Resources: r, MemtableSize: 16<<20 + 1},
		},
		{"option Resources: not made by NewResources", bloomkv.Options{Resources: new(bloomkv.Resources)}},
	} {
		tt.o.FS = vfstest.NewMem()
		if _, err := bloomkv.Open("db", &tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
	for _, bad := range []struct {
		memory int64
		files  int
		mapped int64
	}{{1, 0, 0}, {-1, 0, 0}, {1 << 51, 0, 0}, {0, 7, 0}, {0, -1, 0}, {0, 0, 1 << 51}} {
		if _, err := bloomkv.NewResources(bloomkv.ResourcesOptions{bad.memory, bad.files, bad.mapped}); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// TestFiltersOfAllStoresAreReducedTogether needs more memory for filters than is allowed, and checks that all stores
// lose about equally, that lookups waste what is promised then, and that all filters are loaded again when one store
// closes.
func TestFiltersOfAllStoresAreReducedTogether(t *testing.T) {
	testkit.Long(t)
	r := newTestResources(t, 8<<20, 0)
	const n = 30_000
	var stores [2]*bloomkv.DB
	for i := range stores {
		o := sharing(r)
		o.FilterFPR = 1e-3
		stores[i] = storetest.Open(t, fmt.Sprintf("db%d", i), o)
		fillStore(t, stores[i], n)
		var key []byte
		for k := range uint64(500) { // so that other levels have keys, too
			key = memoryKey(key, 2*(n+k))
			must(t, stores[i].Put(key, nil))
		}
		must(t, stores[i].Flush(t.Context()))
		storetest.Settle(t, stores[i])
	}
	accounts(t, r, stores[:]...)
	all, free := r.Pool().Held.Bytes().Filter, r.Pool().Free()
	less := all/2*16/15 + r.Pool().Held.Bytes().Fixed()
	r.Pool().Reserved.Add(free - less) // simulates a smaller budget
	r.Pool().Rebalance()
	if got := r.Pool().Held.Bytes().Filter; got > all/2 || got < all/2*9/10 {
		t.Errorf("filters take %d bytes, want at most %d and not much less", got, all/2)
	}
	for i, db := range stores {
		m := db.Metrics()
		last := m.Levels[bloomkv.Bottom]
		if share := float64(last.FilterBytesInMemory) / float64(all/4); share < 0.6 || share > 1.4 {
			t.Errorf("store %d: its last level has %d bytes of filters, want about %d", i, last.FilterBytesInMemory,
				all/4)
		}
		if m.FPRPromised <= m.FPRAsked || m.FPRPromised > 0.3 || m.FPRPredicted > m.FPRPromised*1.1 ||
			m.BudgetNeeded <= 0 {
			t.Errorf("store %d: %v promised of %v asked, %v predicted, %d bytes needed\n%v", i, m.FPRPromised,
				m.FPRAsked, m.FPRPredicted, m.BudgetNeeded, m)
		}
		for _, table := range db.Tables() {
			if table.Level < bloomkv.Bottom && table.FPRPredicted > m.FPRPromised {
				t.Errorf("store %d: a small table on level %d lost too much: %+v", i, table.Level, table)
			}
		}
		lookUp(t, db, n)
	}
	r.Pool().Reserved.Add(-(free - less))
	must(t, stores[0].Close())
	testkit.Soon(t, "the filters of the other store are loaded again", func() bool {
		shed := 0
		for _, l := range stores[1].Metrics().Levels {
			shed += l.FiltersShed
		}
		return shed == 0
	})
	accounts(t, r, stores[1])
	must(t, stores[1].Close())
}

// TestAStoreThatHangsStopsNoOther blocks the reads of one store in its file system, while lookups run that hold locks
// of its tables. Then it acquires all other locks of that store.
func TestAStoreThatHangsStopsNoOther(t *testing.T) {
	r := newTestResources(t, 8<<20, 8)
	var gate sync.Mutex // while it is locked, reads of the hanging store wait
	o := sharing(r)
	o.FS = vfstest.NewHook(o.FS, func(op vfstest.Op) error {
		if (op.Kind == vfstest.OpReadAt || op.Kind == vfstest.OpOpen) && strings.HasSuffix(op.Name, ".sst") {
			gate.Lock()
			defer gate.Unlock()
		}
		return nil
	})
	hanging := storetest.Open(t, "hanging", o)
	fillStore(t, hanging, 20_000)
	must(t, hanging.Compact(t.Context(), bloomkv.CompactOptions{})) // many tables
	storetest.Settle(t, hanging)
	other := storetest.Open(t, "other", sharing(r))
	gate.Lock() // before filters are reduced: background work would load them again
	s := hanging.Tree().Hold()
	s.EachTable(func(_ int, t *tree.Table) { // so that lookups have to load
		t.Reader.Keys.Reduce(t.Reader.Keys.Forms(1))
	})
	hanging.Pool().Parts.SetLimit(0)
	hanging.Tree().Release(s)
	var wg sync.WaitGroup
	tables := hanging.Tables()
	for _, table := range tables { // more lookups than descriptors, so that most of them open a file
		wg.Go(func() {
			if ok, err := hanging.Has(table.Smallest); !ok || err != nil {
				t.Errorf("lookup in the hanging store: %v, %v", ok, err)
			}
		})
	}
	testkit.Soon(t, "all lookups wait", func() bool {
		buf, waiting := make([]byte, 1<<20), 0
		for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(stack, "(*DB).Has(") && strings.Contains(stack, "[sync.Mutex.Lock") {
				waiting++
			}
		}
		return waiting == len(tables)
	})
	testkit.Within(t, "work while another store hangs", func() {
		fillStore(t, other, 2000)
		atRest(t, other)
	})
	free := r.Pool().Free()
	r.Pool().Reserved.Add(free) // leaves no memory for filters
	testkit.Within(t, "reducing filters while a store hangs", r.Pool().Rebalance)
	testkit.Soon(t, "the other store has no filters", func() bool { return other.Metrics().Memory.Filters == 0 })
	r.Pool().Reserved.Add(-free)

	w := mutexWalk{seen: map[visit]bool{}, named: map[string]int{}}
	// All stores share these, and lock them only briefly.
	for _, shared := range []any{
		r.Pool(), &r.Pool().Held, r.Pool().Files, r.Pool().Blocks, r.Pool().Parts, hanging.Tree().Domain,
	} {
		v := reflect.ValueOf(shared)
		w.seen[visit{v.UnsafePointer(), v.Type().Elem()}] = true
	}
	w.walk(reflect.ValueOf(hanging), "db")
	r.Pool().Balancing.Lock() // as if a goroutine hung while it releases what an eviction freed
	var held []sync.Locker
	for _, m := range w.found {
		if l, ok := m.(interface{ TryLock() bool }); ok && l.TryLock() { // the other mutexes are held by the lookups
			held = append(held, m)
		}
	}
	testkit.Within(t, "Close while another store hangs", func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
	r.Pool().Balancing.Unlock()
	if len(held) < 50 || len(held) > len(w.found)-8 { // a lookup waits in each descriptor
		t.Errorf("the test locked %d mutexes and the lookups %d, want at least 50 and 8", len(held),
			len(w.found)-len(held))
	}
	for _, m := range held {
		m.Unlock()
	}
	gate.Unlock()
	wg.Wait()
	must(t, hanging.Close())
	accounts(t, r)
}

func TestStoresOpenWorkAndCloseSideBySide(t *testing.T) {
	r := newTestResources(t, 8<<20, 8)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			o := sharing(r)
			for range storetest.AtStride(20) {
				db, err := bloomkv.Open("db", o)
				if err != nil {
					t.Error(err)
					return
				}
				var readers sync.WaitGroup
				for range 2 {
					readers.Go(func() {
						var key []byte
						for i := range uint64(2000) {
							key = memoryKey(key, i)
							if _, err := db.Has(key); err != nil && !errors.Is(err, bloomkv.ErrClosed) {
								t.Error(err)
							}
						}
					})
				}
				var key []byte
				for range rng.IntN(3000) {
					key = memoryKey(key, rng.Uint64N(2000))
					if err := db.Put(key, key); err != nil {
						t.Error(err)
					}
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
				readers.Wait()
			}
		})
	}
	testkit.Within(t, "opening and closing", wg.Wait)
	accounts(t, r)
}

// memoryKey returns a key of 8 bytes; odd numbers are never stored.
func memoryKey(dst []byte, i uint64) []byte {
	return binary.BigEndian.AppendUint64(dst[:0], i*0x9e3779b97f4a7c15)
}

func TestFiltersAndIndexesStayInsideTheMemoryBudget(t *testing.T) {
	testkit.Long(t)
	const n = 900_000
	opts := &bloomkv.Options{
		FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync, MemoryBudget: 8 << 20, MemtableSize: 2 << 20,
		BlockSize: 256,
		FilterFPR: 1e-6,
		TableSize: 1 << 20,
	}
	db := storetest.Open(t, "db", opts)
	defer func() {
		must(t, db.Close())
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
			testkit.Soon(t, "the pool counts the bytes of the store", func() bool {
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

// TestAMemtableThatWasWrittenOutIsLeftToTheCollector checks that the store does not keep a flushed memtable in memory.
func TestAMemtableThatWasWrittenOutIsLeftToTheCollector(t *testing.T) {
	db := storetest.Open(t, "db", &bloomkv.Options{FS: vfstest.NewMem()})
	for range 2 {
		must(t, db.Put([]byte("key"), []byte("value")))
		mem := weak.Make(db.Tree().Load().Mem)
		must(t, db.Flush(t.Context()))
		atRest(t, db)
		testkit.Soon(t, "the memtable is not held any more", func() bool {
			runtime.GC()
			return mem.Value() == nil
		})
	}
	must(t, db.Close())
}

// TestAWriterDoesNotWaitForMemoryThatItLent writes most of a memtable a hundred times, each time while memory is being
// divided and all filters are being loaded, as far as the locks show: that goes on behind the writer.
func TestAWriterDoesNotWaitForMemoryThatItLent(t *testing.T) {
	const memtable = 256 << 10
	db := storetest.Open(t, "db", &bloomkv.Options{
		FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync, MemtableSize: memtable, MemoryBudget: 8 << 20,
	})
	defer func() { must(t, db.Close()) }()
	value := make([]byte, 1000)
	write := func(n int) {
		for i := range memtable / 2 / len(value) {
			must(t, db.Put(fmt.Appendf(nil, "key%d-%d", n, i), value))
		}
	}
	write(0)
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	longest := time.Duration(0)
	for n := range 100 {
		var locked []sync.Locker
		lock := func(l sync.Locker) {
			l.Lock()
			locked = append(locked, l)
		}
		s := db.Tree().Hold()
		s.EachTable(func(_ int, table *tree.Table) { lock(&table.Loading) })
		lock(&db.Pool().Balancing)
		done := make(chan time.Duration, 1)
		go func() {
			begin := time.Now()
			write(n)
			done <- time.Since(begin)
		}()
		select {
		case d := <-done:
			longest = max(longest, d)
		case <-time.After(testkit.Patience):
			t.Error("a writer waits for memory")
		}
		for _, l := range locked {
			l.Unlock()
		}
		db.Tree().Release(s)
		if t.Failed() {
			return
		}
		must(t, db.Flush(t.Context()))
	}
	if w := db.Metrics().Writes; w.StoppedByMemtable.Count+w.SlowedByMemtable.Count > 0 {
		t.Errorf("writes were stopped: %+v, or slowed: %+v", w.StoppedByMemtable, w.SlowedByMemtable)
	}
	t.Logf("%d puts took %v at most", memtable/2/len(value), longest)
}

// TestReadsStayInsideTheMemoryBudget fills the cache by one iterator, and then has the parts of all indexes loaded, by
// the iterator or by estimates of sizes.
func TestReadsStayInsideTheMemoryBudget(t *testing.T) {
	testkit.Long(t)
	storetest.Roomy(t)
	const n, partly = 60_000, 20_000
	opts := &bloomkv.Options{
		FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync, MemoryBudget: 8 << 20, MemtableSize: 1 << 20,
		BlockSize: 512, FilterFPR: 1, Compression: bloomkv.CompressionNone,
	}
	db := storetest.Open(t, "db", opts)
	key := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }
	var b bloomkv.Batch
	for i := range n {
		b.Put(key(i), make([]byte, 300))
		if b.Len() == 1000 {
			must(t, db.ApplyWith(&b, bloomkv.DurabilityNoSync))
			b.Reset()
		}
	}
	must(t, errors.Join(db.Compact(t.Context(), bloomkv.CompactOptions{}), db.Close()))
	for _, what := range []string{"iterator", "ApproximateSize"} {
		db := storetest.Open(t, "db", opts)
		it := db.Iter(bloomkv.IterOptions{})
		for i := range n {
			if what == "iterator" || i < partly {
				it.Next()
			} else if _, err := db.ApproximateSize(bloomkv.KeyRange{Lower: key(i)}); err != nil {
				t.Fatal(err)
			}
			if i%1000 == 0 { // reads do not wait for the goroutine that divides memory because filters were loaded
				testkit.Soon(t, fmt.Sprintf("%s: memory is inside its budget after %d reads", what, i), func() bool {
					m := db.Metrics().Memory
					return m.Sum() <= m.Budget
				})
			}
		}
		if m := db.Metrics().Memory; m.Indexes < m.Budget/8 {
			t.Errorf("%s: indexes of %d bytes after all: the test tests little", what, m.Indexes)
		}
		must(t, errors.Join(it.Close(), db.Close()))
	}
}

// TestManyLargeValuesAreNotHeldTogether looks up values of 1 MiB and of a few bytes, whose tables are written one after
// the other.
func TestManyLargeValuesAreNotHeldTogether(t *testing.T) {
	testkit.Long(t)
	defer cache.Testing.Store(cache.Testing.Swap(nil)) // else a block waits to be overwritten
	const n = 100
	opts := &bloomkv.Options{
		FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync, MemoryBudget: 8 << 20, MemtableSize: 1 << 20,
	}
	db := storetest.Open(t, "db", opts)
	rng := rand.NewChaCha8([32]byte{1})
	var keys, values [][]byte
	for i := range n {
		value := make([]byte, []int{1 << 20, 0, 1<<20 + i, 3}[i%4])
		_, _ = rng.Read(value)
		keys, values = append(keys, fmt.Appendf(nil, "key%03d", i*37%n)), append(values, value)
		must(t, db.Put(keys[i], value))
	}
	must(t, errors.Join(db.Compact(t.Context(), bloomkv.CompactOptions{}), db.Close()))
	db = storetest.Open(t, "db", opts)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	must(t, db.GetMany(append(keys, []byte("absent")), func(i int, value []byte, found bool) error {
		if found != (i < n) || found && (value == nil || !bytes.Equal(value, values[i])) {
			t.Errorf("key %d: found %v, %d bytes", i, found, len(value))
		}
		if i == 0 {
			if held := int64(heap() - before); held > sstable.MostTogether+8<<20 {
				t.Errorf("%d bytes are held for the first key", held)
			}
		}
		return nil
	}))
	must(t, db.Close())
}
