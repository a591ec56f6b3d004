package bloomkv

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

// sharing are options like those of tiny with which a store shares r.
func sharing(r *Resources) *Options {
	o := tiny(vfs.NewMem())
	o.MemoryBudget, o.Resources, o.Durability = 0, r, NoSync
	return o
}

func newTestResources(t *testing.T, memory int64, files int) *Resources {
	t.Helper()
	roomy(t)
	r, err := NewResources(memory, files)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fillStore puts the even ones of 2n numbers, compacts, and looks all up, so that blocks are cached. A table of range deletes
// comes and goes.
func fillStore(t *testing.T, db *DB, n uint64) {
	t.Helper()
	var key []byte
	for i := range n {
		key = memoryKey(key, 2*i)
		if err := db.Put(key, key); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(db.DeleteRange(bytes.Repeat([]byte{0xff}, 9), nil), db.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := db.Compact(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	lookUp(t, db, n)
}

// lookUp wants the even ones of 2n numbers, and not the odd ones.
func lookUp(t *testing.T, db *DB, n uint64) {
	t.Helper()
	var key []byte
	for i := range 2 * n {
		key = memoryKey(key, i)
		if ok, err := db.Has(key); err != nil || ok != (i%2 == 0) {
			t.Fatalf("key %d: %v, %v", i, ok, err)
		}
	}
}

// accounts holds what Resources know against what the open stores have.
func accounts(t *testing.T, r *Resources, open ...*DB) {
	t.Helper()
	for _, db := range open {
		atRest(t, db)
	}
	var filters, indexes, rangeDeletes, blocks, reserved int64
	files := 0
	for _, db := range open {
		m := db.Metrics().Memory
		s, release := db.tree.Acquire()
		s.EachTable(func(_ int, t *tree.Table) { rangeDeletes += t.Reader.RangeDelBytes() })
		release()
		filters += m.Filters
		indexes += m.Indexes
		blocks += m.Cache
		reserved += 2 * db.opts.MemtableSize
		files += openTables(db)
	}
	pool := r.pool.Blocks.Stats()
	held := r.pool.Held.Bytes()
	descriptors, opening := r.pool.Files.Usage()
	if opening != 0 {
		t.Errorf("%d descriptors are reserved, and nobody opens a file", opening)
	}
	if got := held.RangeDeletes; got != rangeDeletes {
		t.Errorf("Resources know of %d bytes of range deletes; the stores have %d", got, rangeDeletes)
	}
	if held.Filter+held.Prefix != filters || held.Index != indexes || r.pool.Reserved.Load() != reserved || pool.Used != blocks || descriptors != files {
		t.Errorf("Resources know of %d bytes of filters, %d of indexes, %d for memtables, %d of blocks, %d files; the stores have %d, %d, %d, %d, %d",
			held.Filter+held.Prefix, held.Index, r.pool.Reserved.Load(), pool.Used, descriptors, filters, indexes, reserved, blocks, files)
	}
	if sum := reserved + filters + indexes + pool.Used + pool.Spare; sum > r.pool.Memory {
		t.Errorf("%d bytes in memory, want at most %d", sum, r.pool.Memory)
	}
	// The cache may have what is left, rounded down to whole bytes of each shard.
	free := r.pool.Memory - reserved
	if want := max(free/4, free-filters-indexes-rangeDeletes); pool.Capacity > want || pool.Capacity < want-64 {
		t.Errorf("the cache may have %d bytes, want %d", pool.Capacity, want)
	}
	if descriptors > r.pool.Files.Limit {
		t.Errorf("%d descriptors, want at most %d", descriptors, r.pool.Files.Limit)
	}
}

func TestStoresGiveBackWhatTheyHadOfResourcesInWhateverOrderTheyClose(t *testing.T) {
	const n = 3000
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		r := newTestResources(t, 8<<20, 8)
		capacity := r.pool.Blocks.Stats().Capacity
		var all, open []*DB
		for i := range 3 {
			db, err := Open(fmt.Sprintf("db%d", i), sharing(r))
			if err != nil {
				t.Fatal(err)
			}
			all, open = append(all, db), append(open, db)
			fillStore(t, db, n)
			settle(t, db)
			accounts(t, r, open...)
		}
		for _, db := range all {
			if m := db.Metrics().Memory; m.Filters == 0 || m.Indexes == 0 || m.Cache == 0 || m.Budget != 8<<20 {
				t.Errorf("want something of everything in memory, and the whole as the budget: %+v", m)
			}
		}
		for _, i := range order {
			left := 0
			for _, err := range all[i].Scan(IterOptions{}) { // a scan that Close overtakes holds a state with tables
				if err == nil {
					if err := all[i].Close(); err != nil {
						t.Fatal(err)
					}
					continue
				}
				if left++; !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			}
			open = nil
			for _, db := range all {
				if db.tree.Load() != nil {
					open = append(open, db)
					lookUp(t, db, n)
				}
			}
			accounts(t, r, open...)
		}
		if len(r.pool.Shares()) > 0 || r.pool.Reserved.Load() != 0 || r.pool.Resident() != 0 {
			t.Errorf("all are closed: %d stores, %d bytes for memtables, %d of filters and indexes", len(r.pool.Shares()), r.pool.Reserved.Load(), r.pool.Resident())
		}
		if s := r.pool.Blocks.Stats(); s.Used != 0 || s.Blocks != 0 || s.Capacity != capacity {
			t.Errorf("all are closed: %+v, want a capacity of %d again", s, capacity)
		}
	}
}

func TestMemtablesOfAllStoresTakeAtMostHalf(t *testing.T) {
	r := newTestResources(t, 16<<20, 0)
	var open []*DB
	for i := range 16 { // by default
		db, err := Open(fmt.Sprintf("db%d", i), &Options{FS: vfs.NewMem(), Resources: r})
		if err != nil {
			t.Fatal(err)
		}
		if db.opts.MemtableSize != 256<<10 {
			t.Fatalf("a memtable of %d bytes, want 256 KiB", db.opts.MemtableSize)
		}
		open = append(open, db)
	}
	accounts(t, r, open...)
	fs := vfs.NewMem()
	late := &Options{FS: fs, Resources: r, MemtableSize: 16 << 10}
	_, err := Open("late", late)
	if !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "late") ||
		!strings.Contains(err.Error(), "option MemtableSize: two of 16384 bytes and the 8388608 of other stores") {
		t.Errorf("a seventeenth store: %v, want ErrNoRoom and the figures", err)
	}
	if names, err := fs.List("."); err != nil || len(names) > 0 {
		t.Errorf("it left %q, %v", names, err)
	}
	if err := open[7].Close(); err != nil {
		t.Fatal(err)
	}
	if open[7], err = Open("late", late); err != nil {
		t.Fatalf("where there is room again: %v", err)
	}
	accounts(t, r, open...)
	for _, db := range open {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	late.ErrorIfMissing = true
	if _, err := Open("none", late); err == nil || r.pool.Reserved.Load() != 0 || len(r.pool.Shares()) != 0 {
		t.Errorf("%v; %d bytes stay reserved for %d stores after a failed Open", err, r.pool.Reserved.Load(), len(r.pool.Shares()))
	}
}

func TestResourcesAreSetAloneAndMadeByNewResources(t *testing.T) {
	r := newTestResources(t, 0, 0)
	if r.pool.Memory != 64<<20 || r.pool.Files.Limit != 500 {
		t.Errorf("by default %d bytes and %d files, want 64 MiB and 500", r.pool.Memory, r.pool.Files.Limit)
	}
	for _, tt := range []struct {
		want string
		o    Options
	}{
		{"option MemoryBudget: 8388608, want 0 with Resources", Options{Resources: r, MemoryBudget: 8 << 20}},
		{"option MaxOpenFiles: 100, want 0 with Resources", Options{Resources: r, MaxOpenFiles: 100}},
		{"option MemtableSize: 16777217, want 16384 to 16777216", Options{Resources: r, MemtableSize: 16<<20 + 1}},
		{"option Resources: not made by NewResources", Options{Resources: new(Resources)}},
	} {
		tt.o.FS = vfs.NewMem()
		if _, err := Open("db", &tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
	for _, bad := range []struct {
		memory int64
		files  int
	}{{1, 0}, {-1, 0}, {1 << 51, 0}, {0, 7}, {0, -1}} {
		if _, err := NewResources(bad.memory, bad.files); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// TestSheddingTakesFiltersFromAllStoresLastLevelsFirst needs more filters than there may be, and gets all back when one store
// closes.
func TestSheddingTakesFiltersFromAllStoresLastLevelsFirst(t *testing.T) {
	r := newTestResources(t, 8<<20, 0)
	const n = 30_000
	var stores [2]*DB
	for i := range stores {
		o := sharing(r)
		o.FilterFPR = 1e-6
		var err error
		if stores[i], err = Open(fmt.Sprintf("db%d", i), o); err != nil {
			t.Fatal(err)
		}
		fillStore(t, stores[i], n)
		var key []byte
		for k := range uint64(500) { // and something on other levels
			key = memoryKey(key, 2*(n+k))
			if err := stores[i].Put(key, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := stores[i].Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		settle(t, stores[i])
	}
	accounts(t, r, stores[:]...)
	all := r.pool.Resident()
	r.pool.Reserved.Add(r.pool.Memory - all*4/3 + all/2) // as if there were less for all
	r.pool.Rebalance()
	if got := r.pool.Resident(); got > r.pool.Allowance() || got < r.pool.Allowance()*2/3 {
		t.Errorf("%d bytes stay, want at most %d, and not many fewer", got, r.pool.Allowance())
	}
	for i, db := range stores {
		m := db.Metrics()
		lost := int64(m.Levels[bottom].FilterDisk) - m.Levels[bottom].FilterBytes
		if lost < int64(m.Levels[bottom].FilterDisk)/4 || m.Levels[bottom].FilterShed == 0 {
			t.Errorf("store %d: the last level lost %d bytes of filters of %d tables; want more", i, lost, m.Levels[bottom].FilterShed)
		}
		var units, upper [bloomblock.MaxUnits + 1]int // tables that have so many
		for _, table := range db.Tables() {
			if units[table.FilterUnits]++; table.Level < bottom {
				upper[table.FilterUnits]++
			}
		}
		if units[0] > 0 && units[2]+units[3] > 0 || units[1] > 0 && units[3] > 0 || upper[0] > 0 {
			t.Errorf("store %d: tables by units %v, those above the last level %v; want units dropped before filters", i, units, upper)
		}
		if m.FPRPredicted > 0.1 {
			t.Errorf("store %d: %v wasted reads predicted, want at most 0.1\n%v", i, m.FPRPredicted, m)
		}
		lookUp(t, db, n)
	}
	r.pool.Reserved.Add(-(r.pool.Memory - all*4/3 + all/2))
	if err := stores[0].Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if shed := 0; time.Now().After(deadline) {
			t.Fatalf("filters of the other store are not loaded again:\n%v", stores[1].Metrics())
		} else {
			s, release := stores[1].tree.Acquire()
			s.EachTable(func(_ int, table *tree.Table) {
				if stores[1].share.Short(table) || table.Reader.FilterUnits() == 0 {
					shed++
				}
			})
			release()
			if shed == 0 {
				break
			}
		}
	}
	accounts(t, r, stores[1])
	if err := stores[1].Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAStoreThatHangsStopsNoOther blocks the reads of one store in its file system, inside lookups and with its tables' locks
// held, and then takes every lock of it that there is.
func TestAStoreThatHangsStopsNoOther(t *testing.T) {
	r := newTestResources(t, 8<<20, 8)
	var gate sync.Mutex // held: reads of the hanging store wait
	o := sharing(r)
	o.FS = vfs.NewHook(o.FS, func(op vfs.Op) error {
		if (op.Kind == vfs.OpReadAt || op.Kind == vfs.OpOpen) && strings.HasSuffix(op.Name, ".sst") {
			gate.Lock()
			defer gate.Unlock()
		}
		return nil
	})
	hanging, err := Open("hanging", o)
	if err != nil {
		t.Fatal(err)
	}
	fillStore(t, hanging, 20_000)
	settle(t, hanging)
	other, err := Open("other", sharing(r))
	if err != nil {
		t.Fatal(err)
	}
	s, release := hanging.tree.Acquire()
	s.EachTable(func(_ int, t *tree.Table) { t.Reader.Shed(0, true) }) // so that lookups load
	release()
	gate.Lock()
	var wg sync.WaitGroup
	for i := range uint64(12) { // more than there are descriptors
		key := memoryKey(nil, 2*i*1500)
		wg.Go(func() {
			if ok, err := hanging.Has(key); !ok || err != nil {
				t.Errorf("the lookup that hung: %v, %v", ok, err)
			}
		})
	}
	time.Sleep(10 * time.Millisecond)
	within(t, 30*time.Second, "work beside a store that hangs", func() {
		fillStore(t, other, 2000)
		atRest(t, other)
	})
	free := r.pool.Free()
	r.pool.Reserved.Add(free) // nothing is left for filters and indexes
	within(t, 30*time.Second, "shedding beside a store that hangs", r.pool.Rebalance)
	soon(t, "all of the other store is shed", func() bool {
		m := other.Metrics().Memory
		return m.Filters == 0 && m.Indexes == 0
	})
	r.pool.Reserved.Add(-free)

	w := mutexWalk{seen: map[visit]bool{}, named: map[string]int{}}
	for _, shared := range []any{r.pool, r.pool.Files, r.pool.Blocks, hanging.tree.Domain} { // these are taken for moments only, and by all
		v := reflect.ValueOf(shared)
		w.seen[visit{v.UnsafePointer(), v.Type().Elem()}] = true
	}
	w.walk(reflect.ValueOf(hanging), "db")
	r.pool.Balancing.Lock() // as somebody would who is stuck in what an eviction has released
	var held []sync.Locker
	for _, m := range w.found {
		if l, ok := m.(interface{ TryLock() bool }); ok && l.TryLock() { // the lookups have the others
			held = append(held, m)
		}
	}
	within(t, 30*time.Second, "Close beside a store that hangs", func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
	r.pool.Balancing.Unlock()
	if len(held) < 50 || len(held) > len(w.found)-10 {
		t.Errorf("the test took %d mutexes and the lookups %d, want 50 and 10 at least", len(held), len(w.found)-len(held))
	}
	for _, m := range held {
		m.Unlock()
	}
	gate.Unlock()
	wg.Wait()
	if err := hanging.Close(); err != nil {
		t.Fatal(err)
	}
	accounts(t, r)
}

func TestStoresOpenWorkAndCloseSideBySide(t *testing.T) {
	r := newTestResources(t, 8<<20, 8)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			o := sharing(r)
			for range atStride(20) {
				db, err := Open("db", o)
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
							if _, err := db.Has(key); err != nil && !errors.Is(err, ErrClosed) {
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
	within(t, 2*time.Minute, "opening and closing", wg.Wait)
	accounts(t, r)
}
