package bloomblock

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

func seededFilter(tb testing.TB, seed Seed, p Params, hashes iter.Seq[Hash]) *Filter {
	tb.Helper()
	b := Builder{Seed: seed}
	for h := range hashes {
		b.Add(h)
	}
	f, err := Parse(b.AppendBlock(nil, p))
	must(tb, err)
	return &f
}

// chosen are sets of hashes that an adversary would choose if the filter has no seed, so that their bits are known.
// XXH64 of eight-byte keys can be inverted, so every hash has a key.
var chosen = []struct {
	name string
	hash func(i uint64) Hash
}{
	{"a fifth of all hashes", func(i uint64) Hash { return spread(i) / 5 }},
	{"a thousandth of all hashes", func(i uint64) Hash { return spread(i) / 1000 }},
	{"one after the other", func(i uint64) Hash { return Hash(i) }},
	{"multiples of 2³²", func(i uint64) Hash { return Hash(i << 32) }},
	{"the high half all ones", func(i uint64) Hash { return spread(i) | 0xffffffff<<32 }},
	{"the low half zero", func(i uint64) Hash { return spread(i) &^ 0xffffffff }},
	{"the same fields", func(i uint64) Hash { return Hash(i<<36 | 0x123456789) }},
	{"multiples of the inverse of the fields' multiplier", func(i uint64) Hash { return Hash(i * inverse(mulFields)) }},
	{"the highest bit of the third mix is zero", func(i uint64) Hash { return frontHalf(i) }},
	{"few distinct ones, again and again", func(i uint64) Hash { return spread(i % 100) }},
	{"all equal", func(uint64) Hash { return 42 }},
}

func spread(i uint64) Hash { return Hash(i + 1).Next().Next() }

// inverse returns the inverse of an odd number, modulo 2⁶⁴, by Newton's iteration.
func inverse(x uint64) uint64 {
	y := x
	for range 6 {
		y *= 2 - x*y
	}
	return y
}

// frontHalf returns a hash whose band lies in the front half of a Ribbon unit without a seed: twice as many equations
// as slots.
func frontHalf(i uint64) Hash {
	r := rand.New(rand.NewPCG(i, 3))
	for {
		h := Hash(r.Uint64())
		if start, _, _ := h.band(2); start == 0 {
			return h
		}
	}
}

// TestChosenHashesDoNotCrowdAFilterWithASeed measures the waste for random keys when every key in the filter was
// chosen without knowing the seed.
func TestChosenHashesDoNotCrowdAFilterWithASeed(t *testing.T) {
	keys, seeds := uint64(50_000), 5
	if testing.Short() {
		keys, seeds = 5000, 1
	}
	for name, p := range map[string]Params{
		"Bloom": paramsFor(t, 0.01), "two units": paramsOf(t, Unit{7, 5}, Unit{5, 3}), "Ribbon": ribbonOf(t, 0.01),
	} {
		for _, set := range chosen {
			for seed := range seeds {
				t.Run(fmt.Sprintf("%s/%s/%d", name, set.name, seed), func(t *testing.T) {
					b := Builder{Seed: Seed(spread(uint64(seed)))}
					for i := range keys {
						b.Add(set.hash(i))
					}
					f, err := Parse(b.AppendBlock(nil, p))
					must(t, err)
					if f.Seed() != b.Seed {
						t.Errorf("seed %x, want %x: the hashes crowd", f.Seed(), b.Seed)
					}
					if r := f.FalsePositiveRate(); r > 1.1*p.Rate() {
						t.Errorf("rate %g of the bits, want at most 1.1 × %g", r, p.Rate())
					}
					for i := range keys {
						if !f.MayContain(set.hash(i)) {
							t.Fatalf("hash %x is denied", set.hash(i))
						}
					}
				})
			}
		}
	}
}

// With a known seed, hashes can be chosen that crowd under it. The builder then takes another seed.
func TestABuilderTakesAnotherSeedWhereHashesCrowd(t *testing.T) {
	const keys, seed = 20_000, Seed(0)
	for name, p := range map[string]Params{
		"Bloom":     paramsFor(t, 0.01),
		"two units": paramsOf(t, Unit{7, 5}, Unit{5, 3}),
		"Ribbon":    ribbonOf(t, 0.01, 0.001),
	} {
		t.Run(name, func(t *testing.T) {
			var hashes []Hash
			for i := range uint64(keys) {
				hashes = append(hashes, spread(i)/5)
			}
			slices.Sort(hashes)
			f := seededFilter(t, seed, p, slices.Values(hashes))
			if name != "Ribbon" && f.Seed() == seed { // a Ribbon unit uses another hash than these
				t.Errorf("the seed is still %x", f.Seed())
			}
			if r := f.FalsePositiveRate(); r > 1.1*p.Rate() {
				t.Errorf("rate %g of the bits, want at most 1.1 × %g", r, p.Rate())
			}
			for _, h := range hashes {
				if !f.MayContain(h) {
					t.Fatalf("hash %x is denied", h)
				}
			}
		})
	}
}

