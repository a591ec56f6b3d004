package tests

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// tablesBetween returns the tables that share a key with [lo, hi], nil for no bound.
func tablesBetween(db *bloomkv.DB, lo, hi []byte) map[uint64]bool {
	between := map[uint64]bool{}
	for _, t := range db.Tables() {
		if !endsBefore(t, lo) && (hi == nil || bytes.Compare(t.Smallest, hi) <= 0) {
			between[numberOf(t)] = true
		}
	}
	return between
}

// TestIteratorsOpenATableOnlyWhenTheyComeToIt moves iterators in stores whose tables are not loaded, and checks which
// files are opened and read.
func TestIteratorsOpenATableOnlyWhenTheyComeToIt(t *testing.T) {
	for _, runs := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d runs", runs), func(t *testing.T) {
			const n = 6000
			key := func(i int) []byte { return fmt.Appendf(nil, "key%05d", i) }
			mem := vfstest.NewMem()
			o := storetest.Tiny(mem)
			o.Durability, o.Compression, o.MemtableSize = bloomkv.DurabilityNoSync, bloomkv.CompressionNone, 1<<20
			db, err := bloomkv.Open("db", o)
			must(t, err)
			for i := range n {
				must(t, db.Put(key(i), make([]byte, 100)))
			}
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
			for r := range runs - 1 { // each with some tables of its own range
				for i := r; i < n; i += 10 {
					must(t, db.Put(key(i), bytes.Repeat([]byte{byte(r)}, 100)))
				}
				must(t, db.Flush(t.Context()))
			}
			storetest.Settle(t, db)
			must(t, db.Close())
			files := storetest.LogFiles(mem)
			o.FS = files
			open := func() *bloomkv.DB {
				db := storetest.OpenCold(t, o)
				levels := db.Metrics().Levels
				if got := runsOf(db); got != runs || levels[len(levels)-1].Tables < 30 {
					t.Fatalf("%d runs, want %d, and many tables in the last:\n%v", got, runs, db.Metrics())
				}
				files.Take()
				return db
			}
			db = open()
			reopen := func() {
				must(t, db.Close())
				db = open()
			}
			defer func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			}()
			only := func(what string, lo, hi []byte, most int) {
				t.Helper()
				between, touched := tablesBetween(db, lo, hi), files.Touched()
				for number := range touched {
					if !between[number] {
						t.Errorf("%s: table %d was read, but has no key from %q to %q", what, number, lo, hi)
					}
				}
				if most >= 0 && len(touched) > most || most > 0 && len(touched) == 0 {
					t.Errorf("%s: %d tables were read, want 1 to %d", what, len(touched), most)
				}
			}

			it := db.Iter(bloomkv.IterOptions{})
			only("opening", nil, nil, 0)
			if !it.First() {
				t.Fatal(it.Err())
			}
			only("the first key", nil, key(0), runs)
			if !it.Last() {
				t.Fatal(it.Err())
			}
			only("the last key", key(n-2), nil, runs)
			must(t, it.Close())
			only("closing", nil, nil, 0)

			rng := rand.New(rand.NewPCG(41, 42))
			ends := map[int]bool{} // keys at the ends of tables, where a step leads to the next table
			for _, table := range db.Tables() {
				for _, k := range [][]byte{table.Smallest, table.Largest} {
					var i int
					if _, err := fmt.Sscanf(string(k), "key%d", &i); err != nil {
						t.Fatal(err)
					}
					ends[i] = true
				}
			}
			places := slices.Sorted(maps.Keys(ends))
			for range 10 {
				places = append(places, rng.IntN(n))
			}
			rng.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
			for _, i := range places[:min(len(places), storetest.AtStride(40))] {
				reopen()
				it := db.Iter(bloomkv.IterOptions{})
				switch {
				case !it.SeekGE(key(i)) || string(it.Key()) != string(key(i)):
					t.Fatalf("seek %d: %q, %v", i, it.Key(), it.Err())
				default:
					only(fmt.Sprintf("seeking ≥ %d", i), key(i), key(i), runs)
				}
				for at := i + 1; at < min(i+5, n); at++ {
					if !it.Next() {
						t.Fatal(it.Err())
					}
				}
				if end := min(i+4, n-1); string(it.Key()) != string(key(end)) {
					t.Fatalf("%q, want key %d", it.Key(), end)
				} else {
					only(fmt.Sprintf("stepping from %d to %d", i, end), key(i), key(end), -1)
				}
				must(t, it.Close())

				reopen()
				it = db.Iter(bloomkv.IterOptions{})
				if i == 0 {
					i = 1
				}
				if !it.SeekLT(key(i)) || string(it.Key()) != string(key(i-1)) {
					t.Fatalf("seek before %d: %q, %v", i, it.Key(), it.Err())
				}
				// Backward, a key's oldest version comes first: only the preceding key shows that there is no newer
				// version.
				only(fmt.Sprintf("seeking < %d", i), key(max(0, i-2)), key(i-1), 2*runs)
				for range min(4, i-1) {
					if !it.Prev() {
						t.Fatal(it.Err())
					}
				}
				only(fmt.Sprintf("stepping back from %d", i), key(max(0, i-6)), key(i), -1)
				must(t, it.Close())

				reopen()
				lo, hi := key(i), key(min(i+20, n))
				it = db.Iter(bloomkv.IterOptions{Lower: lo, Upper: hi})
				got := 0
				for range it.All() {
					got++
				}
				if want := min(20, n-i); got != want || it.Err() != nil {
					t.Fatalf("%d keys from key %d, want %d; %v", got, i, want, it.Err())
				}
				only(fmt.Sprintf("20 keys from %d on", i), lo, hi, -1)
				must(t, it.Close())
			}
		})
	}
}
