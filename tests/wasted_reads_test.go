package tests

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestAbsentKeysWasteNoMoreReadsThanPromised counts the searches of tables that did not hold the key, before and after
// Compact.
func TestAbsentKeysWasteNoMoreReadsThanPromised(t *testing.T) {
	const keys = 40000
	lookups := max(storetest.AtStride(100)*2500, keys) // with fewer, chance alone could exceed the limit
	for _, shape := range storetest.KeyShapes {
		t.Run(shape.Name, func(t *testing.T) {
			o := storetest.Tiny(vfstest.NewMem())
			o.Durability, o.BlockSize, o.MemtableSize, o.TableSize, o.LevelRatio = bloomkv.DurabilityNoSync, 4096,
				128<<10, 64<<10, 4
			db, err := bloomkv.Open("db", o)
			must(t, err)
			defer db.Close()
			rng := rand.New(rand.NewPCG(1, 2))
			for _, i := range rng.Perm(keys) {
				must(t, db.Put(shape.Key(uint64(i)*2), []byte("0123456789abcdef")))
			}
			runs := func() (n int) {
				storetest.Settle(t, db)
				for _, l := range db.Metrics().Levels {
					n += l.Runs
				}
				return n
			}
			for rewritten := 0; rewritten == 0 || runs() < 3; rewritten++ { // more overlapping runs
				for range 2000 {
					must(t, db.Put(shape.Key(rng.Uint64N(keys)*2), []byte("again")))
				}
				must(t, db.Flush(t.Context()))
				if rewritten > 10 {
					t.Fatalf("fewer than three runs:\n%v", db.Metrics())
				}
			}
			measure := func(tree string) (before, after bloomkv.LookupMetrics) {
				t.Helper()
				before = db.Metrics().Lookups
				for range lookups {
					if _, err := db.Get(shape.Key(rng.Uint64N(keys)*2 + 1)); !errors.Is(err, bloomkv.ErrNotFound) {
						t.Fatalf("%s: %v, want ErrNotFound", tree, err)
					}
				}
				return before, db.Metrics().Lookups
			}
			promise := db.Metrics().FPRPromised
			for _, tree := range []string{"as written", "compacted"} {
				if tree == "compacted" {
					must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
				}
				runs := runs()
				before, after := measure(tree)
				n := float64(after.Gets - before.Gets)
				wasted := float64(after.WastedReads-before.WastedReads) / n
				blocks := float64(after.Blocks-before.Blocks) / n
				inRange := float64(after.RunsInRange-before.RunsInRange) / n
				t.Logf("%s: %d runs, %.2f tables in range, %.5f wasted reads and %.5f blocks per lookup, promised %g",
					tree, runs, inRange, wasted, blocks, promise)
				if wasted > 1.15*promise || blocks > 1.15*promise*1.01 {
					t.Errorf("%s: %.5f wasted reads and %.5f blocks a lookup, want at most 1.15 × %g", tree, wasted,
						blocks, promise)
				}
				if inRange < 0.9 || tree == "as written" && inRange < 1.3 {
					t.Errorf("%s: %d runs and %.2f tables in range per lookup: the test tests little", tree, runs,
						inRange)
				}
				if got := after.Gets - before.Gets; got != uint64(lookups) {
					t.Errorf("%s: %d lookups counted, want %d", tree, got, lookups)
				}
			}
		})
	}
}

// TestWithoutFiltersEveryRunInRangeIsSearched shows the cost that filters avoid.
func TestWithoutFiltersEveryRunInRangeIsSearched(t *testing.T) {
	o := storetest.Tiny(vfstest.NewMem())
	o.Durability, o.FilterFPR = bloomkv.DurabilityNoSync, 1
	db, err := bloomkv.Open("db", o)
	must(t, err)
	defer db.Close()
	for i := range 3000 {
		must(t, db.Put(fmt.Appendf(nil, "k%05d", i*7919%3000*2), []byte("v")))
	}
	must(t, db.Flush(t.Context()))
	storetest.Settle(t, db)
	for i := range 3000 {
		if _, err := db.Get(fmt.Appendf(nil, "k%05d", i*2+1)); !errors.Is(err, bloomkv.ErrNotFound) {
			t.Fatal(err)
		}
	}
	m := db.Metrics()
	l := m.Lookups
	if l.WastedReads != l.RunsInRange || l.WastedReads < 2990 || l.FilterProbes != 0 || m.Memory.Filters != 0 {
		t.Errorf("%d wasted reads of %d tables in range, %d probes, %d bytes of filters; want all searched unfiltered",
			l.WastedReads, l.RunsInRange, l.FilterProbes, m.Memory.Filters)
	}
}
