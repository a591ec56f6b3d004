package tests

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// ratedShapes are the kinds of keys for which the promise is measured; even numbers are stored, odd ones lie between
// them.
var ratedShapes = []struct {
	name string
	key  func(dst []byte, n uint64) []byte
}{
	{"integers", binary.BigEndian.AppendUint64},
	{"decimal", func(dst []byte, n uint64) []byte { return fmt.Appendf(dst, "%016d", n) }},
	{"random bytes", func(dst []byte, n uint64) []byte {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, n*0x9e3779b97f4a7c15),
			n*0xbf58476d1ce4e5b9)
	}},
	{"long shared prefixes", func(dst []byte, n uint64) []byte {
		return fmt.Appendf(dst, "/tenants/0000000%d/collections/documents/%012d", n%4>>1, n)
	}},
	{"groups of 128", func(dst []byte, n uint64) []byte {
		return append(binary.BigEndian.AppendUint64(dst, n>>8*0x9e3779b97f4a7c15), byte(n))
	}},
}

// TestThePromiseIsKeptInEveryStateOfTheTree measures the wasted reads of lookups of absent keys: after a load in random
// order, after overwrites, during a compaction, and after Compact. With -long above 1 it measures all shapes at all
// rates with both kinds of filters and a million keys each; otherwise it measures three combinations with fewer keys.
func TestThePromiseIsKeptInEveryStateOfTheTree(t *testing.T) {
	testkit.Long(t)
	keys, stride := 150_000, 11
	if *storetest.Long > 1 {
		keys, stride = 1_000_000, 1
	}
	cell := 0
	for _, kind := range []bloomkv.FilterKind{bloomkv.FilterBloom, bloomkv.FilterRibbon} {
		for _, shape := range ratedShapes {
			for _, fpr := range []float64{0.1, 0.01, 0.001} {
				if cell++; cell%stride == 0 || stride == 1 {
					name := fmt.Sprintf("%s/%s/%g", map[bloomkv.FilterKind]string{
						bloomkv.FilterBloom:  "Bloom",
						bloomkv.FilterRibbon: "Ribbon",
					}[kind], shape.name, fpr)
					t.Run(name, func(t *testing.T) { measurePromise(t, kind, shape.key, fpr, keys) })
				}
			}
		}
	}
}

