package bloomblock

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

func ribbonOf(tb testing.TB, rates ...float64) Params {
	tb.Helper()
	p, err := ParamsRibbon(rates...)
	must(tb, err)
	return p
}

// TestARibbonKeepsItsRateAndDeniesNoKey compares four rates: promised, expected from the shape, exact from the bits,
// and measured.
func TestARibbonKeepsItsRateAndDeniesNoKey(t *testing.T) {
	testkit.Long(t)
	for _, n := range []uint64{0, 1, 2, 63, 64, 65, 200, 1000, 10_000, 100_000} {
		for _, rate := range []float64{0.4, 0.1, 0.00855, 0.001, BestRibbonRate} {
			block := blockOf(ribbonOf(t, rate), hashesOf(numbered, 0, n))
			f, err := Parse(block)
			if err != nil {
				t.Fatalf("%d keys, rate %g: %v", n, rate, err)
			}
			for h := range hashesOf(numbered, 0, n) {
				if !f.MayContain(h) {
					t.Fatalf("%d keys, rate %g: a key is denied", n, rate)
				}
			}
			exact := rateOfBits(&f)
			if exact > rate*1.001 || exactRate(&f) > rate { // the builder samples one start in 64
				t.Errorf("%d keys: rate %g from the bits, %g expected, want at most %g",
					n, exact, exactRate(&f), rate)
			}
			if r := exact / exactRate(&f); f.ribbon != nil && n >= 10_000 && (r < 0.999 || r > 1.03) {
				t.Errorf("%d keys, rate %g: %g from the bits, %g expected", n, rate, exact, exactRate(&f))
			}
			const probes = 300_000
			found := 0
			for h := range hashesOf(numbered, 1<<40, probes) {
				if f.MayContain(h) {
					found++
				}
			}
			if want := exact * probes; math.Abs(float64(found)-want) > 5*math.Sqrt(want)+1 {
				t.Errorf("%d keys, rate %g: %d of %d absent keys pass, want %.0f by the bits",
					n, rate, found, probes, want)
			}
		}
	}
}

// TestAWidestRibbonThatMissesItsRateGetsMoreSlots: there is no shape with more columns, which a Builder must not look
// for.
func TestAWidestRibbonThatMissesItsRateGetsMoreSlots(t *testing.T) {
	testkit.LongUnderRace(t)
	b := Builder{}
	for i := range uint64(100_000) { // one of 30 sets: its rate is 1.016 of that of random bits
		b.Add(Hash((13<<40 + i) * mulFields).Next())
	}
	h, err := ParseHeader(b.AppendBlock(nil, ribbonOf(t, BestRibbonRate)))
	must(t, err)
	if u := h.Units[0]; u.Columns != maxColumns || u.Overhead != usualOverhead+1 {
		t.Errorf("%d columns, %d %% overhead, want %d and %d", u.Columns, u.Overhead, maxColumns, usualOverhead+1)
	}
}

func TestARibbonIsSmallerThanABloomFilterOrIsOne(t *testing.T) {
	testkit.Long(t)
	for _, rate := range []float64{0.3, 0.1, 0.05, 0.00855, 0.001, 0.0001, BestRibbonRate} {
		bloom, err := ParamsNested(rate)
		must(t, err)
		for _, n := range []uint64{0, 1, 10, 100, 1000, 10_000, 100_000} {
			hashes := hashesOf(numbered, 0, n)
			ribbon, other := blockOf(ribbonOf(t, rate), hashes), blockOf(bloom, hashes)
			if len(ribbon) > len(other) {
				t.Errorf("%d keys, rate %g: %d bytes, a Bloom filter has %d", n, rate, len(ribbon), len(other))
			}
			if n < 10_000 || rate > 0.1 {
				continue
			}
			if r := float64(len(ribbon)-HeaderSize) / float64(len(other)-HeaderSize); r > 0.77 {
				t.Errorf("%d keys, rate %g: %.3f of the bytes of a Bloom filter, want at most 0.77", n, rate, r)
			}
			bits := 8 * float64(len(ribbon)-HeaderSize) / float64(n)
			if want := ribbonOf(t, rate).BitsPerKey(); math.Abs(bits/want-1) > 0.02+400/float64(n) {
				t.Errorf("%d keys, rate %g: %.3f bits per key, foretold %.3f", n, rate, bits, want)
			}
		}
	}
}

