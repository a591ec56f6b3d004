package bloom

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

var (
	operations = flag.Int("operations", 200_000, "random operations against an exact set, for each kind of set")
	rateKeys   = flag.Int("ratekeys", 30_000, "keys of the filters whose rates are measured")
	positives  = flag.Int("positives", 10_000, "false positives to see when a rate is measured")
	leastRate  = flag.Float64("leastrate", 1e-3, "lowest rate to measure")
	countKeys  = flag.Int("countkeys", 1_000_000, "keys of the filters whose keys are counted")
)

const testSeed bloomblock.Seed = 0x5eed

// A set is what all kinds have in common.
type set interface {
	Add(key []byte) bool
	AddHash(h bloomblock.Hash) bool
	MayContain(key []byte) bool
	MayContainHash(h bloomblock.Hash) bool
	Options() Options
	Bytes() int
}

// An atomicSet is an Atomic with the methods of a set.
type atomicSet struct{ *Atomic }

func (a atomicSet) Add(key []byte) bool            { return a.AddIfAbsent(key) }
func (a atomicSet) AddHash(h bloomblock.Hash) bool { return a.AddHashIfAbsent(h) }
func (a atomicSet) Options() Options               { return a.options }

// kinds make sets of each kind.
var kinds = []struct {
	name string
	make func(o Options) (set, error)
}{
	{"blocked", func(o Options) (set, error) { return New(o) }},
	{"classic", func(o Options) (set, error) { o.Layout = LayoutClassic; return New(o) }},
	{"partitioned", func(o Options) (set, error) { o.Layout = LayoutPartitioned; return New(o) }},
	{"atomic", func(o Options) (set, error) { a, err := NewAtomic(o); return atomicSet{a}, err }},
	{"counting", func(o Options) (set, error) { return NewCounting(o) }},
	{"scalable", func(o Options) (set, error) { return NewScalable(o) }},
	{"window", func(o Options) (set, error) { return NewWindow(o, 4) }},
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newFilter(t *testing.T, o Options) *Filter {
	t.Helper()
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// addRange adds hashes from number first on.
func addRange(s set, first, n int) {
	for i := range uint64(n) {
		s.AddHash(hash(uint64(first) + i))
	}
}

func TestEachKindAnswersByKeyAndByHash(t *testing.T) {
	for _, kind := range kinds {
		for _, rate := range []float64{0.3, 0.01, 1e-4} {
			s, err := kind.make(Options{Keys: 1000, Rate: rate})
			if err != nil {
				t.Fatalf("%s: %v", kind.name, err)
			}
			for i := range 1000 {
				key := fmt.Append(nil, "key", i)
				absent := !s.MayContain(key)
				if added := s.Add(key); absent && !added || added && !absent {
					t.Fatalf("%s: Add(%s) is %v, absent before: %v", kind.name, key, added, absent)
				}
				if !s.MayContain(key) || !s.MayContainHash(bloomblock.HashKey(key)) {
					t.Fatalf("%s: %s is denied", kind.name, key)
				}
				if s.AddHash(bloomblock.HashKey(key)) {
					t.Fatalf("%s: %s was added twice", kind.name, key)
				}
			}
			if o := s.Options(); o.Rate != rate || o.Seed == 0 {
				t.Errorf("%s: options %+v, want rate %v and a seed", kind.name, o, rate)
			}
		}
	}
}

// Random additions, also beyond the number of keys that the set is made for, and questions, against an exact set.
func TestNoFalseNegatives(t *testing.T) {
	for _, kind := range kinds {
		if kind.name == "counting" || kind.name == "window" {
			continue // their own tests remove and forget
		}
		t.Run(kind.name, func(t *testing.T) {
			s, err := kind.make(Options{Keys: *operations / 8, Seed: testSeed})
			if err != nil {
				t.Fatal(err)
			}
			in, random := make(map[uint64]bool), rand.New(rand.NewPCG(1, 2))
			for range *operations {
				k := random.Uint64N(uint64(*operations / 2))
				if random.Uint64N(2) == 0 {
					added := s.AddHash(hash(k))
					if added && in[k] {
						t.Fatalf("key %d is reported to be new for the second time", k)
					}
					in[k] = true
				} else if in[k] && !s.MayContainHash(hash(k)) {
					t.Fatalf("key %d is denied", k)
				}
			}
			for k := range in {
				if !s.MayContainHash(hash(k)) {
					t.Fatalf("key %d is denied at the end", k)
				}
			}
		})
	}
}

// measure returns the rate of absent hashes, seen until there are enough false positives, and their number.
func measure(s set, first uint64) (rate float64, asked int) {
	for found := 0; ; asked++ {
		if found >= *positives {
			return float64(found) / float64(asked), asked
		}
		if s.MayContainHash(hash(first + uint64(asked))) {
			found++
		}
	}
}

// The rate measured with at least 10⁴ false positives is within 3 % of the formula, three standard errors. The hashes
// are always the same.
func TestRatesAreThoseOfTheFormulas(t *testing.T) {
	testkit.Long(t)
	for _, layout := range []Layout{LayoutBlocked, LayoutClassic, LayoutPartitioned} {
		for _, rate := range []float64{0.1, 0.01, 0.001} {
			f := newFilter(t, Options{Keys: *rateKeys, Rate: rate, Seed: testSeed, Layout: layout})
			if promised := f.RateAt(*rateKeys); promised > rate*1.0001 {
				t.Errorf("%v: the formula gives %v for a filter made for %v", layout, promised, rate)
			}
			done := 0
			for _, load := range []float64{0.5, 1, 1.5} {
				keys := int(load * float64(*rateKeys))
				addRange(f, done, keys-done)
				done = keys
				want := f.RateAt(keys)
				if want < *leastRate {
					continue // ten thousand false positives would take long
				}
				got, asked := measure(f, 1<<40)
				if math.Abs(got/want-1) > 0.03 {
					t.Errorf("%v, rate %v, load %v: %v of %d absent keys pass, the formula gives %v",
						layout, rate, load, got, asked, want)
				}
				if now := f.Rate(); math.Abs(got/now-1) > 0.03 {
					t.Errorf("%v, rate %v, load %v: %v of the absent keys pass, the bits give %v",
						layout, rate, load, got, now)
				}
				if saturated := f.Saturated(); saturated != (load > 1) {
					t.Errorf("%v, rate %v, load %v: saturated %v", layout, rate, load, saturated)
				}
			}
		}
	}
}

// Small filters keep low rates, where dependent probes would show first.
func TestLowRatesAreKept(t *testing.T) {
	testkit.Long(t)
	for _, layout := range []Layout{LayoutBlocked, LayoutClassic, LayoutPartitioned} {
		for _, tt := range []struct {
			keys        int
			rate        float64
			sets, tries int
		}{{1, 1e-6, 10, 20_000}, {10, 1e-6, 50, 20_000}, {100, 1e-6, 10, 100_000}, {1000, 1e-9, 1, 2_000_000}} {
			passed := 0
			for i := range tt.sets {
				seed := testSeed + bloomblock.Seed(i)
				f := newFilter(t, Options{Keys: tt.keys, Rate: tt.rate, Seed: seed, Layout: layout})
				addRange(f, 0, tt.keys)
				passed += pass(f, tt.tries)
			}
			// One is expected of a million at 1e-6, ten or more have a probability of 1e-7.
			if passed >= 10 || tt.rate < 1e-8 && passed > 0 {
				t.Errorf("%v, %d keys, rate %v: %d of %d absent keys pass", layout, tt.keys, tt.rate, passed,
					tt.sets*tt.tries)
			}
		}
	}
}

// pass returns how many of the given number of absent hashes pass.
func pass(f *Filter, tries int) (passed int) {
	random := rand.NewPCG(uint64(f.options.Seed), 2)
	for range tries {
		if f.MayContainHash(bloomblock.Hash(random.Uint64())) {
			passed++
		}
	}
	return passed
}

// Rate and RateAt are right for a few keys too. Filters with 1.8 times the keys pass enough to measure it.
func TestRatesOfFewKeysAreThoseOfTheFormulas(t *testing.T) {
	for _, layout := range []Layout{LayoutClassic, LayoutPartitioned} {
		for _, tt := range []struct {
			keys, load int
			rate       float64
		}{{1, 4, 1e-6}, {10, 20, 1e-6}, {10, 60, 1e-6}, {100, 190, 1e-6}, {300, 600, 1e-9}} {
			const sets, tries = 100, 4000
			var f *Filter
			passed, now := 0, 0.0
			for i := range sets {
				seed := testSeed + bloomblock.Seed(i)
				f = newFilter(t, Options{Keys: tt.keys, Rate: tt.rate, Seed: seed, Layout: layout})
				addRange(f, 0, tt.load)
				passed += pass(f, tries)
				now += f.Rate() / sets
			}
			want := f.RateAt(tt.load)
			if math.Abs(now/want-1) > 0.1 && want > 1e-9 {
				t.Errorf("%v for %d keys, with %d: the bits give %v, the formula %v",
					layout, tt.keys, tt.load, now, want)
			}
			expected := want * sets * tries
			if math.Abs(float64(passed)-expected) > 5*math.Sqrt(expected)+0.05*expected {
				t.Errorf("%v for %d keys, with %d: %d absent keys pass, the formula gives %.1f",
					layout, tt.keys, tt.load, passed, expected)
			}
		}
	}
}

func TestTheFormulaKeepsEachRate(t *testing.T) {
	for _, layout := range []Layout{LayoutClassic, LayoutPartitioned} {
		for _, rate := range []float64{0.9, 0.5, 0.25, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9} {
			for keys := 1; keys < 2000; keys += 1 + keys/20 {
				f := newFilter(t, Options{Keys: keys, Rate: rate, Layout: layout})
				if got := f.RateAt(keys); got > rate {
					t.Errorf("%v for %d keys: rate %v, want at most %v", layout, keys, got, rate)
				}
			}
		}
	}
}

// A filter of format version 1 misses low rates, and Rate and RateAt say by how much.
func TestRatesOfOldPositions(t *testing.T) {
	testkit.Long(t)
	for _, layout := range []Layout{LayoutClassic, LayoutPartitioned} {
		for _, tt := range []struct {
			keys, load int
			rate       float64
		}{{10, 10, 1e-6}, {30, 30, 1e-5}, {100, 100, 1e-6}, {1000, 1000, 0.01}, {10, 60, 1e-6}, {100, 300, 1e-6}} {
			f := oldFilter(t, Options{Keys: tt.keys, Rate: tt.rate, Layout: layout})
			const sets, tries = 100, 10_000
			passed, now := 0, 0.0
			for i := range sets {
				f.options.Seed = testSeed + bloomblock.Seed(i)
				f.Clear()
				addRange(f, 0, tt.load)
				passed += pass(f, tries)
				now += f.Rate() / sets
			}
			got := float64(passed) / sets / tries
			if want := f.RateAt(tt.load); got < want/2.2 || got > want*2.2 || now < want/1.5 || now > want*1.5 {
				t.Errorf("%v, %d keys: %v of the absent keys pass, the bits give %v, the formula %v",
					layout, tt.keys, got, now, want)
			}
		}
	}
}

// oldFilter returns an empty filter of format version 1.
func oldFilter(t *testing.T, o Options) *Filter {
	t.Helper()
	b := must(newFilter(t, o).MarshalBinary())
	b[offVersion] = formatVersion
	f := new(Filter)
	if err := f.UnmarshalBinary(seal(b)); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCountsAreEstimated(t *testing.T) {
	keys := *countKeys
	if testing.Short() {
		keys /= 10
	}
	for _, layout := range []Layout{LayoutBlocked, LayoutClassic, LayoutPartitioned} {
		f := newFilter(t, Options{Keys: keys, Seed: testSeed, Layout: layout})
		done := 0
		for _, load := range []float64{0.1, 1, 1.5} {
			n := int(load * float64(keys))
			addRange(f, done, n-done)
			done = n
			got := f.EstimatedCount()
			if math.Abs(got.Value/float64(n)-1) > 0.005 || math.Abs(got.Value-float64(n)) > got.Err*1.5 {
				t.Errorf("%v: %v, want %d", layout, got, n)
			}
		}
	}
	if got := newFilter(t, Options{Keys: 1000}).EstimatedCount(); got != (Estimate{}) {
		t.Errorf("an empty filter has %v keys", got)
	}
}

func TestManyAtOnceAnswersTheSame(t *testing.T) {
	for _, layout := range []Layout{LayoutBlocked, LayoutClassic, LayoutPartitioned} {
		for _, rate := range []float64{0.3, 0.1, 0.01, 1e-5} {
			o := Options{Keys: 500, Rate: rate, Seed: testSeed, Layout: layout}
			f, g := newFilter(t, o), newFilter(t, o)
			hashes := make([]bloomblock.Hash, 600)
			for i := range hashes {
				hashes[i] = hash(uint64(i))
			}
			f.AddMany(hashes[:500])
			addRange(g, 0, 500)
			if !equal(f, g) || f.added != g.added {
				t.Errorf("%v, rate %v: AddMany sets other bits than AddHash", layout, rate)
			}
			for n := range 70 {
				some := hashes[530-n : 530]
				maybe := f.MayContainMany(some)
				for i, h := range some {
					if i < 64 && maybe>>i&1 != 0 != f.MayContainHash(h) || len(some) < 64 && maybe>>len(some) != 0 {
						t.Fatalf("%v, rate %v: hash %d of %d: %b", layout, rate, i, len(some), maybe)
					}
				}
			}
		}
	}
}

func equal(f, g *Filter) bool {
	for i := range f.units {
		for j, w := range f.units[i].words {
			if g.units[i].words[j] != w {
				return false
			}
		}
	}
	return f.sameShape(g) == nil
}

// A Blocked filter has the bits of a filter block with the same seed.
func TestBitsAreThoseOfAFilterBlock(t *testing.T) {
	const keys = 10_000
	for _, rate := range []float64{0.1, 0.01, 1e-3, 1e-5, 1e-9} {
		f := newFilter(t, Options{Keys: keys, Rate: rate})
		b := bloomblock.Builder{Seed: f.Options().Seed}
		for i := range uint64(keys) {
			f.AddHash(hash(i))
			b.Add(hash(i))
		}
		block := must(bloomblock.Parse(b.AppendBlock(nil, must(bloomblock.ParamsFor(rate)))))
		if f.Bytes() != block.Bytes() {
			t.Fatalf("%d bytes, the block has %d", f.Bytes(), block.Bytes())
		}
		for i := range uint64(20 * keys) {
			if got, want := f.MayContainHash(hash(i)), block.MayContain(hash(i)); got != want {
				t.Fatalf("hash %d: %v, the block answers %v", i, got, want)
			}
		}
		if got, want := f.Rate(), block.FalsePositiveRate(); math.Abs(got/want-1) > 1e-9 {
			t.Errorf("rate %v, the block's is %v", got, want)
		}
	}
}

// A Blocked filter takes at most 1.1 times the bits of the classic filter of its own rate; a little more between the
// rows of the table.
func TestMemoryIsNearThatOfClassic(t *testing.T) {
	testkit.Long(t)
	check := func(rate, most float64) {
		t.Helper()
		f := newFilter(t, Options{Keys: 100_000, Rate: rate})
		own := f.RateAt(100_000)
		if own > rate {
			t.Errorf("made for %v, the rate is %v", rate, own)
		}
		classic := newFilter(t, Options{Keys: 100_000, Rate: own, Layout: LayoutClassic})
		if ratio := float64(f.Bytes()) / float64(classic.Bytes()); ratio > most {
			t.Errorf("rate %v: %.3f times the memory of a classic filter, want %v", own, ratio, most)
		}
	}
	for _, rate := range []float64{0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 1e-4, 1e-5, 1e-6, 1e-7} {
		check(rate, 1.1)
	}
	for rate := 0.25; rate > 1e-8; rate *= 0.9 {
		check(rate, 1.15)
	}
}

// TestASizeThatIsRefusedTakesNoMemory has units of which the first is within the bound, and two are not.
func TestASizeThatIsRefusedTakesNoMemory(t *testing.T) {
	const rate = 1e-6
	first := must(bloomblock.ParamsFor(rate)).Units()[0]
	o := Options{Keys: int(0.6 * maxWords * wordBits / first.BitsPerKey), Rate: rate, Seed: testSeed}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := New(o)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, bloomblock.ErrParams) || taken > 1<<20 {
		t.Errorf("a set for %d keys: %v, and %d bytes were allocated, want %v and a few", o.Keys, err, taken,
			bloomblock.ErrParams)
	}
}

func TestOptionsOutOfRange(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    Options
		want error
	}{
		{"a rate of 1", Options{Rate: 1}, bloomblock.ErrRate},
		{"a negative rate", Options{Rate: -0.1}, bloomblock.ErrRate},
		{"a rate that is not a number", Options{Rate: math.NaN()}, bloomblock.ErrRate},
		{"a rate that no filter has", Options{Rate: 1e-10}, bloomblock.ErrRate},
		{"the smallest rate", Options{Rate: math.SmallestNonzeroFloat64}, bloomblock.ErrRate},
		{"an infinite rate", Options{Rate: math.Inf(1)}, bloomblock.ErrRate},
		{"a rate of minus infinity", Options{Rate: math.Inf(-1)}, bloomblock.ErrRate},
		{"a negative number of keys", Options{Keys: -1}, bloomblock.ErrParams},
		{"the most negative number of keys", Options{Keys: math.MinInt}, bloomblock.ErrParams},
		{"more keys than memory", Options{Keys: math.MaxInt}, bloomblock.ErrParams},
		{"an unknown layout", Options{Layout: 3}, bloomblock.ErrParams},
	} {
		for _, kind := range kinds {
			if tt.o.Layout != LayoutBlocked && (kind.name == "classic" || kind.name == "partitioned") {
				continue // they choose the layout
			}
			if _, err := kind.make(tt.o); !errors.Is(err, tt.want) {
				t.Errorf("%s, %s: %v, want %v", kind.name, tt.name, err, tt.want)
			}
		}
	}
	if math.MaxInt > math.MaxInt32 { // an absent key has the hash of one of so many keys too often
		keys := math.MaxInt >> 32
		if _, err := New(Options{Keys: keys, Rate: 1e-9}); !errors.Is(err, bloomblock.ErrRate) {
			t.Errorf("%d keys at 1e-9: %v, want %v", keys, err, bloomblock.ErrRate)
		}
	}
	for _, layout := range []Layout{LayoutBlocked, LayoutClassic, LayoutPartitioned} {
		for _, keys := range []int{-1, math.MinInt, math.MaxInt} {
			if _, err := New(Options{Keys: keys, Layout: layout}); !errors.Is(err, bloomblock.ErrParams) {
				t.Errorf("%v with %d keys: %v, want %v", layout, keys, err, bloomblock.ErrParams)
			}
		}
		f := newFilter(t, Options{Layout: layout})
		f.Add([]byte("one more than it is made for"))
		if !f.Saturated() || f.RateAt(0) != 0 || f.Bytes() > 1024 {
			t.Errorf("%v without keys: saturated %v, %d bytes", layout, f.Saturated(), f.Bytes())
		}
		f.Clear()
		if f.Saturated() || f.Fill() != 0 || f.Rate() != 0 {
			t.Errorf("%v after Clear: fill %v, rate %v", layout, f.Fill(), f.Rate())
		}
	}
	for _, make := range []func(Options) error{
		func(o Options) error { _, err := NewAtomic(o); return err },
		func(o Options) error { _, err := NewCounting(o); return err },
	} {
		if err := make(Options{Keys: 10, Layout: LayoutClassic}); !errors.Is(err, bloomblock.ErrParams) {
			t.Errorf("a layout other than Blocked: %v, want %v", err, bloomblock.ErrParams)
		}
	}
	if _, err := NewWindow(Options{Keys: 10}, 1); !errors.Is(err, bloomblock.ErrParams) {
		t.Errorf("a window of one generation: %v, want %v", err, bloomblock.ErrParams)
	}
	for _, generations := range []int{math.MinInt, -1, 0, 65, math.MaxInt} {
		if _, err := NewWindow(Options{Keys: 10}, generations); !errors.Is(err, bloomblock.ErrParams) {
			t.Errorf("a window of %d generations: %v, want %v", generations, err, bloomblock.ErrParams)
		}
	}
	if _, err := NewWindow(Options{Rate: 3e-9}, 4); !errors.Is(err, bloomblock.ErrRate) {
		t.Errorf("a window of rate 3e-9: %v, want %v", err, bloomblock.ErrRate)
	}
	if _, err := NewAtomic(Options{Rate: 5.4e-6}); err != nil {
		t.Error(err)
	}
	_, err := NewAtomic(Options{Rate: 5.3e-6})
	if !errors.Is(err, bloomblock.ErrRate) || !strings.Contains(err.Error(), "5.4e-06") {
		t.Errorf("an atomic of rate 5.3e-6: %v, want %v and the best rate", err, bloomblock.ErrRate)
	}
	if _, err := NewScalable(Options{Rate: 1e-6}); !errors.Is(err, bloomblock.ErrRate) {
		t.Errorf("a scalable of rate 1e-6: %v, want %v", err, bloomblock.ErrRate)
	}
}

func TestSetsAllocateNothing(t *testing.T) {
	for _, kind := range kinds {
		s, err := kind.make(Options{Keys: 10_000, Rate: 1e-4})
		if err != nil {
			t.Fatal(err)
		}
		i, key := uint64(0), make([]byte, 16)
		if n := testing.AllocsPerRun(1000, func() {
			i++
			key[i%16]++
			s.Add(key)
			s.AddHash(hash2(i))
			s.MayContain(key)
			s.MayContainHash(hash2(i))
			if c, ok := s.(*Counting); ok {
				c.Remove(key)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations, want 0", kind.name, n)
		}
	}
}

func hash2(i uint64) bloomblock.Hash { return bloomblock.Hash(i).Next() }

// BenchmarkSets measures each kind with 10⁶ keys at a rate of 1 %, by hash.
func BenchmarkSets(b *testing.B) {
	const keys = 1_000_000
	hashes := make([]bloomblock.Hash, 2*keys)
	for i := range hashes {
		hashes[i] = hash(uint64(i))
	}
	for _, kind := range kinds {
		s := must(kind.make(Options{Keys: keys, Rate: 0.01, Seed: testSeed}))
		for _, h := range hashes[:keys] {
			s.AddHash(h)
		}
		ask := func(name string, hashes []bloomblock.Hash) {
			b.Run(kind.name+"/"+name, func(b *testing.B) {
				i := 0
				for b.Loop() {
					s.MayContainHash(hashes[i])
					if i++; i == keys {
						i = 0
					}
				}
			})
		}
		ask("present", hashes[:keys])
		ask("absent", hashes[keys:])
		b.Run(kind.name+"/add", func(b *testing.B) {
			i := keys
			for b.Loop() {
				if i == keys {
					b.StopTimer()
					i, s = 0, must(kind.make(Options{Keys: keys, Rate: 0.01, Seed: testSeed}))
					b.StartTimer()
				}
				s.AddHash(hashes[i])
				i++
			}
		})
	}
}
