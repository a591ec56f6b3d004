package bloom

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// hash returns hash number i of a fixed random sequence.
func hash(i uint64) bloomblock.Hash { return bloomblock.Hash(rand.NewPCG(i, 1).Uint64()) }

func TestAddedHashesAreFound(t *testing.T) {
	testkit.Long(t)
	for _, keys := range []int{0, 1, 2, 50, 51, 52, 1000, 50_000} {
		for _, bits := range []float64{1, 4, 10, 20, 64} {
			a := NewAtomicBits(keys, bits)
			for i := range uint64(3*keys + 1) { // also far beyond the number of keys it was made for
				a.AddHash(hash(i))
				if !a.MayContainHash(hash(i)) {
					t.Fatalf("%d keys of %v bits: hash %d was added and is denied", keys, bits, i)
				}
			}
			for i := range uint64(3*keys + 1) {
				if !a.MayContainHash(hash(i)) {
					t.Fatalf("%d keys of %v bits: hash %d is denied later", keys, bits, i)
				}
			}
		}
	}
}

func TestRateIsNearTheExactOne(t *testing.T) {
	testkit.Long(t)
	const keys, probes = 50_000, 400_000
	for _, bits := range []float64{2, 5, 8, 10, 12} {
		a := NewAtomicBits(keys, bits)
		for i := range uint64(keys) {
			a.AddHash(hash(i))
		}
		found := 0
		for i := range uint64(probes) {
			if a.MayContainHash(hash(i + 1<<40)) {
				found++
			}
		}
		got, want := float64(found)/probes, bloomblock.Unit{BitsPerKey: bits, Probes: a.low}.Rate()
		if math.Abs(got/want-1) > 0.1+5/math.Sqrt(want*probes) {
			t.Errorf("%v bits, %d probes: rate %v, want %v", bits, a.low, got, want)
		}
		best := 1.0
		for k := 1; k <= wordFields; k++ {
			best = min(best, bloomblock.Unit{BitsPerKey: bits, Probes: k}.Rate())
		}
		if want > 1.1*best {
			t.Errorf("%v bits: %d probes have rate %v, the best have %v", bits, a.low, want, best)
		}
	}
}

func TestPositionsAreThoseOfAFilterBlock(t *testing.T) {
	// The same hashes in a filter block with as many blocks and probes give the same answers, true and false ones.
	const keys, bits = 10_000, 10
	a := NewAtomicBits(keys, bits)
	p, err := bloomblock.NewParams(bloomblock.Unit{BitsPerKey: bits, Probes: a.low})
	if err != nil {
		t.Fatal(err)
	}
	var b bloomblock.Builder
	for i := range uint64(keys) {
		a.AddHash(hash(i))
		b.Add(hash(i))
	}
	f, err := bloomblock.Parse(b.AppendBlock(nil, p))
	if err != nil {
		t.Fatal(err)
	}
	if f.Bytes() != a.Bytes() {
		t.Fatalf("%d bytes, the block has %d", a.Bytes(), f.Bytes())
	}
	for i := range uint64(20 * keys) {
		if got, want := a.MayContainHash(hash(i)), f.MayContain(hash(i)); got != want {
			t.Fatalf("hash %d: %v, the block says %v", i, got, want)
		}
	}
}

func TestSizesOutOfRange(t *testing.T) {
	for _, tt := range []struct {
		name  string
		keys  int
		bits  float64
		bytes int
	}{
		{"no keys", 0, 10, 64},
		{"negative keys", -5, 10, 64},
		{"smallest int", math.MinInt, 10, 64},
		{"no bits", 512, 0, 64},
		{"negative bits", 512, -3, 64},
		{"infinite bits", 8, math.Inf(1), 64},
		{"bits that are not a number", 512, math.NaN(), 640},
		{"a block and a bit", 52, 10, 128},
	} {
		if a := NewAtomicBits(tt.keys, tt.bits); a.Bytes() != tt.bytes || a.low < 1 || a.low > wordFields {
			t.Errorf("%s: %d bytes, %d probes, want %d bytes", tt.name, a.Bytes(), a.low, tt.bytes)
		}
	}
}