// TestARibbonIsTheFirstOfNestedUnits: every number of leading units is a filter of the same keys, with the rate of the
// plan.
func TestARibbonIsTheFirstOfNestedUnits(t *testing.T) {
	testkit.Long(t)
	rates := []float64{0.00855, 0.0003, 1e-6}
	p := ribbonOf(t, rates...)
	if !p.Ribbon() || len(p.Units()) != 3 {
		t.Fatalf("%d units, Ribbon %v; want 3, true", len(p.Units()), p.Ribbon())
	}
	const n = 20_000
	block := blockOf(p, hashesOf(numbered, 0, n))
	h, err := ParseHeader(block)
	must(t, err)
	var units [][]byte
	for i, rate := range rates {
		if got := h.UnitsFor(rate); got != i+1 {
			t.Errorf("%d units for a rate of %g, want %d", got, rate, i+1)
		}
		units = append(units, block[h.Units[i].Offset:][:h.Units[i].Bytes()])
		f, err := h.Filter(units)
		must(t, err)
		if f.Units() != i+1 || uint64(f.Bytes()) != h.PrefixSize(i+1)-HeaderSize {
			t.Errorf("%d units of %d bytes, want %d of %d", f.Units(), f.Bytes(), i+1, h.PrefixSize(i+1)-HeaderSize)
		}
		units := f.UnitBits()
		if got := rateOfBits(&f); got > rate || len(units) != i+1 || h.Units[0].Columns == 0 {
			t.Errorf("%d units: rate %g, want %d, at most %g", len(units), got, i+1, rate)
		}
		for k, u := range f.units[:f.n] { // each has all keys
			want := binomialRate(n, u.blocks, int(u.probes))
			if got := bitsRate(u.bits, int(u.probes)); math.Abs(got/want-1) > 0.05 {
				t.Errorf("Bloom unit %d: rate %g by its bits, want %g", k, got, want)
			}
		}
		for key := range hashesOf(numbered, 0, n) {
			if !f.MayContain(key) {
				t.Fatalf("%d units deny a key", i+1)
			}
		}
		found := 0
		const probes = 1_000_000
		for key := range hashesOf(numbered, 1<<40, probes) {
			if f.MayContain(key) {
				found++
			}
		}
		if want := rateOfBits(&f) * probes; math.Abs(float64(found)-want) > 5*math.Sqrt(want)+1 {
			t.Errorf("%d units: %d of %d absent keys pass, want %.0f by the bits", i+1, found, probes, want)
		}
	}
}

// TestNestedUnitsOfAnySize: the first unit is of either kind, and neither it nor later units deny a key.
func TestNestedUnitsOfAnySize(t *testing.T) {
	p := ribbonOf(t, 0.05, 0.003, 1e-5)
	kinds := map[bool]int{}
	for n := uint64(0); n < 3000; n += 1 + n/8 {
		f := filterOf(t, p, hashesOf(numbered, 0, n))
		kinds[f.ribbon != nil]++
		for h := range hashesOf(numbered, 0, n) {
			if !f.MayContain(h) {
				t.Fatalf("%d keys, Ribbon %v: a key is denied", n, f.ribbon != nil)
			}
		}
		if r := rateOfBits(f); r > 1e-5 || f.Units() != 3 {
			t.Errorf("%d keys, Ribbon %v: %d units, rate %g, want 3, at most 1e-5", n, f.ribbon != nil, f.Units(), r)
		}
	}
	if kinds[false] < 5 || kinds[true] < 5 {
		t.Errorf("%v: too few of one kind", kinds)
	}
}

func TestRatesOfARibbonOutOfRange(t *testing.T) {
	for _, rates := range [][]float64{{BestRibbonRate / 1.01}, {math.NaN()}, {-1}, {0}, {0.01, 1e-12}} {
		if _, err := ParamsRibbon(rates...); !errors.Is(err, ErrRate) {
			t.Errorf("%v: error %v, want ErrRate", rates, err)
		}
	}
	for _, rates := range [][]float64{nil, {0.01, 0.02}, {0.01, 0.001, 1e-4, 1e-5}} {
		if _, err := ParamsRibbon(rates...); !errors.Is(err, ErrParams) {
			t.Errorf("%v: error %v, want ErrParams", rates, err)
		}
	}
	for _, rate := range []float64{0.5, 0.7, 1, 2} {
		want, err := ParamsNested(rate)
		must(t, err)
		if got := ribbonOf(t, rate); got != want {
			t.Errorf("%v: %+v, want %+v", rate, got, want)
		}
	}
}

