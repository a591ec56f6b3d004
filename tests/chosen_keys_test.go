package tests

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// The constants of XXH64: Collet, "xxHash fast digest algorithm", format specification 0.2.
const (
	prime1 uint64 = 0x9e3779b185ebca87
	prime2 uint64 = 0xc2b2ae3d27d4eb4f
	prime3 uint64 = 0x165667b19e3779f9
	prime4 uint64 = 0x85ebca77c2b2ae63
	prime5 uint64 = 0x27d4eb2f165667c5
)

// keyWithHash returns the 16-byte key that begins with start and has the given hash; every step of XXH64 is invertible.
func keyWithHash(start uint64, h bloomblock.Hash) []byte {
	round := func(lane uint64) uint64 { return bits.RotateLeft64(lane*prime2, 31) * prime1 }
	acc := bits.RotateLeft64((prime5+16)^round(start), 27)*prime1 + prime4
	x := uint64(h)
	x ^= x >> 32
	x *= inverse(prime3)
	x ^= x>>29 ^ x>>58
	x *= inverse(prime2)
	x ^= x >> 33
	x = bits.RotateLeft64((x-prime4)*inverse(prime1), -27) ^ acc
	x = bits.RotateLeft64(x*inverse(prime1), -31) * inverse(prime2)
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, start), x)
}

// inverse returns the inverse of an odd number modulo 2⁶⁴, by Newton's iteration.
func inverse(x uint64) uint64 {
	y := x
	for range 6 {
		y *= 2 - x*y
	}
	return y
}

// chosenKeys are keys chosen by an attacker who knows the hash function but not the seed of the store.
var chosenKeys = []struct {
	name string
	hash func(i uint64) bloomblock.Hash
}{
	{"a fifth of all hashes", func(i uint64) bloomblock.Hash { return spreadHash(i) / 5 }},
	{"consecutive", func(i uint64) bloomblock.Hash { return 1<<40 + bloomblock.Hash(i) }},
	{"equal high halves", func(i uint64) bloomblock.Hash { return spreadHash(i) >> 32 }},
	{"equal low halves", func(i uint64) bloomblock.Hash { return spreadHash(i) << 32 }},
	{"the front half of a Ribbon", func(i uint64) bloomblock.Hash {
		h := spreadHash(i)
		for h.Next().Next().Next()>>63 != 0 {
			h = h.Next()
		}
		return h
	}},
	{"all equal", func(uint64) bloomblock.Hash { return 42 }},
}

func spreadHash(i uint64) bloomblock.Hash { return bloomblock.Hash(i + 1).Next().Next() }

func chosenKey(set int, i uint64) []byte {
	return keyWithHash(uint64(spreadHash(^i)), chosenKeys[set].hash(i))
}

func TestAKeyCanBeMadeForAnyHash(t *testing.T) {
	for i := range uint64(1000) {
		if h := spreadHash(i); bloomblock.HashKey(keyWithHash(i, h)) != h {
			t.Fatalf("key %x has hash %x, want %x", keyWithHash(i, h), bloomblock.HashKey(keyWithHash(i, h)), h)
		}
	}
}

// TestHonestLookupsWasteNoMoreBesideChosenKeys measures the wasted reads of lookups for honest absent keys in a store
// where half or all keys were chosen to crowd its filters.
func TestHonestLookupsWasteNoMoreBesideChosenKeys(t *testing.T) {
	testkit.Long(t)
	keys, stride := uint64(20_000), 3
	if *storetest.Long > 1 {
		keys, stride = 100_000, 1
	}
	cell := 0
	for _, kind := range []bloomkv.FilterKind{bloomkv.FilterBloom, bloomkv.FilterRibbon} {
		for set := range chosenKeys {
			for _, share := range []uint64{1, 2} {
				if cell++; cell%stride == 1%stride {
					t.Run(fmt.Sprintf("kind %d/%s/1 of %d", kind, chosenKeys[set].name, share), func(t *testing.T) {
						measureBesideChosen(t, kind, set, share, keys)
					})
				}
			}
		}
	}
}

func measureBesideChosen(t *testing.T, kind bloomkv.FilterKind, set int, share, keys uint64) {
	t.Helper()
	o := &bloomkv.Options{
		FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync, FilterKind: kind, FilterSeed: 0x5eed + uint64(set),
		MemtableSize: 256 << 10, BaseLevelSize: 1 << 20, TableSize: 256 << 10,
	}
	db := storetest.Open(t, "db", o)
	defer func() {
		must(t, db.Close())
	}()
	rng := rand.New(rand.NewPCG(1, 2))
	honest := func() []byte {
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, rng.Uint64()), rng.Uint64())
	}
	for i := range keys {
		k := honest()
		if i%share == 0 {
			k = chosenKey(set, i)
		}
		must(t, db.Put(k, k[:4]))
	}
	measure := func(state string) {
		t.Helper()
		before, lookups := db.Metrics(), int(2*keys)
		for range lookups {
			if _, err := db.Get(honest()); !errors.Is(err, bloomkv.ErrNotFound) {
				t.Fatalf("%s: %v, want ErrNotFound", state, err)
			}
		}
		after := db.Metrics()
		wasted := float64(after.Lookups.WastedReads - before.Lookups.WastedReads)
		most := 1.15 * after.FPRPromised * float64(lookups)
		most += 5 * math.Sqrt(most)
		if wasted > most {
			t.Errorf("%s: %.0f wasted reads in %d lookups, want at most %.0f", state, wasted, lookups, most)
		}
		if after.FPRPredicted > 1.15*after.FPRPromised {
			t.Errorf("%s: %g predicted, %g promised", state, after.FPRPredicted, after.FPRPromised)
		}
		t.Logf("%s: %.2e wasted, %.2e predicted, %g promised", state, wasted/float64(lookups), after.FPRPredicted,
			after.FPRPromised)
	}
	must(t, db.Flush(t.Context()))
	measure("flushed")
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	measure("compacted")
	for i := uint64(0); i < keys; i += share {
		if v, err := db.Get(chosenKey(set, i)); err != nil || string(v) != string(chosenKey(set, i)[:4]) {
			t.Fatalf("chosen key %d: %q, %v", i, v, err)
		}
	}
}