func TestReadersSeeEveryFinishedAdd(t *testing.T) {
	const keys, writers, readers = 40_000, 4, 4
	a := NewAtomicBits(keys/100, 10) // crowded, so that writers meet in the same words
	var added [writers]atomic.Uint64
	var wg sync.WaitGroup
	for w := range uint64(writers) {
		wg.Go(func() {
			for i := range uint64(keys / writers) {
				a.AddHash(hash(i*writers + w))
				added[w].Store(i + 1)
			}
		})
	}
	for reader := range uint64(readers) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(reader, 2))
			for range 20_000 {
				w := rng.Uint64N(writers)
				n := added[w].Load()
				if n == 0 {
					continue
				}
				if i := rng.Uint64N(n); !a.MayContainHash(hash(i*writers + w)) {
					t.Errorf("hash %d of writer %d was added and is denied", i, w)
					return
				}
			}
		})
	}
	wg.Wait()
	for i := range uint64(keys) {
		if !a.MayContainHash(hash(i)) {
			t.Fatalf("hash %d is denied at the end", i)
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	a := NewAtomicBits(1000, 10)
	i := uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		i++
		a.AddHash(bloomblock.Hash(i).Next())
		a.MayContainHash(bloomblock.Hash(i))
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// If several goroutines add the same key at once, at least one is the first, and none is after one has returned.
func TestAddIfAbsentHasAWinner(t *testing.T) {
	const keys, goroutines = 20_000, 4
	for _, rate := range []float64{0.01, 1e-5} { // one word of fields and two
		// So large that no key is a false positive.
		a := must(NewAtomic(Options{Keys: 100 * keys, Rate: rate, Seed: testSeed}))
		var first [keys]atomic.Int32
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for k := range uint64(keys) {
					before := first[k].Load() > 0
					if a.AddHashIfAbsent(hash(k)) {
						first[k].Add(1)
						if before {
							t.Errorf("key %d: first, after another was", k)
						}
					}
				}
			})
		}
		wg.Wait()
		several := 0
		for k := range first {
			switch n := first[k].Load(); {
			case n == 0:
				t.Fatalf("key %d: no goroutine was the first", k)
			case n > 1:
				several++
			}
			if a.AddHashIfAbsent(hash(uint64(k))) {
				t.Fatalf("key %d: first again", k)
			}
		}
		t.Logf("%d of %d keys had several firsts", several, keys)
	}
}

func TestSnapshotIsTheFilterOfTheKeys(t *testing.T) {
	for _, rate := range []float64{0.1, 0.01, 1e-5} {
		a := must(NewAtomic(Options{Keys: 1000, Rate: rate}))
		addRange(atomicSet{a}, 0, 900)
		f := a.Snapshot()
		g := f.Clone()
		g.Clear()
		addRange(g, 0, 900)
		if !equal(f, g) || f.Saturated() {
			t.Errorf("rate %v: the snapshot is not the filter of the keys", rate)
		}
	}
	for keys := range 4 {
		var f Filter
		if err := f.UnmarshalBinary(must(NewAtomicBits(keys, 10).Snapshot().MarshalBinary())); err != nil {
			t.Errorf("a snapshot for %d keys cannot be read: %v", keys, err)
		}
	}
	f := NewAtomicBits(1000, 10).Snapshot()
	if rate := f.Options().Rate; math.Abs(rate-0.0088) > 0.0001 {
		t.Errorf("a set of 10.24 bits a key has rate %v", rate)
	}
}

func BenchmarkAtomic(b *testing.B) {
	const keys, queries = 100_000, 1 << 20
	hashes := make([]bloomblock.Hash, queries)
	for i := range hashes {
		hashes[i] = hash(uint64(i))
	}
	b.Run("add", func(b *testing.B) {
		a := NewAtomicBits(queries, 10)
		i := 0
		for b.Loop() {
			if i == queries {
				i, a = 0, NewAtomicBits(queries, 10)
			}
			a.AddHash(hashes[i])
			i++
		}
	})
	a := NewAtomicBits(keys, 10)
	for _, h := range hashes[:keys] {
		a.AddHash(h)
	}
	b.Run("absent", func(b *testing.B) {
		i, found := 0, 0
		for b.Loop() {
			if a.MayContainHash(hashes[keys+i%(queries-keys)]) {
				found++
			}
			i++
		}
		b.ReportMetric(float64(found)/float64(i), "maybe/op")
	})
	b.Run("present", func(b *testing.B) {
		i := 0
		for b.Loop() {
			a.MayContainHash(hashes[i%keys])
			i++
		}
	})
}