// TestHashesThatAreNotRandom: every added hash is found, and building ends, even if all bands begin at one slot.
func TestHashesThatAreNotRandom(t *testing.T) {
	testkit.LongUnderRace(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for name, next := range map[string]func(i uint64) Hash{
		"one":         func(uint64) Hash { return 7 },
		"two in turn": func(i uint64) Hash { return Hash(i % 2) },
		"counted":     func(i uint64) Hash { return Hash(i) },
		"at the end":  func(i uint64) Hash { return Hash(math.MaxUint64 - i) },
		"low bits":    func(i uint64) Hash { return Hash(i << 40) },
		"crowded":     func(uint64) Hash { return Hash(rng.Uint64() >> 12) },
		"two crowds":  func(uint64) Hash { return Hash(rng.Uint64()>>16 | rng.Uint64()<<63) },
	} {
		for _, n := range []uint64{100, 3000, 30_000} {
			var hashes []Hash
			for i := range n {
				hashes = append(hashes, next(i))
			}
			f := filterOf(t, ribbonOf(t, 0.00855), func(yield func(Hash) bool) {
				for _, h := range hashes {
					if !yield(h) {
						return
					}
				}
			})
			for _, h := range hashes {
				if !f.MayContain(h) {
					t.Fatalf("%s, %d keys: hash %x is denied", name, n, h)
				}
			}
		}
	}
}

func TestEveryBitOfARibbonMatters(t *testing.T) {
	block := blockOf(ribbonOf(t, 0.01, 1e-4), hashesOf(numbered, 0, 1000))
	if h, err := ParseHeader(block); err != nil || h.Units[0].Columns == 0 {
		t.Fatalf("%+v, %v: want a Ribbon unit", h, err)
	}
	for i := range len(block) * 8 {
		block[i/8] ^= 1 << (i % 8)
		if f, err := Parse(block); !errors.Is(err, ErrDamaged) || f.Units() != 0 {
			t.Fatalf("bit %d flipped: error %v, want ErrDamaged and no filter", i, err)
		}
		block[i/8] ^= 1 << (i % 8)
	}
}

// TestAHostileRibbonHeaderIsRefused parses inconsistent fields under a right checksum.
func TestAHostileRibbonHeaderIsRefused(t *testing.T) {
	whole := blockOf(ribbonOf(t, 0.01, 1e-4), hashesOf(numbered, 0, 1000))
	for name, change := range map[string]func(b []byte){
		"no columns":          func(b []byte) { b[offUnit+unitProbes] = 0 },
		"a column less":       func(b []byte) { b[offUnit+unitProbes] -= 2 },
		"a column more":       func(b []byte) { b[offUnit+unitProbes] += 2 },
		"sixteen columns":     func(b []byte) { b[offUnit+unitProbes] = 16 },
		"no overhead":         func(b []byte) { b[offUnit+unitOverhead] = 0 },
		"overhead above most": func(b []byte) { b[offUnit+unitOverhead] = 101 },
		"too many keys":       func(b []byte) { copy(b[offKeys:], bytes.Repeat([]byte{0xff}, 8)) },
		"many keys":           func(b []byte) { b[offKeys+4] = 1 },
		"no keys":             func(b []byte) { clear(b[offKeys:][:8]) },
		"no blocks":           func(b []byte) { clear(b[offUnit:][:8]) },
		"many blocks":         func(b []byte) { b[offUnit+4] = 1 },
		"a Ribbon behind":     func(b []byte) { b[offUnit+unitSize+unitOverhead] = 5 },
		"reserved":            func(b []byte) { b[offUnit+unitReserved] = 1 },
	} {
		b := bytes.Clone(whole)
		change(b)
		sign(b)
		if _, err := ParseHeader(b); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: error %v, want ErrDamaged", name, err)
		}
	}
	h, err := ParseHeader(whole)
	must(t, err)
	unit := whole[h.Units[0].Offset:][:h.Units[0].Bytes()]
	h.Keys = 5000 // more keys than the unit has slots for
	if _, err := h.Filter([][]byte{unit}); !errors.Is(err, ErrParams) {
		t.Errorf("a header made by hand: error %v, want ErrParams", err)
	}
}

