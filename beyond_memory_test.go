package bloomkv_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestThePromiseBeyondMemory opens stores with less and less memory for their filters, down to a twentieth of what the
// filters need. From the first lookup on, lookups of absent keys cost at most what the store promises, and not much
// less. The filters in memory pass hardly more keys than the best filters of their kind and size would. The flag -long
// multiplies keys and lookups.
func TestThePromiseBeyondMemory(t *testing.T) {
	n, lookups := 50_000**storetest.Long, 60_000**storetest.Long
	for _, c := range []struct {
		name   string
		kind   bloomkv.FilterKind
		ribbon bool
	}{
		{"Bloom filters", bloomkv.FilterBloom, false},
		{"Ribbon filters", bloomkv.FilterRibbon, true},
		{"as the planner chooses", bloomkv.FilterAuto, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newTestResources(t, 64<<20, 0)
			pool := r.Pool()
			limit := func(bytes int64) { leaveForFilters(pool, bytes) }
			options := planOptionsFor(vfstest.NewMem(), 0.01, func(o *bloomkv.Options) {
				o.MemoryBudget, o.Resources, o.MemtableSize, o.TableSize = 0, r, 1<<20, 256<<10
				o.FilterKind, o.BlockSize, o.BaseLevelSize = c.kind, 4<<10, 64<<20
			})
			limit(int64(n)) // too short for filters of ten bits a key with space to spare
			db := planStore(t, options, n)
			last := db.Share().Plans().Now.Levels[bloomkv.Bottom]
			if last.Params.Ribbon() != c.ribbon || !c.ribbon && len(last.Params.Units()) != 3 {
				t.Fatalf("filters of %v", last.Params.Units())
			}
			whole := float64(db.Metrics().Levels[bloomkv.Bottom].FilterBytes)
			for _, times := range []float64{0.5, 0.8, 1, 1.25, 1.56, 2, 3, 5, 10, 20} {
				space := whole / times
				limit(int64(space))
				db = reopened(t, db, options)
				limit(int64(space)) // the tops of indexes are known now
				storetest.Soon(t, "filters are loaded", func() bool { return asPlanned(db) })
				before := db.Metrics()
				absentKeys(t, db, n, lookups)
				m := db.Metrics()
				l := m.Since(before).Lookups
				bits := 8 * space / float64(n)
				best := max(filterplan.LadderOf(c.ribbon).Rate(bits), last.Rate)
				passed := float64(l.FilterParts+l.AbsentWasted) / float64(lookups)
				t.Logf("%4g times what fits, %5.2f bits a key: %.4f pass, the best is %.4f; %.4f wasted of %.4f "+
					"promised, %.4f reads of %.4f", times, bits, passed, best, l.WastedPerAbsent(), m.FPRPromised,
					l.ReadsPerAbsent(), before.ReadsPromised)
				noise := func(rate float64) float64 { // lookups of n absent keys, some of them several times
					return 4 * math.Sqrt(rate/float64(lookups)+rate/float64(n))
				}
				if most := 1.2*best + last.Rate; passed > most+noise(most) {
					t.Errorf("%g times: %.4f of absent keys pass the filters in memory, want at most %.4f", times,
						passed, most)
				}
				if m.Memory.Filters > int64(space)+64 {
					t.Errorf("%g times: filters take %d bytes, want at most %.0f", times, m.Memory.Filters, space)
				}
				if got := l.WastedPerAbsent(); got > m.FPRPromised+noise(m.FPRPromised) ||
					m.FPRPromised > 1.3*max(got, 0.01) {
					t.Errorf("%g times: %.4f wasted, promised %.4f", times, got, m.FPRPromised)
				}
				if got, p := l.ReadsPerAbsent(), before.ReadsPromised; got > p+noise(p) ||
					p > 1.3*max(got, 0.02)+noise(p) {
					t.Errorf("%g times: %.4f reads, promised %.4f", times, got, p)
				}
				if short := m.BudgetNeeded > pool.Memory; m.FPRAsked != 0.01 || l.FilterNegatives == 0 && times < 10 {
					t.Errorf("%g times: %v asked, needed %d, short %v", times, m.FPRAsked, m.BudgetNeeded, short)
				}
			}
			for i := range uint64(1000) { // no filter in any form denies a key
				if ok, err := db.Has(planKey(2 * (i * uint64(n) / 1000))); !ok || err != nil {
					t.Fatalf("present key %d: %v, %v", i, ok, err)
				}
			}
		})
	}
}

// leaveForFilters leaves the given bytes of a pool for filters, as if range tombstones of other stores had the rest.
func leaveForFilters(pool *budget.Pool, bytes int64) {
	held := pool.Held.Bytes()
	pool.Held.Add(tree.TableBytes{RangeDeletes: pool.Free() - held.Fixed() - (bytes+15)/15*16})
	pool.Rebalance()
}

