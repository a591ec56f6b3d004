package tests

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestNegativesAreEstimatedWithinTheirStandardError compares the estimate for each table, and for all together, with
// the exact number. All lookups are of absent keys, so each is a false positive or a negative.
func TestNegativesAreEstimatedWithinTheirStandardError(t *testing.T) {
	o := storetest.Tiny(vfstest.NewMem())
	o.Durability, o.FilterFPR = bloomkv.DurabilityNoSync, 0.001 // false positives shift the counts of the tables below
	const n = 4096
	lookups := storetest.AtStride(1 << 17)
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
		{"at random", func(uint64) uint64 { return rand.Uint64N(n) }},
	} {
		for _, way := range []string{"one by one", "many at a time", "by many goroutines"} {
			t.Run(test.name+", "+way, func(t *testing.T) {
				o.FS = vfstest.NewMem()
				db, err := bloomkv.Open("db", o)
				must(t, err)
				defer db.Close()
				for i := range uint64(n + 1) {
					if err := db.Put(key(2*i),
						[]byte("value of a key that makes the table a little larger")); err != nil {
						t.Fatal(err)
					}
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
