package bloomkv_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/forecast"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestThePromiseBeyondMemory opens stores with less and less memory for their filters, down to a twentieth of what the
// filters need. From the first lookup on, lookups of absent keys cost at most what the store promises, and not much
// less. The filters in memory pass hardly more keys than the best filters of their kind and size would. The flag -long
// multiplies keys and lookups.
func TestThePromiseBeyondMemory(t *testing.T) {
	testkit.Long(t)
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
			options := storetest.PlanOptions(vfstest.NewMem(), 0.01, func(o *bloomkv.Options) {
				o.MemoryBudget, o.Resources, o.MemtableSize, o.TableSize = 0, r, 1<<20, 256<<10
				o.FilterKind, o.BlockSize, o.BaseLevelSize = c.kind, 4<<10, 64<<20
			})
			limit(int64(n)) // too short for filters of ten bits a key with space to spare
			db := storetest.PlanStore(t, options, n)
			last := db.Share().Plans().Now.Levels[bloomkv.Bottom]
			if last.Params.Ribbon() != c.ribbon || !c.ribbon && len(last.Params.Units()) != 3 {
				t.Fatalf("filters of %v", last.Params.Units())
			}
			whole := float64(db.Metrics().Levels[bloomkv.Bottom].FilterBytes)
			for _, times := range []float64{0.5, 0.8, 1, 1.25, 1.56, 2, 3, 5, 10, 20} {
				space := whole / times
				limit(int64(space))
				db = storetest.Reopened(t, db, options)
				limit(int64(space)) // the tops of indexes are known now
				testkit.Soon(t, "filters are loaded", func() bool { return asPlanned(db) })
				before := db.Metrics()
				absentKeys(t, db, n, lookups)
				m := db.Metrics()
				l := m.Since(before).Lookups
				bits := 8 * space / float64(n)
				best := max(forecast.LadderOf(c.ribbon).Rate(bits), last.Rate)
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
				if ok, err := db.Has(storetest.PlanKey(2 * (i * uint64(n) / 1000))); !ok || err != nil {
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
		if _, err := db.Get(storetest.PlanKey(2*rng.Uint64N(uint64(n)) + 1)); !errors.Is(err, bloomkv.ErrNotFound) {
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
	options := storetest.PlanOptions(vfstest.NewMem(), 0.01, func(o *bloomkv.Options) {
		o.MemoryBudget, o.Resources = 0, r
		o.Events.PromiseChanged = func(p bloomkv.PromiseInfo) { told <- p }
	})
	db := storetest.PlanStore(t, options, n)
	if len(told) > 0 {
		t.Fatalf("got the event %+v while all filters fit", <-told)
	}
	whole := pool.Held.Bytes().Filter
	must(t, db.Close())
	leaveForFilters(pool, whole/2)
	db = storetest.Reopened(t, nil, options)
	next := func(what string, kept bool) {
		t.Helper()
		testkit.Soon(t, what, func() bool { return len(told) > 0 })
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

// TestNothingWaitsForAFilterToLoad writes to a store while its first filter after Open is being read: memory is divided
// all the same, and metrics come at once.
func TestNothingWaitsForAFilterToLoad(t *testing.T) {
	mem := vfstest.NewMem()
	must(t, storetest.PlanStore(t, storetest.PlanOptions(mem, 0.01, nil), 5000).Close())
	release := make(chan struct{})
	var begun atomic.Bool
	slow := vfstest.NewHook(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpReadAt && strings.HasSuffix(op.Name, ".sst") && op.Size == bloomblock.HeaderSize {
			begun.Store(true)
			<-release
		}
		return nil
	})
	db := storetest.Open(t, "db", storetest.PlanOptions(slow, 0.01, nil))
	defer func() { must(t, db.Close()) }()
	defer close(release)
	testkit.Soon(t, "a filter is read", begun.Load)
	pool := db.Pool()
	before, empty := pool.Free(), db.Tree().Load().MemtableBytes()
	for i := range 100 {
		must(t, db.Put(storetest.PlanKey(uint64(i)), make([]byte, 1000)))
	}
	taken := db.Tree().Load().MemtableBytes() - empty
	testkit.Soon(t, "memory is divided anew", func() bool { return pool.Free() <= before-taken/2 })
	done := make(chan bool)
	go func() {
		defer close(done)
		if m := db.Metrics(); m.Warm || m.Settled || m.Memory.Filters > 0 {
			t.Errorf("with no header read, %d bytes of filters are in memory, warm: %v, settled: %v", m.Memory.Filters,
				m.Warm, m.Settled)
		}
	}()
	select {
	case <-done:
	case <-time.After(testkit.Patience):
		t.Error("Metrics waits for a filter")
	}
}

// TestFiltersKeepToTheirMemoryAsTheStoreGrows grows stores until their filters have a few bits per key, and shrinks
// them again: at rest, filters never exceed their memory, and the promised rate is kept and is the best that fits.
func TestFiltersKeepToTheirMemoryAsTheStoreGrows(t *testing.T) {
	testkit.Long(t)
	const memory, step, steps, lookups = 64 << 10, 12_000, 6, 40_000
	for _, tt := range []struct {
		name   string
		kind   bloomkv.FilterKind
		random bool
	}{
		{"random order", bloomkv.FilterBloom, true},
		{"in order, so that tables are only moved", bloomkv.FilterBloom, false},
		{"Ribbon filters", bloomkv.FilterRibbon, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := storetest.Tiny(vfstest.NewMem())
			o.Durability, o.FilterMemory, o.FilterKind, o.LevelRatio = bloomkv.DurabilityNoSync, memory, tt.kind, 4
			o.MemoryBudget, o.MemtableSize, o.TableSize, o.BaseLevelSize = 64<<20, 128<<10, 128<<10, 256<<10
			o.FilterSeed = 5
			db, err := bloomkv.Open("db", o)
			must(t, err)
			defer func() { _ = db.Close() }()
			key := func(n uint64) []byte {
				if tt.random {
					n *= 0x9e3779b97f4a7c15
				}
				return binary.BigEndian.AppendUint64(nil, n)
			}
			rng := rand.New(rand.NewPCG(5, 6))
			before := 0.0
			rest := func(state string, keys uint64) (fpr float64) {
				t.Helper()
				storetest.Settle(t, db)
				testkit.Soon(t, "filters are loaded", func() bool {
					m := db.Metrics()
					return m.Warm && m.Files.Obsolete == 0 && asPlanned(db)
				})
				m := db.Metrics()
				for range lookups {
					if _, err := db.Get(key(2*rng.Uint64N(keys) + 1)); !errors.Is(err, bloomkv.ErrNotFound) {
						t.Fatalf("%s: %v, want ErrNotFound", state, err)
					}
				}
				wasted := float64(db.Metrics().Lookups.WastedReads - m.Lookups.WastedReads)
				most := 1.15 * m.FPRPromised * float64(lookups)
				t.Logf("%s: %d keys, promised %.4g, predicted %.4g, wasted %.4g; filters %d bytes, %.2f bits a key",
					state, keys, m.FPRPromised, m.FPRPredicted, wasted/float64(lookups), m.Memory.Filters,
					8*float64(m.Memory.Filters)/float64(keys))
				repeats := max(1, float64(lookups)/float64(keys)) // times that a false positive repeats
				if limit := repeats * poissonLimit(most/repeats, 1e-7); wasted > limit {
					t.Errorf("%s: %.0f wasted reads, want about %.0f, at most %.0f\n%v", state, wasted, most, limit, m)
				}
				if m.Memory.Filters > memory {
					t.Errorf("%s: filters take %d bytes, want at most %d\n%v", state, m.Memory.Filters, memory, m)
				}
				if m.FPRPromised > filterplan.BestFPR && m.Memory.Filters < memory*2/5 {
					t.Errorf("%s: filters take %d bytes of %d, at a rate of %g\n%v", state, m.Memory.Filters, memory,
						m.FPRPromised, m)
				}
				return m.FPRPromised
			}
			for i := range uint64(steps) {
				for n := i * step; n < (i+1)*step; n++ {
					must(t, db.Put(key(2*n), make([]byte, 20)))
				}
				must(t, db.Flush(t.Context()))
				fpr := rest("grown", (i+1)*step)
				before = fpr
			}
			if before < 4*filterplan.BestFPR {
				t.Errorf("the last rate is %g: too few keys for a meaningful test", before)
			}
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
			grown := rest("compacted", steps*step)
			must(t, db.Close())
			db = storetest.Open(t, "db", o)
			if again := rest("opened again", steps*step); again != grown {
				t.Errorf("reopened, the rate is %g, before it was %g", again, grown)
			}
			must(t, errors.Join(db.DeleteRange(bloomkv.KeyRange{}), db.Flush(t.Context()),
				db.Compact(t.Context(), bloomkv.CompactOptions{})))
			if m := db.Metrics(); m.FPRPromised != filterplan.BestFPR {
				t.Errorf("when all is deleted a rate of %g is promised, want %g", m.FPRPromised, filterplan.BestFPR)
			}
		})
	}
}

// asPlanned reports whether all filters are in memory in the forms that the plan has memory for.
func asPlanned(db *bloomkv.DB) bool {
	planned := true
	db.Tree().Load().EachTable(func(_ int, t *tree.Table) {
		rate := db.Share().RateOf(t)
		planned = planned && t.Keys.Forms(rate) != nil && t.Keys.Bytes() == t.Keys.Want(rate)
	})
	return planned
}

// poissonLimit returns the count that is exceeded with at most the given chance, for the given mean: with a chance of
// 0.001, three standard deviations above a large mean, and more above a small one.
func poissonLimit(mean, chance float64) float64 {
	if mean > 500 { // from 708 on, the smallest terms are denormal numbers, and their sum never comes near 1
		return mean + math.Sqrt(2*mean)*math.Erfinv(1-2*chance)
	}
	term := math.Exp(-mean)
	count, sum := 0.0, term
	for sum < 1-chance {
		count++
		term *= mean / count
		sum += term
	}
	return count
}

// TestTablesThatOnlyMoveKeepNoMoreFilterThanTheirLevelNeeds loads keys in order, so that no table is ever rewritten.
func TestTablesThatOnlyMoveKeepNoMoreFilterThanTheirLevelNeeds(t *testing.T) {
	testkit.Long(t)
	for _, kind := range []bloomkv.FilterKind{bloomkv.FilterBloom, bloomkv.FilterRibbon} {
		o := storetest.Tiny(vfstest.NewMem())
		o.Durability, o.FilterKind = bloomkv.DurabilityNoSync, kind
		o.MemtableSize, o.TableSize, o.LevelRatio, o.BaseLevelSize = 1<<20, 1<<20, 10, 1<<20
		db := storetest.Open(t, "db", o)
		const keys = 300_000
		value := make([]byte, 60)
		for i := range uint64(keys) {
			must(t, db.Put(binary.BigEndian.AppendUint64(nil, i), value))
		}
		must(t, db.Flush(t.Context()))
		storetest.Settle(t, db)
		testkit.Soon(t, "it is warm", func() bool { return db.Metrics().Warm })
		m := db.Metrics()
		if m.Writes.Moves == 0 || m.Writes.CompactedBytes > 0 {
			t.Fatalf("%d tables moved, %d bytes rewritten: want only moves", m.Writes.Moves, m.Writes.CompactedBytes)
		}
		want := 0.0
		for l, level := range m.Levels {
			want += float64(level.Entries) * db.Share().Plans().Now.Levels[l].Params.BitsPerKey() / 8
		}
		got := float64(m.Memory.Filters)
		t.Logf("kind %d: %.2f bits a key in memory, by the plan %.2f", kind, 8*got/keys, 8*want/keys)
		if got > 1.15*want {
			t.Errorf("kind %d: filters take %.0f bytes, want at most 1.15 × %.0f\n%v", kind, got, want, m)
		}
		must(t, db.Close())
	}
}

// TestABudgetHasItsFiltersBackWhenCompactReturns overwrites a store whose filters take more than half of their memory,
// so those of a compaction's inputs and outputs do not fit at the same time. An open iterator keeps the inputs.
func TestABudgetHasItsFiltersBackWhenCompactReturns(t *testing.T) {
	testkit.Long(t)
	const n, lookups = 60_000, 60_000
	o := storetest.PlanOptions(vfstest.NewMem(), 1e-4, nil)
	db := storetest.PlanStore(t, o, n)
	m := db.Metrics().Memory
	free := db.Pool().Free()
	// As if there were memory for one and a half times the filters, and for indexes, which replaced tables keep while
	// they are read.
	db.Pool().Reserved.Add(free - 4*(m.Filters*3/2+4*m.Indexes)/3)
	db.Pool().Rebalance()
	for round := range 3 {
		if m := db.Metrics(); m.Levels[bloomkv.Bottom].FiltersShed > 0 {
			t.Fatalf("round %d: filters lack units before anything happens\n%v", round, m)
		}
		it := db.Iter(bloomkv.IterOptions{})
		if !it.First() {
			t.Fatal(it.Err())
		}
		for i := range uint64(n) {
			must(t, db.Put(storetest.PlanKey(2*i), make([]byte, 30)))
		}
		must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		m := db.Metrics()
		if got := storetest.Wastes(t, db, n, lookups); m.Levels[bloomkv.Bottom].FiltersShed > 0 ||
			m.FPRPredicted > m.FPRPromised ||
			got > storetest.MostWasted(m.FPRPromised, lookups) {
			t.Errorf("round %d: %d filters lack units; promised %v, predicted %v, wasted %v", round,
				m.Levels[bloomkv.Bottom].FiltersShed, m.FPRPromised, m.FPRPredicted, got)
		}
		must(t, it.Close())
	}
}

// TestThePromiseOfFilterMemoryHoldsFromTheFirstLookup counts the wasted reads of the lookups directly after each kind
// of change: they keep the rate that Metrics then promises, and all filters have the units that the plan allows.
func TestThePromiseOfFilterMemoryHoldsFromTheFirstLookup(t *testing.T) {
	testkit.Long(t)
	const n, lookups = 60_000, 60_000
	for _, c := range []struct {
		name   string
		kind   bloomkv.FilterKind
		memory int64
	}{
		{"Bloom filters of eight bits a key", bloomkv.FilterBloom, 64 << 10},
		{"Bloom filters of twelve bits a key", bloomkv.FilterBloom, 92 << 10},
		{"Ribbon filters of eight bits a key", bloomkv.FilterRibbon, 64 << 10},
		{"Ribbon filters of twelve bits a key", bloomkv.FilterRibbon, 92 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfstest.NewMem()
			o := storetest.PlanOptions(mem, 0, func(o *bloomkv.Options) {
				o.FilterMemory, o.FilterKind, o.BaseLevelSize, o.LevelRatio, o.TableSize = c.memory, c.kind, 1<<20, 4,
					256<<10
			})
			db := storetest.Reopened(t, nil, o)
			best, _, err := forecast.AtRest(filterplan.Options{
				Memory: o.FilterMemory, Kind: filterplan.Kind(o.FilterKind), Ratio: o.LevelRatio,
			}, n, 1)
			must(t, err)
			first := func(change string, whole bool) bloomkv.Metrics {
				t.Helper()
				m := db.Metrics()
				if whole && !m.Settled {
					t.Errorf("%s: not settled, so the promise may change", change)
				}
				if whole && !asPlanned(db) {
					t.Errorf("%s: filters lack units that fit in memory\n%v", change, m)
				}
				got, weight := wastesLikeEntries(t, db, n, lookups)
				t.Logf("%s: promised %.4g, predicted %.4g, wasted %.4g; filters %d bytes", change, m.FPRPromised,
					m.FPRPredicted, got, m.Memory.Filters)
				if limit := weight * poissonLimit(m.FPRPromised/weight, 1e-6); got > limit {
					t.Errorf("%s: %.4g wasted, promised %.4g, want at most %.4g", change, got, m.FPRPromised, limit)
				}
				if whole && (m.FPRPredicted > m.FPRPromised || m.Memory.Filters > c.memory) {
					t.Errorf("%s: promised %v, predicted %v, filters of %d bytes, want at most %d", change,
						m.FPRPromised, m.FPRPredicted, m.Memory.Filters, c.memory)
				}
				return m
			}
			put := func(from, to int) {
				t.Helper()
				for _, i := range rand.New(rand.NewPCG(3, uint64(from))).Perm(to - from) {
					must(t, db.Put(storetest.PlanKey(2*uint64(from+i)), make([]byte, 30)))
				}
			}
			compact := func(change string) {
				t.Helper()
				must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
				if m := first(change, true); m.FPRPromised > 3*best || m.Levels[bloomkv.Bottom].FiltersShed > 0 {
					t.Errorf("%s: promised %v, want at most %v; %d filters lack units\n%v", change, m.FPRPromised,
						3*best, m.Levels[bloomkv.Bottom].FiltersShed, m)
				}
			}
			put(0, n*9/10)
			storetest.Settle(t, db)
			first("load", true)
			compact("Compact")
			put(n*9/10, n*19/20) // one run: too few for a compaction
			must(t, db.Flush(t.Context()))
			first("Flush", true)
			var sorted iter.Seq2[bloomkv.KV, error] = func(yield func(bloomkv.KV, error) bool) {
				var keys [][]byte
				for i := n * 19 / 20; i < n; i++ {
					keys = append(keys, storetest.PlanKey(2*uint64(i)))
				}
				slices.SortFunc(keys, bytes.Compare)
				for _, key := range keys {
					if !yield(bloomkv.KV{Key: key, Value: make([]byte, 30)}, nil) {
						return
					}
				}
			}
			must(t, db.Ingest(t.Context(), sorted, bloomkv.IngestOptions{}))
			first("Ingest", true)
			compact("Compact again")

			before := db.Metrics().FPRPromised
			must(t, db.Close())
			db = storetest.Open(t, "db", o)
			defer func() { _ = db.Close() }()
			first("reopening", false)
			testkit.Soon(t, "it is warm", func() bool { return db.Metrics().Warm })
			if m := first("warm", true); m.FPRPromised != before {
				t.Errorf("promised %v, before reopening %v", m.FPRPromised, before)
			}
		})
	}
}

// wastesLikeEntries looks up absent keys, each once. It returns the wasted reads per lookup as if the lookups in each
// run were spread like the entries of the run: merging a part of a level leaves tables of the same size that cover
// parts of different width. weight is the largest share that a single wasted read has in the result. The tree must
// not change.
func wastesLikeEntries(t *testing.T, db *bloomkv.DB, n, lookups int) (rate, weight float64) {
	t.Helper()
	s, asked, before := db.Tree().Load(), map[*tree.Table]float64{}, map[*tree.Table]uint64{}
	wasted := func(table *tree.Table) uint64 { return table.FalsePositives.Load() + table.Unfiltered.Load() }
	s.EachTable(func(_ int, table *tree.Table) { before[table] = wasted(table) })
	for _, i := range rand.New(rand.NewPCG(7, 8)).Perm(n)[:lookups] {
		key := storetest.PlanKey(2*uint64(i) + 1)
		for _, r := range s.Runs {
			if at := r.Find(key); at >= 0 {
				asked[r.Tables[at]]++
			}
		}
		if _, err := db.Get(key); !errors.Is(err, bloomkv.ErrNotFound) {
			t.Fatalf("%v, want ErrNotFound", err)
		}
	}
	for _, r := range s.Runs {
		entries := uint64(0)
		for _, table := range r.Tables {
			entries += table.Meta.Entries
		}
		for _, table := range r.Tables {
			if asked[table] > 0 {
				each := float64(table.Meta.Entries) / float64(entries) / asked[table]
				rate += each * float64(wasted(table)-before[table])
				weight = max(weight, each)
			}
		}
	}
	return rate, weight
}

// TestAStoreIsNotSettledBeforeItsFiltersFollowThePlan stops a flush after readers see its table, and before the other
// filters have made space for that of the new table.
func TestAStoreIsNotSettledBeforeItsFiltersFollowThePlan(t *testing.T) {
	const n = 60_000
	o := storetest.PlanOptions(vfstest.NewMem(), 0, func(o *bloomkv.Options) { o.FilterMemory = 64 << 10 })
	db := storetest.PlanStore(t, o, n)
	storetest.Settle(t, db)
	for i := range uint64(300) { // less than a memtable
		must(t, db.Put(storetest.PlanKey(2*(n+i)), make([]byte, 30)))
	}
	flushed := make(chan error, 1)
	func() {
		db.Pool().Balancing.Lock()
		defer db.Pool().Balancing.Unlock()
		go func() { flushed <- db.Flush(t.Context()) }()
		testkit.Soon(t, "readers see the new table", func() bool { return len(db.Tree().Load().Runs) == 2 })
		if db.Metrics().Settled {
			t.Error("settled, but the filters do not follow the plan yet")
		}
	}()
	must(t, <-flushed)
	db.Pool().Rebalance()
	storetest.Settle(t, db)
	if m := db.Metrics(); !m.Settled || !asPlanned(db) {
		t.Errorf("settled %v after Flush, filters as planned %v\n%v", m.Settled, asPlanned(db), m)
	}
}

// TestAStoreIsNotSettledWhileFiltersAreLoaded gives a store memory for its filters again, and has a read of them hang.
func TestAStoreIsNotSettledWhileFiltersAreLoaded(t *testing.T) {
	r := newTestResources(t, 64<<20, 0)
	pool, release := r.Pool(), make(chan struct{})
	var slow, begun atomic.Bool
	var there []string // when slow is set
	mem := vfstest.NewMem()
	fsys := vfstest.NewHook(mem, func(op vfstest.Op) error {
		if slow.Load() && op.Kind == vfstest.OpReadAt && slices.Contains(there, filepath.Base(op.Name)) {
			begun.Store(true)
			<-release
		}
		return nil
	})
	db := storetest.PlanStore(t, storetest.PlanOptions(fsys, 0.01, func(o *bloomkv.Options) {
		o.MemoryBudget, o.Resources = 0, r
	}), 40_000)
	testkit.Soon(t, "it is warm", func() bool { return db.Metrics().Warm })
	whole := pool.Held.Bytes().Filter
	leaveForFilters(pool, whole/2)
	testkit.Soon(t, "filters are reduced", func() bool { return pool.Held.Bytes().Filter <= whole/2 })
	storetest.Settle(t, db)
	var err error
	there, err = mem.List("db")
	must(t, err)
	slow.Store(true)
	leaveForFilters(pool, 2*whole)
	testkit.Soon(t, "a filter is read", begun.Load)
	if db.Metrics().Settled {
		t.Error("settled, but filters are being loaded")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := db.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Flush does not wait for filters that are being loaded: %v", err)
	}
	flushed := func() uint64 { return db.Metrics().Writes.Flushes }
	for before := flushed(); flushed() < before+3; { // a memtable waits for none of these filters
		must(t, db.Put([]byte("key"), make([]byte, 1<<20)))
	}
	close(release)
	must(t, db.Flush(t.Context()))
	if !asPlanned(db) {
		t.Error("filters are not as planned when Flush returns")
	}
	storetest.Settle(t, db)
	if got := pool.Held.Bytes().Filter; got < whole {
		t.Errorf("filters take %d bytes, want at least %d", got, whole)
	}
	must(t, db.Close())
}

// TestPrefixFiltersTakeMemoryWhenTheyAreAskedAndThereIsRoom scans a store with enough memory, without, and with enough
// again.
func TestPrefixFiltersTakeMemoryWhenTheyAreAskedAndThereIsRoom(t *testing.T) {
	o := storetest.Tiny(vfstest.NewMem())
	o.Durability, o.FilterPrefix = bloomkv.DurabilityNoSync, bloomkv.PrefixSeparator('/', 1)
	o.MemtableSize, o.TableSize = 64<<10, 64<<10
	db := storetest.Open(t, "db", o)
	defer db.Close()
	for i := range 8000 {
		must(t, db.Put(fmt.Appendf(nil, "%05d/key", i), nil))
	}
	must(t, errors.Join(db.Flush(t.Context()), db.Compact(t.Context(), bloomkv.CompactOptions{})))
	storetest.Settle(t, db)
	unasked := uint64(0)
	// scan scans for all prefixes, and checks whether filters were loaded and whether tables lacked them.
	scan := func(what string, loaded bool) {
		t.Helper()
		for i := range 8000 {
			it := db.Iter(bloomkv.IterOptions{Prefix: fmt.Appendf(nil, "%05d/", i)})
			if !it.First() || it.Next() || it.Close() != nil {
				t.Fatalf("%s: prefix %d: %v", what, i, it.Err())
			}
		}
		m := db.Metrics()
		var levels int64
		for _, l := range m.Levels {
			levels += l.FilterBytesInMemory
		}
		if (m.Memory.PrefixFilters > 0) != loaded || levels != m.Memory.Filters ||
			m.Memory.PrefixFilters > m.Memory.Filters {
			t.Errorf("%s: want filters loaded %v; levels have %d bytes\n%v", what, loaded, levels, m)
		}
		if (m.Prefixes.Unasked > unasked) == loaded {
			t.Errorf("%s: %d tables without a filter, before %d", what, m.Prefixes.Unasked, unasked)
		}
		unasked = m.Prefixes.Unasked
	}
	// This range has no common prefix.
	if it := db.Iter(bloomkv.IterOptions{Lower: []byte("00"), Upper: []byte("9")}); !it.First() || it.Close() != nil {
		t.Fatal(it.Err())
	}
	if m := db.Metrics(); m.Memory.PrefixFilters != 0 || m.Prefixes != (bloomkv.PrefixMetrics{}) {
		t.Errorf("no prefix was scanned, but\n%v", m)
	}
	free := db.Pool().Free() // that filters may take
	limit := func(bytes int64) {
		db.Pool().Reserved.Add(db.Pool().Free() - bytes)
		db.Pool().Rebalance()
	}
	limit(db.Metrics().Memory.Filters*16/15 + 32)
	scan("no space beside the filters of keys", false)
	limit(free)
	testkit.Soon(t, "filters are loaded", func() bool { return db.Metrics().Memory.PrefixFilters > 0 })
	scan("space", true)
	before := db.Metrics().Memory.PrefixFilters
	limit(0)
	scan("no space", false)
	limit(free)
	testkit.Soon(t, "filters are restored", func() bool { return db.Metrics().Memory.PrefixFilters == before })
	scan("restored", true)
	if after := db.Metrics().Memory.PrefixFilters; after != before {
		t.Errorf("restored %d bytes, want %d", after, before)
	}
	db.Tree().Load().EachTable(func(_ int, table *tree.Table) {
		p, err := table.Reader.Properties()
		if err != nil || table.Meta.FilterLen <= p.Prefixes.Bytes || p.Prefixes.Keys == 0 ||
			p.Prefixes.Rule != "sep:/:1" {
			t.Errorf("%s: %+v, %v", table.File.Name, p, err)
		}
	})
	must(t, db.Close())
	if held := db.Pool().Held.Sum(); held != 0 {
		t.Errorf("after Close, %d bytes are held", held)
	}
}

// TestWhatIsPromisedPredictedAndMeasuredAgrees compares the three rates, with all filters and with some.
func TestWhatIsPromisedPredictedAndMeasuredAgrees(t *testing.T) {
	testkit.Long(t)
	const n = 20_000
	o := storetest.Small(vfstest.NewMem())
	o.Durability, o.FilterFPR = bloomkv.DurabilityNoSync, 0.05
	db := storetest.Open(t, "db", o)
	defer db.Close()
	key := func(i int) []byte { return fmt.Appendf(nil, "key%08d", i) }
	for i := range n {
		must(t, db.Put(key(i*7919%n*2), []byte("0123456789abcdef")))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	look := func() bloomkv.Metrics {
		t.Helper()
		before := db.Metrics()
		for i := range 4 * n {
			if ok, err := db.Has(key(i)); err != nil || ok != (i%2 == 0 && i < 2*n) {
				t.Fatalf("key %d: %v, %v", i, ok, err)
			}
		}
		var many [][]byte
		for i := range 4 * n {
			many = append(many, key(i))
		}
		must(t, db.GetMany(many, func(i int, _ []byte, found bool) error {
			if found != (i%2 == 0 && i < 2*n) {
				t.Errorf("key %d: %v", i, found)
			}
			return nil
		}))
		return db.Metrics().Since(before)
	}
	m := look()
	l := m.Lookups
	if l.Gets != 8*n || l.TableHits != 2*n || l.Absent() != 6*n || l.MemtableHits != 0 {
		t.Errorf("%d lookups, %d of keys in tables, %d of absent keys; want %d, %d, %d", l.Gets, l.TableHits,
			l.Absent(), 8*n, 2*n, 6*n)
	}
	if m.FPRPromised != 0.05 || m.FPRPredicted <= 0 || m.FPRPredicted > m.FPRPromised {
		t.Errorf("predicted %v, want at most the %v promised", m.FPRPredicted, m.FPRPromised)
	}
	// All keys are in one run, and two of every three lookups of absent keys are outside its key range.
	inRange := float64(l.RunsInRange-l.TableHits) / float64(l.Absent())
	if got, want := l.WastedPerAbsent(), m.FPRPredicted*inRange; math.Abs(got/want-1) > 0.2 {
		t.Errorf("measured %v wasted reads per absent key, %v of the lookups in range: want about %v", got, inRange,
			want)
	}
	if l.WastedReads != l.AbsentWasted {
		t.Errorf("%d wasted reads, %d by lookups of absent keys: want the same in one run", l.WastedReads,
			l.AbsentWasted)
	}
	last := m.Levels[bloomkv.Bottom]
	if last.Runs != 1 || math.Abs(last.FPRPredicted-m.FPRPredicted) > 1e-12 || last.FiltersShed != 0 {
		t.Errorf("level %d: %+v, want one run with the whole prediction %v", bloomkv.Bottom, last, m.FPRPredicted)
	}
	if m.Cache.Hits != l.Blocks-l.BlocksRead || m.Cache.Misses != l.BlocksRead || m.Cache.Used == 0 ||
		m.Cache.Used > m.Cache.Capacity || m.Cache.HitRate() <= 0 {
		t.Errorf("cache %+v; %d blocks, %d read", m.Cache, l.Blocks, l.BlocksRead)
	}

	shed := 0
	runs := db.Tree().Load().Runs // the oldest is the only one of the last level
	for i, table := range runs[len(runs)-1].Tables {
		if i%2 == 0 {
			table.Reader.Keys.Reduce(table.Reader.Keys.Forms(1))
			table.Reader.AskInFile(true)
			shed++
		}
	}
	m = look()
	part := float64(shed) / float64(m.Levels[bloomkv.Bottom].Tables)
	if m.Levels[bloomkv.Bottom].FiltersShed != shed || m.FPRPredicted > m.FPRPromised {
		t.Errorf("%d of %d filters are shed, %v predicted, want at most the %v of the filters in the files",
			m.Levels[bloomkv.Bottom].FiltersShed, m.Levels[bloomkv.Bottom].Tables, m.FPRPredicted, m.FPRPromised)
	}
	if got, want := m.Lookups.WastedPerAbsent(), m.FPRPredicted*inRange; math.Abs(got/want-1) > 0.2 {
		t.Errorf("measured %v, want about %v", got, want)
	}
	// Filters that are not in memory are asked in their files.
	if got, want := m.Lookups.ReadsPerAbsent(), part*inRange; m.Lookups.FilterParts == 0 || got < 0.7*want ||
		got > 1.3*want {
		t.Errorf("%v reads for an absent key, want about %v; %d pages of filters", got, want, m.Lookups.FilterParts)
	}
}

// TestTablesOfOtherSeedsAreAsked looks up keys in a store whose filters have different seeds, as after reseeding or an
// ingest of tables from elsewhere.
func TestTablesOfOtherSeedsAreAsked(t *testing.T) {
	db := storetest.Open(t, "db", &bloomkv.Options{FS: vfstest.NewMem(), FilterSeed: 3})
	defer func() {
		must(t, db.Close())
	}()
	var keys [][]byte
	for run := range bloomkv.TriggerRuns - 1 { // too few runs for a compaction
		db.Work().Tables.Seed = bloomblock.Seed(run + 3)
		for i := range 200 {
			k := fmt.Appendf(nil, "%03d/%d", i, run)
			keys = append(keys, k)
			must(t, db.Put(k, k))
		}
		must(t, db.Flush(t.Context()))
	}
	seeds := map[bloomblock.Seed]bool{}
	db.Tree().Load().EachTable(func(_ int, tab *tree.Table) {
		must(t, tab.Reader.Load(0))
		seeds[tab.Reader.Filter().Seed()] = true
	})
	if len(seeds) != bloomkv.TriggerRuns-1 {
		t.Fatalf("filters with %d seeds, want %d", len(seeds), bloomkv.TriggerRuns-1)
	}
	before := db.Metrics().Lookups
	for _, k := range keys {
		if v, err := db.Get(k); err != nil || string(v) != string(k) {
			t.Fatalf("%s: %q, %v", k, v, err)
		}
		if !db.MayContain(k) {
			t.Fatalf("MayContain(%s) = false", k)
		}
	}
	err := db.GetMany(keys, func(i int, v []byte, found bool) error {
		if !found || string(v) != string(keys[i]) {
			return fmt.Errorf("%s: %q, %v", keys[i], v, found)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	after := db.Metrics().Lookups
	if wasted := after.FalsePositives - before.FalsePositives; wasted > uint64(len(keys)/10) {
		t.Errorf("%d false positives in %d lookups", wasted, 2*len(keys))
	}
}