// If no seed keeps a rate, the header has the real one.
func TestAHeaderSaysTheRateThatItsBitsHave(t *testing.T) {
	p := paramsFor(t, 0.01)
	u := UnitHeader{Blocks: 1, Probes: 6}
	for _, tt := range []struct {
		rate float64
		keys uint64
		want bool
	}{
		{0.009, 51, true}, {0.011, 51, true}, {0.02, 51, true}, {0.9, 51, false},
	} {
		if got := plausible(tt.rate, p.Rate(), tt.keys, &u); got != tt.want {
			t.Errorf("one block of %d keys with a rate of %g: plausible %v, want %v", tt.keys, tt.rate, got, tt.want)
		}
	}
	u.Blocks = 1000
	if plausible(0.013, p.Rate(), 51_000, &u) {
		t.Error("a thousand blocks with a rate of 0.013 are plausible, want not")
	}
}

// Dependent equations make a Ribbon expensive. With hashes chosen for a known seed the builder gives up within its
// bound and builds a Bloom unit, and the filter is as good.
func TestARibbonGivesUpWithinItsBound(t *testing.T) {
	const keys = 20_000
	b := Builder{}
	for i := range uint64(keys) {
		b.Add(frontHalf(i))
	}
	p := ribbonOf(t, 0.01)
	f, err := Parse(b.AppendBlock(nil, p))
	must(t, err)
	if f.ribbon != nil {
		t.Error("a Ribbon was built, want a Bloom unit")
	}
	if r := f.FalsePositiveRate(); r > 1.1*p.Rate() {
		t.Errorf("rate %g of the bits, want at most 1.1 × %g", r, p.Rate())
	}
	b.Seed = 7
	if f, err = Parse(b.AppendBlock(nil, p)); err != nil {
		t.Fatal(err)
	}
	if f.ribbon == nil {
		t.Error("with a seed no Ribbon was built")
	}
}

// TestStepsOfElimination counts the elimination steps of random hashes; maxStepsPerKey is a multiple of them.
func TestStepsOfElimination(t *testing.T) {
	for _, keys := range []int{1000, 10_000, 100_000} {
		var s solver
		shape, blocks := planRibbon(uint64(keys), 0.01, usualOverhead)
		r := ribbon{ribbonShape: shape, bits: make([]byte, blocks*blockBytes)}
		hashes := slices.Collect(hashesOf(numbered, 0, uint64(keys)))
		const all = 1 << 30
		steps := all - s.eliminate(&r, [][]Hash{hashes}, 5, all)
		t.Logf("%d keys: %.1f steps a key", keys, float64(steps)/float64(keys))
		if steps*8 > maxStepsPerKey*keys {
			t.Errorf("%d keys take %d steps, want at most an eighth of the bound", keys, steps)
		}
		if left := s.eliminate(&r, [][]Hash{hashes}, 5, steps-1); left >= 0 {
			t.Errorf("%d keys: %d steps left of too few", keys, left)
		}
	}
}

// One bit of a hash changes half of the bits of the mixed hash, for any seed.
func TestMixSpreadsEveryBit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const hashes = 2000
	for bit := range 64 {
		changed := 0
		for range hashes {
			s, h := Seed(r.Uint64()), Hash(r.Uint64())
			changed += bits.OnesCount64(uint64(s.Mix(h) ^ s.Mix(h^1<<bit)))
		}
		if mean := float64(changed) / hashes; mean < 30 || mean > 34 {
			t.Errorf("bit %d changes %.1f bits, want about 32", bit, mean)
		}
	}
	if got := Seed(0).Mix(42); got != 42 {
		t.Errorf("seed 0 makes %d of 42, want 42", got)
	}
	if first, second := NewSeed(), NewSeed(); first == second {
		t.Error("two random seeds are equal")
	}
}

func BenchmarkMix(b *testing.B) {
	s, h := NewSeed(), Hash(1)
	for b.Loop() {
		h = s.Mix(h)
	}
	binary.LittleEndian.PutUint64(make([]byte, 8), uint64(h))
}
