package bloomkv_test

import (
	"bytes"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestABudgetHasItsFiltersBackWhenCompactReturns overwrites a store whose filters take more than half of their memory,
// so those of a compaction's inputs and outputs do not fit at the same time. An open iterator keeps the inputs.
func TestABudgetHasItsFiltersBackWhenCompactReturns(t *testing.T) {
	const n = 60_000
	lookups := storetest.AtStride(60_000)
	o := planOptionsFor(vfstest.NewMem(), 1e-4, nil)
	db := planStore(t, o, n)
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
			must(t, db.Put(planKey(2*i), make([]byte, 30)))
		}
		must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		m := db.Metrics()
		if got := wastes(t, db, n, lookups); m.Levels[bloomkv.Bottom].FiltersShed > 0 ||
			m.FPRPredicted > m.FPRPromised ||
			got > most(m.FPRPromised, lookups) {
			t.Errorf("round %d: %d filters lack units; promised %v, predicted %v, wasted %v", round,
				m.Levels[bloomkv.Bottom].FiltersShed, m.FPRPromised, m.FPRPredicted, got)
		}
		must(t, it.Close())
	}
}

// TestThePromiseOfFilterMemoryHoldsFromTheFirstLookup counts the wasted reads of the lookups directly after each kind
// of change: they keep the rate that Metrics then promises, and all filters have the units that the plan allows.
func TestThePromiseOfFilterMemoryHoldsFromTheFirstLookup(t *testing.T) {
	const n = 60_000
	lookups := storetest.AtStride(60_000)
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
			o := planOptionsFor(mem, 0, func(o *bloomkv.Options) {
				o.FilterMemory, o.FilterKind, o.BaseLevelSize, o.LevelRatio, o.TableSize = c.memory, c.kind, 1<<20, 4,
					256<<10
			})
			db := reopened(t, nil, o)
			best, _, err := o.Planner().AtRest(0, n, 1)
			must(t, err)
			first := func(change string, whole bool) bloomkv.Metrics {
				t.Helper()
				m := db.Metrics()
				if !m.Settled {
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
					must(t, db.Put(planKey(2*uint64(from+i)), make([]byte, 30)))
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
					keys = append(keys, planKey(2*uint64(i)))
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
			if db, err = bloomkv.Open("db", o); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			first("reopening", false)
			storetest.Soon(t, "it is warm", func() bool { return db.Metrics().Warm })
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
		key := planKey(2*uint64(i) + 1)
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
	db := planStore(t, planOptionsFor(vfstest.NewMem(), 0, func(o *bloomkv.Options) { o.FilterMemory = 64 << 10 }), n)
	storetest.Soon(t, "it is warm", func() bool { return db.Metrics().Warm })
	storetest.Settle(t, db)
	for i := range uint64(300) { // less than a memtable
		must(t, db.Put(planKey(2*(n+i)), make([]byte, 30)))
	}
	flushed := make(chan error, 1)
	func() {
		db.Pool().Balancing.Lock()
		defer db.Pool().Balancing.Unlock()
		go func() { flushed <- db.Flush(t.Context()) }()
		storetest.Soon(t, "readers see the new table", func() bool { return len(db.Tree().Load().Runs) == 2 })
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
