package bloomkv_test

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestFiltersKeepToTheirMemoryAsTheStoreGrows grows stores until their filters have a few bits per key, and shrinks
// them again: at rest, filters never exceed their memory, and the promised rate is kept and is the best that fits.
func TestFiltersKeepToTheirMemoryAsTheStoreGrows(t *testing.T) {
	const memory, step, steps = 64 << 10, 12_000, 6
	lookups := 2000 * storetest.AtStride(20)
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
				storetest.Soon(t, "filters are loaded", func() bool {
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
				if limit := repeats * poissonLimit(most/repeats, 1e-3); wasted > limit {
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
			if db, err = bloomkv.Open("db", o); err != nil {
				t.Fatal(err)
			}
			if again := rest("opened again", steps*step); again != grown {
				t.Errorf("reopened, the rate is %g, before it was %g", again, grown)
			}
			if err := errors.Join(db.DeleteRange(bloomkv.KeyRange{}), db.Flush(t.Context()),
				db.Compact(t.Context(), bloomkv.CompactOptions{})); err != nil {
				t.Fatal(err)
			}
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

func TestMemoryForFiltersThatMakesNoSense(t *testing.T) {
	mem := vfstest.NewMem()
	for _, tt := range []struct {
		want string
		o    bloomkv.Options
	}{
		{
			"option FilterMemory: 1000000, want 0 with FilterFPR, which is 0.1",
			bloomkv.Options{FilterMemory: 1_000_000, FilterFPR: 0.1},
		},
		{"option FilterMemory: 65535, want 65536 to 33554432", bloomkv.Options{FilterMemory: 64<<10 - 1}},
		{"option FilterMemory: -1, want 65536 to ", bloomkv.Options{FilterMemory: -1}},
		{
			"option FilterMemory: 4194305, want 65536 to 4194304",
			bloomkv.Options{FilterMemory: 4<<20 + 1, MemoryBudget: 8 << 20},
		},
		{"option FilterFPR: -0.1, want more than 0", bloomkv.Options{FilterFPR: -0.1}},
		{"option FilterFPR: NaN, want more than 0", bloomkv.Options{FilterFPR: math.NaN()}},
		{"option FilterKind: 3, want 0 to 2", bloomkv.Options{FilterKind: 3}},
	} {
		tt.o.FS = mem
		if _, err := bloomkv.Open("db", &tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
	o := storetest.Tiny(mem)
	o.Durability, o.MemoryBudget, o.MemtableSize, o.TableSize, o.BaseLevelSize = bloomkv.DurabilityNoSync, 64<<20,
		4<<20, 4<<20, 64<<20
	db, err := bloomkv.Open("db", o)
	must(t, err)
	for i := range uint64(600_000) { // more keys than bits
		must(t, db.Put(binary.BigEndian.AppendUint64(nil, i), nil))
	}
	must(t, db.Close())
	o.FilterMemory = 64 << 10
	if _, err := bloomkv.Open("db", o); !errors.Is(err, bloomkv.ErrFilterRate) ||
		!strings.Contains(err.Error(), "option FilterMemory: 65536, and filters of 600000 keys take ") {
		t.Errorf("too little for any filters: got %v, want ErrFilterRate and the memory that they need", err)
	}
	o.FilterMemory = 1 << 20
	if db, err = bloomkv.Open("db", o); err != nil {
		t.Fatal(err)
	}
	must(t, db.Close())
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

// TestFiltersAreCutWhenTheStoreIsWarm reopens a store with less memory than its filters need. Once all filters have
// been read their sizes are known, and those that do not fit are dropped, even if the store does not change.
func TestFiltersAreCutWhenTheStoreIsWarm(t *testing.T) {
	mem := vfstest.NewMem()
	bloom := func(memory int64) *bloomkv.Options {
		return planOptionsFor(mem, 0, func(o *bloomkv.Options) {
			o.FilterMemory, o.FilterKind = memory, bloomkv.FilterBloom
		})
	}
	db := planStore(t, bloom(256<<10), 80_000)
	if m := db.Metrics(); m.Memory.Filters < 160<<10 || m.Levels[bloomkv.Bottom].FiltersShed > 0 {
		t.Fatalf("filters take %d bytes of %d, %d were shed", m.Memory.Filters, 256<<10,
			m.Levels[bloomkv.Bottom].FiltersShed)
	}
	const less = 64 << 10
	db = reopened(t, db, bloom(less))
	if m := db.Metrics(); m.Memory.Filters > less || m.Memory.Filters < less/2 ||
		m.Levels[bloomkv.Bottom].FiltersShed == 0 {
		t.Errorf("filters take %d bytes of %d, %d were shed", m.Memory.Filters, less,
			m.Levels[bloomkv.Bottom].FiltersShed)
	}
}

// TestFiltersOfReplacedTablesGoAtOnce holds an iterator on all tables that a compaction replaces. Their filters are
// freed for those of the new tables, and the iterator still works.
func TestFiltersOfReplacedTablesGoAtOnce(t *testing.T) {
	const n = 20_000
	db := planStore(t, planOptionsFor(vfstest.NewMem(), 0.01, nil), n)
	storetest.Soon(t, "the tables that the last compaction replaced are removed",
		func() bool { return db.Metrics().Files.Obsolete == 0 })
	before := db.Metrics()
	it := db.Iter(bloomkv.IterOptions{})
	if !it.First() {
		t.Fatal(it.Close())
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{Rewrite: true}))
	m := db.Metrics()
	if m.Files.Obsolete != before.Files.Tables {
		t.Errorf("the iterator holds %d tables, want %d", m.Files.Obsolete, before.Files.Tables)
	}
	if m.Memory.Filters > before.Memory.Filters*11/10 {
		t.Errorf("filters take %d bytes, want about %d, as before", m.Memory.Filters, before.Memory.Filters)
	}
	keys := 1
	for it.Next() {
		keys++
	}
	if err := it.Close(); err != nil || keys != n {
		t.Errorf("%d keys, %v, want %d", keys, err, n)
	}
}

// TestTablesThatOnlyMoveKeepNoMoreFilterThanTheirLevelNeeds loads keys in order, so that no table is ever rewritten.
func TestTablesThatOnlyMoveKeepNoMoreFilterThanTheirLevelNeeds(t *testing.T) {
	for _, kind := range []bloomkv.FilterKind{bloomkv.FilterBloom, bloomkv.FilterRibbon} {
		o := storetest.Tiny(vfstest.NewMem())
		o.Durability, o.FilterKind = bloomkv.DurabilityNoSync, kind
		o.MemtableSize, o.TableSize, o.LevelRatio, o.BaseLevelSize = 1<<20, 1<<20, 10, 1<<20
		db, err := bloomkv.Open("db", o)
		must(t, err)
		const keys = 300_000
		value := make([]byte, 60)
		for i := range uint64(keys) {
			must(t, db.Put(binary.BigEndian.AppendUint64(nil, i), value))
		}
		must(t, db.Flush(t.Context()))
		storetest.Settle(t, db)
		storetest.Soon(t, "it is warm", func() bool { return db.Metrics().Warm })
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