// absentKeys looks up absent keys.
func absentKeys(t *testing.T, db *bloomkv.DB, n, lookups int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(11, 12))
	for range lookups {
		if _, err := db.Get(planKey(2*rng.Uint64N(uint64(n)) + 1)); !errors.Is(err, bloomkv.ErrNotFound) {
			t.Fatalf("%v, want ErrNotFound", err)
		}
	}
}

// TestAPromiseThatMemoryCannotKeepIsToldOnce opens a store with memory that is too short, gives it more, and takes that
// away again.
func TestAPromiseThatMemoryCannotKeepIsToldOnce(t *testing.T) {
	const n = 40_000
	r := newTestResources(t, 64<<20, 0)
	pool := r.Pool()
	told := make(chan bloomkv.PromiseInfo, 100)
	options := planOptionsFor(vfstest.NewMem(), 0.01, func(o *bloomkv.Options) {
		o.MemoryBudget, o.Resources = 0, r
		o.Events.PromiseChanged = func(p bloomkv.PromiseInfo) { told <- p }
	})
	db := planStore(t, options, n)
	if len(told) > 0 {
		t.Fatalf("got the event %+v while all filters fit", <-told)
	}
	whole := pool.Held.Bytes().Filter
	must(t, db.Close())
	leaveForFilters(pool, whole/2)
	db = reopened(t, nil, options)
	next := func(what string, kept bool) {
		t.Helper()
		storetest.Soon(t, what, func() bool { return len(told) > 0 })
		p := <-told
		need := filterplan.Space(p.Budget)
		if p.Kept != kept || p.Asked != 0.01 || (p.Reads > 0.02) == kept || need < whole {
			t.Errorf("%s: %+v, want kept %v; filters take %d bytes", what, p, kept, whole)
		}
		for range 3 {
			pool.Rebalance()
			absentKeys(t, db, n, 100)
		}
		if len(told) > 0 {
			t.Errorf("%s: told again: %+v", what, <-told)
		}
	}
	next("opened with too little memory", false)
	leaveForFilters(pool, 2*whole+pool.Reserved.Load()) // also with full memtables
	next("more memory", true)
	leaveForFilters(pool, whole/2)
	next("less memory again", false)
	must(t, db.Close())
}

// TestAWriterDoesNotWaitForMemoryThatItLent writes most of a memtable a hundred times, each time while memory is being
// divided and all filters are being loaded, as far as the locks show: that goes on behind the writer.
func TestAWriterDoesNotWaitForMemoryThatItLent(t *testing.T) {
	const memtable = 256 << 10
	db, err := bloomkv.Open("db", &bloomkv.Options{
		FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync, MemtableSize: memtable, MemoryBudget: 8 << 20,
	})
	must(t, err)
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
		s, release := db.Tree().Acquire()
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
		case <-time.After(30 * time.Second):
			t.Error("a writer waits for memory")
		}
		for _, l := range locked {
			l.Unlock()
		}
		release()
		if t.Failed() {
			return
		}
		must(t, db.Flush(t.Context()))
	}
	if w := db.Metrics().Writes; w.StoppedByMemtable.Count > 0 {
		t.Errorf("writes were stopped: %+v", w.StoppedByMemtable)
	}
	t.Logf("%d puts took %v at most", memtable/2/len(value), longest)
}

// TestNothingWaitsForAFilterToLoad writes to a store while its first filter after Open is being read: memory is divided
// all the same, and metrics come at once.
func TestNothingWaitsForAFilterToLoad(t *testing.T) {
	mem := vfstest.NewMem()
	must(t, planStore(t, planOptionsFor(mem, 0.01, nil), 5000).Close())
	release := make(chan struct{})
	var begun atomic.Bool
	slow := vfstest.NewHook(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpReadAt && strings.HasSuffix(op.Name, ".sst") && op.Size == bloomblock.HeaderSize {
			begun.Store(true)
			<-release
		}
		return nil
	})
	db, err := bloomkv.Open("db", planOptionsFor(slow, 0.01, nil))
	must(t, err)
	defer func() { must(t, db.Close()) }()
	defer close(release)
	storetest.Soon(t, "a filter is read", begun.Load)
	pool := db.Pool()
	before, empty := pool.Free(), db.Tree().Load().MemtableBytes()
	for i := range 100 {
		must(t, db.Put(planKey(uint64(i)), make([]byte, 1000)))
	}
	taken := db.Tree().Load().MemtableBytes() - empty
	storetest.Soon(t, "memory is divided anew", func() bool { return pool.Free() <= before-taken/2 })
	done := make(chan bool)
	go func() {
		defer close(done)
		if m := db.Metrics(); m.Warm || m.Memory.Filters > 0 {
			t.Errorf("with no header read, %d bytes of filters are in memory, warm: %v", m.Memory.Filters, m.Warm)
		}
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Error("Metrics waits for a filter")
	}
}