func measurePromise(t *testing.T, kind bloomkv.FilterKind, key func([]byte, uint64) []byte, fpr float64, keys int) {
	t.Helper()
	// While the gate is shut, a finished compaction waits at it, and so do all that would follow, until the store
	// closes.
	var waiting atomic.Bool
	gate := make(chan struct{}, 1)
	gate <- struct{}{}
	// After armed is set, a compaction waits for hold to be closed before it writes.
	var armed atomic.Bool
	waits, hold := make(chan struct{}, 1), make(chan struct{})
	files := vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		if armed.Load() && op.Kind == vfstest.OpWrite && strings.HasSuffix(op.Name, ".sst") {
			select {
			case waits <- struct{}{}:
			default:
			}
			<-hold
		}
		return nil
	})
	o := &bloomkv.Options{
		FS: files, FilterSeed: 1, Durability: bloomkv.DurabilityNoSync, Compression: bloomkv.CompressionNone,
		FilterFPR:   fpr,
		FilterKind:  kind,
		Compactions: 1, MemoryBudget: 512 << 20, MemtableSize: 512 << 10, BaseLevelSize: 4 << 20, LevelRatio: 10,
		BlockSize: 4 << 10,
		TableSize: 1 << 20,
		Events: bloomkv.Events{Compacted: func(bloomkv.CompactionInfo) {
			waiting.Store(true)
			<-gate
			waiting.Store(false)
			gate <- struct{}{}
		}},
	}
	db := storetest.Open(t, "db", o)
	shut, held := false, false
	open := func() {
		if shut {
			gate <- struct{}{}
			shut = false
		}
	}
	defer func() {
		open()
		if !held {
			close(hold)
		}
		_ = db.Close()
	}()

	rng := rand.New(rand.NewPCG(uint64(keys), 1))
	var k []byte
	value := make([]byte, 100)
	put := func(i int) {
		t.Helper()
		k = key(k[:0], 2*uint64(i))
		must(t, db.Put(k, value))
	}
	// pile shuts the gate and puts keys until a compaction of level 0 is due and another waits, so that the runs stay.
	pile := func(next func() int) {
		t.Helper()
		<-gate
		shut = true
		testkit.Soon(t, "a compaction of level 0 is due", func() bool {
			held := waiting.Load() // before the runs are counted: a compaction that ends in between removes some
			if db.Metrics().Levels[0].Runs >= triggerRuns {
				return held
			}
			for range 1000 {
				put(next())
			}
			must(t, db.Flush(t.Context()))
			return false
		})
	}
	measure := func(state string, leastRuns, leastLevels int) {
		t.Helper()
		before := db.Metrics()
		levels := 0
		for _, l := range before.Levels {
			if l.Runs > 0 {
				levels++
			}
		}
		if before.Levels[0].Runs < leastRuns || levels < leastLevels {
			t.Fatalf("%s: %d runs in level 0, %d levels, want at least %d and %d", state, before.Levels[0].Runs,
				levels, leastRuns, leastLevels)
		}
		for range keys {
			k = key(k[:0], 2*rng.Uint64N(uint64(keys))+1)
			if _, err := db.Get(k); !errors.Is(err, bloomkv.ErrNotFound) {
				t.Fatalf("%s: %x: %v, want ErrNotFound", state, k, err)
			}
		}
		after := db.Metrics()
		wasted, most := float64(after.Lookups.WastedReads-before.Lookups.WastedReads), 1.15*fpr*float64(keys)
		most += 5 * math.Sqrt(most)
		t.Logf("%s: %d levels, %d runs in level 0: wasted %.2e, predicted %.2e, promised %g; "+
			"%.2f filter bits per key in memory, %.2f on disk", state, levels,
			before.Levels[0].Runs, wasted/float64(keys), after.FPRPredicted, fpr,
			8*float64(after.Memory.Filters)/float64(keys), bitsOnDisk(after, keys))
		if wasted > most {
			t.Errorf("%s: %.0f wasted reads in %d lookups, want at most %.0f: 1.15 × %g plus five deviations", state,
				wasted, keys, most, fpr)
		}
	}

	order := rng.Perm(keys)
	for _, i := range order[:keys*9/10] {
		put(i)
	}
	at := keys * 9 / 10
	pile(func() int {
		i := order[at%keys]
		at++
		return i
	})
	measure("loaded", 4, 3)
	open()

	for range keys / 4 {
		put(rng.IntN(keys))
	}
	pile(func() int { return rng.IntN(keys) })
	measure("overwritten", 4, 3)

	armed.Store(true)
	open()
	<-waits
	measure("mid-compaction", 4, 3)
	close(hold)
	held = true

	for _, i := range order[min(at, keys):] {
		put(i)
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	measure("compacted", 0, 1)
}

// bitsOnDisk returns the size of the filter blocks in bits per key of the store.
func bitsOnDisk(m bloomkv.Metrics, keys int) float64 {
	sum := uint64(0)
	for _, l := range m.Levels {
		sum += l.FilterBytes
	}
	return 8 * float64(sum) / float64(keys)
}