func BenchmarkRibbon(b *testing.B) {
	queries := make([]Hash, benchQueries)
	for i := range queries {
		queries[i] = HashKey(numbered(uint64(i) + 1<<40))
	}
	for _, keys := range []uint64{1e4, 1e5, 1e6} {
		for _, rate := range []float64{0.00855, 0.001} {
			p := ribbonOf(b, rate)
			name := fmt.Sprintf("keys=%d/rate=%g", keys, rate)
			b.Run(name+"/build", func(b *testing.B) {
				var builder Builder
				for h := range hashesOf(numbered, 0, keys) {
					builder.Add(h)
				}
				var block []byte
				for b.Loop() {
					block = builder.AppendBlock(block[:0], p)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(keys), "ns/key")
				b.ReportMetric(8*float64(len(block))/float64(keys), "bits/key")
			})
			f := filterOf(b, p, hashesOf(numbered, 0, keys))
			b.Run(name+"/absent", func(b *testing.B) {
				i := 0
				for b.Loop() {
					i++
					if f.MayContain(queries[i&(benchQueries-1)]) {
						i++
					}
				}
			})
			b.Run(name+"/present", func(b *testing.B) {
				i := uint64(0)
				for b.Loop() {
					i += 7919
					if !f.MayContain(HashKey(numbered(i % keys))) {
						b.Fatal("denied")
					}
				}
			})
		}
	}
}

// TestRandomKeysAlwaysHaveTheirRibbon builds many units of random keys. Some need a little more space than planned.
func TestRandomKeysAlwaysHaveTheirRibbon(t *testing.T) {
	testkit.Long(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, rate := range []float64{0.01, 0.0003, 0.0002} {
		p, err := ParamsRibbon(rate)
		must(t, err)
		for _, keys := range []int{3000, 5272, 6091} {
			_, planned := planRibbon(uint64(keys), rate*ribbonMargin, usualOverhead)
			const sets = 100
			blooms, blocks := 0, uint64(0)
			for seed := range sets {
				b := &Builder{Seed: Seed(seed + 1)}
				for range keys {
					b.Add(Hash(rng.Uint64()))
				}
				h, err := ParseHeader(b.AppendBlock(nil, p))
				must(t, err)
				if h.Units[0].Columns == 0 {
					blooms++
				}
				blocks += h.Units[0].Blocks
			}
			if blooms > 0 || float64(blocks) > 1.005*float64(planned*sets) {
				t.Errorf("rate %v, %d keys: %d of %d units are Bloom filters, want none; "+
					"mean size %.2f blocks, want %d",
					rate, keys, blooms, sets, float64(blocks)/float64(sets), planned)
			}
		}
	}
}

// A countedScratch lends memory that must be given back before the next loan.
type countedScratch struct {
	t      *testing.T
	lent   bool
	loans  int
	hashes int
}

func (c *countedScratch) Rows(n int) [][2]uint64 {
	if n < 100_000 {
		c.t.Errorf("%d rows, want more than there are keys", n)
	}
	c.lent = true
	c.loans++
	return make([][2]uint64, n)
}

func (c *countedScratch) Free() { c.lent = false }

func (c *countedScratch) Hashes(n int) []Hash {
	c.hashes += n
	lent := make([]Hash, n)
	for i := range lent {
		lent[i] = ^Hash(0)
	}
	return lent
}

func TestARibbonUnitIsTheSameWithScratch(t *testing.T) {
	testkit.LongUnderRace(t)
	scratch := &countedScratch{t: t}
	with, without := Builder{Scratch: scratch}, Builder{}
	p := ribbonOf(t, 0.01)
	for range 2 {
		for _, b := range []*Builder{&with, &without} {
			b.Reset()
			for i := range uint64(100_000) {
				b.Add(HashKey(numbered(i)))
			}
		}
		if !bytes.Equal(with.AppendBlock(nil, p), without.AppendBlock(nil, p)) {
			t.Error("the filters differ")
		}
		if scratch.lent {
			t.Error("the scratch is still lent")
		}
	}
	if scratch.loans < 2 {
		t.Errorf("%d loans for two filters", scratch.loans)
	}
	// The first chunk is in the heap. Reset leaves the others.
	if want := 2 * ((100_000 - 1) / chunk * chunk); scratch.hashes != want {
		t.Errorf("memory for %d hashes, want %d", scratch.hashes, want)
	}
	h, want := unitsOf(t, without.AppendBlock(nil, p))
	if got, err := with.Rebuild(h); err != nil || !bytes.Equal(got[0], want[0]) || scratch.lent {
		t.Errorf("built again: %v, or other bits; the scratch is still lent: %v", err, scratch.lent)
	}
}

func TestARibbonOfTooManySlotsIsNotBuiltAgain(t *testing.T) {
	var b Builder
	if units, err := b.Rebuild(ribbonOf(t, 0.01).Header(maxRebuildSlots)); !errors.Is(err, ErrParams) {
		t.Errorf("%d units, %v, want ErrParams", len(units), err)
	}
	if units, err := b.Rebuild(Header{Units: []UnitHeader{{Blocks: 1}}}); !errors.Is(err, ErrParams) {
		t.Errorf("a unit without probes and columns: %d units, %v, want ErrParams", len(units), err)
	}
}