// TestAStoreKeepsItsSeed follows the seed from the first Open to the filters of tables, over a reopen and a checkpoint.
func TestAStoreKeepsItsSeed(t *testing.T) {
	files := vfstest.NewMem()
	seedOf := func(dir string, o bloomkv.Options) (store bloomblock.Seed, filters []bloomblock.Seed) {
		t.Helper()
		o.FS = files
		db := storetest.Open(t, dir, &o)
		if !o.ReadOnly {
			for i := range 3 {
				must(t, db.Put(fmt.Append(nil, i), nil))
				must(t, db.Flush(t.Context()))
			}
			storetest.Settle(t, db)
		}
		for _, table := range db.Tables() {
			r := readerOf(t, files, dir, table.File)
			must(t, r.Load(0))
			filters = append(filters, r.Filter().Seed())
		}
		store = bloomblock.Seed(storetest.Recorded(t, files, dir).Seed)
		if o.ErrorIfExists {
			must(t, db.Checkpoint(t.Context(), dir+" copy"))
			x, err := db.Export(t.Context(), bloomkv.ExportOptions{})
			must(t, err)
			var sent bytes.Buffer
			_, err = x.WriteTo(&sent)
			must(t, errors.Join(err, x.Close()))
			must(t, bloomkv.Import(t.Context(), &sent, dir+" import", bloomkv.NewStoreOptions{FS: files}))
		}
		must(t, db.Close())
		return store, filters
	}
	first, _ := seedOf("first", bloomkv.Options{ErrorIfExists: true})
	second, _ := seedOf("second", bloomkv.Options{})
	given, _ := seedOf("given", bloomkv.Options{FilterSeed: 7})
	if first == 0 || first == second || given != 7 {
		t.Errorf("seeds %x, %x and %x, want two random ones and 7", first, second, given)
	}
	for _, again := range []struct {
		dir string
		o   bloomkv.Options
	}{
		{"first", bloomkv.Options{}},
		{"first", bloomkv.Options{FilterSeed: 9}},
		{"first", bloomkv.Options{ReadOnly: true}},
		{"first copy", bloomkv.Options{}},
		{"first copy", bloomkv.Options{ReadOnly: true}},
		{"first import", bloomkv.Options{}},
	} {
		store, filters := seedOf(again.dir, again.o)
		if store != first {
			t.Errorf("%s opened with %+v: seed %x, want %x", again.dir, again.o, store, first)
		}
		for _, f := range filters {
			if f != first {
				t.Errorf("%s: a filter with seed %x, want %x", again.dir, f, first)
			}
		}
	}
}

// BenchmarkChosenKeys compares stores of chosen keys with one of random keys: put, flush and lookup, per key. With
// -short they have a tenth of the keys.
func BenchmarkChosenKeys(b *testing.B) {
	keys := 100_000
	if testing.Short() {
		keys /= 10
	}
	sets := len(chosenKeys)
	for _, kind := range []bloomkv.FilterKind{bloomkv.FilterBloom, bloomkv.FilterRibbon} {
		for set := range sets + 1 {
			name, key := "random", func(i uint64) []byte { return keyWithHash(uint64(spreadHash(^i)), spreadHash(i)) }
			if set < sets {
				name, key = chosenKeys[set].name, func(i uint64) []byte { return chosenKey(set, i) }
			}
			all := make([][]byte, keys)
			for i := range all {
				all[i] = key(uint64(i))
			}
			b.Run(fmt.Sprintf("kind=%d/%s", kind, name), func(b *testing.B) {
				var put, inMemory, flush, get float64
				for b.Loop() {
					b.StopTimer()
					db := storetest.Open(b, "db", &bloomkv.Options{
						FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync, FilterKind: kind,
						MemtableSize: 32 << 20, MemoryBudget: 256 << 20,
					})
					step := func(sum *float64, f func()) {
						start := b.Elapsed()
						b.StartTimer()
						f()
						b.StopTimer()
						*sum += float64((b.Elapsed() - start).Nanoseconds()) / float64(keys)
					}
					getAll := func() {
						for i := range all {
							if _, err := db.Has(all[i*7919%keys]); err != nil {
								b.Fatal(err)
							}
						}
					}
					step(&put, func() {
						for _, k := range all {
							must(b, db.Put(k, nil))
						}
					})
					step(&inMemory, getAll)
					step(&flush, func() {
						must(b, db.Flush(b.Context()))
					})
					step(&get, getAll)
					must(b, db.Close())
					b.StartTimer()
				}
				n := float64(b.N)
				b.ReportMetric(put/n, "ns/put")
				b.ReportMetric(inMemory/n, "ns/get-memtable")
				b.ReportMetric(flush/n, "ns/flushed-key")
				b.ReportMetric(get/n, "ns/get-table")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