// TestAbsentKeysWasteNoMoreReadsThanPromised counts the searches of tables that did not hold the key, before and after
// Compact.
func TestAbsentKeysWasteNoMoreReadsThanPromised(t *testing.T) {
	testkit.Long(t)
	const keys = 40000
	const lookups = 250_000 // with fewer, chance alone could exceed the limit
	for _, shape := range storetest.KeyShapes {
		t.Run(shape.Name, func(t *testing.T) {
			o := storetest.Tiny(vfstest.NewMem())
			o.Durability, o.BlockSize, o.MemtableSize, o.TableSize, o.LevelRatio = bloomkv.DurabilityNoSync, 4096,
				128<<10, 64<<10, 4
			db := storetest.Open(t, "db", o)
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
	db := storetest.Open(t, "db", o)
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

// TestNegativesAreEstimatedWithinTheirStandardError compares the estimate for each table, and for all together, with
// the exact number. All lookups are of absent keys, so each is a false positive or a negative.
func TestNegativesAreEstimatedWithinTheirStandardError(t *testing.T) {
	testkit.Long(t)
	o := storetest.Tiny(vfstest.NewMem())
	o.Durability, o.FilterFPR = bloomkv.DurabilityNoSync, 0.001 // false positives shift the counts of the tables below
	const n = 4096
	lookups := storetest.AtStride(1 << 16)
	key := func(i uint64) []byte { return fmt.Appendf(nil, "key%05d", i) }
	for _, test := range []struct {
		name string
		nth  func(i uint64) uint64 // less than n
	}{
		{"in order", func(i uint64) uint64 { return i % n }},
		{"cycling through a few keys", func(i uint64) uint64 { return i % 64 * (n / 64) }},
		{"cycling through more keys", func(i uint64) uint64 { return i % 1000 * 4 }},
		{"shuffled by the golden ratio", func(i uint64) uint64 { return i * 0x9e3779b97f4a7c15 >> 52 }},
		{"one key", func(uint64) uint64 { return n / 2 }},
		{"at random", func(i uint64) uint64 { return rand.NewPCG(i, 1).Uint64() % n }},
	} {
		for _, way := range []string{"one by one", "many at a time", "by many goroutines"} {
			t.Run(test.name+", "+way, func(t *testing.T) {
				o.FS = vfstest.NewMem()
				db := storetest.Open(t, "db", o)
				defer db.Close()
				for i := range uint64(n + 1) {
					must(t, db.Put(key(2*i),
						[]byte("value of a key that makes the table a little larger")))
				}
				must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
				tables := db.Tables()
				if len(tables) < 8 {
					t.Fatalf("%d tables are too few to show anything", len(tables))
				}
				asked := make([]uint64, len(tables)) // lookups in the range of each table
				group := make([][]byte, 0, 100)
				var running sync.WaitGroup
				for i := range uint64(lookups) {
					k := key(2*test.nth(i) + 1)
					for at, tm := range tables {
						if bytes.Compare(tm.Smallest, k) < 0 && bytes.Compare(k, tm.Largest) < 0 {
							asked[at]++
						}
					}
					if way == "one by one" {
						if ok, err := db.Has(k); err != nil || ok {
							t.Fatal(ok, err)
						}
						continue
					}
					if group = append(group, k); len(group) < cap(group) && i < uint64(lookups)-1 {
						continue
					}
					keys := slices.Clone(group)
					group = group[:0]
					if way == "many at a time" {
						must(t, db.GetMany(keys, func(int, []byte, bool) error { return nil }))
						continue
					}
					running.Go(func() { // goroutine stacks have different addresses, and so use different counters
						for _, k := range keys {
							if ok, err := db.Has(k); err != nil || ok {
								t.Error(ok, err)
							}
						}
					})
				}
				running.Wait()
				var all, estimated uint64
				for at, tm := range db.Tables() {
					negatives := asked[at] - tm.FalsePositives
					if !plausibleEstimate(negatives, tm.FilterNegatives) {
						t.Errorf("%s: %d negatives, want about %d", tm.File, tm.FilterNegatives, negatives)
					}
					all += negatives
					estimated += tm.FilterNegatives
				}
				if !plausibleEstimate(all, estimated) {
					t.Errorf("%d negatives of all tables, want about %d", estimated, all)
				}
			})
		}
	}
}

// plausibleEstimate reports whether a sample of one in 64 may yield an estimate for the given number n. The normal
// distribution is no bound here: with two or three sampled lookups a table, the tail of the binomial distribution is a
// hundred times longer. Chernoff's bound holds for any sum of independent draws: a deviation this large, upwards or
// downwards, has a chance of at most exp(-d), where d is n times the Kullback-Leibler divergence of the sampled share
// from 1/64. For a large n, d is half the square of the number of standard errors √(63·n), so a limit of 16 is 5.7
// standard errors.
func plausibleEstimate(n, estimate uint64) bool {
	if estimate%64 != 0 || estimate/64 > n {
		return false
	}
	const p = 1.0 / 64
	part := func(k, want float64) float64 {
		if k == 0 {
			return 0
		}
		return k * math.Log(k/want)
	}
	all, k := float64(n), float64(estimate/64)
	return part(k, all*p)+part(all-k, all*(1-p)) <= 16
}
