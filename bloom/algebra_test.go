package bloom

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

func TestTheUnionIsTheFilterOfBothSets(t *testing.T) {
	for _, layout := range []Layout{LayoutBlocked, LayoutClassic, LayoutPartitioned} {
		for _, rate := range []float64{0.1, 0.01, 1e-5} {
			o := Options{Keys: 5000, Rate: rate, Seed: testSeed, Layout: layout}
			a, b, both := newFilter(t, o), newFilter(t, o), newFilter(t, o)
			addRange(a, 0, 3000)
			addRange(b, 2000, 3000)
			addRange(both, 0, 5000)
			before := a.Clone()
			if err := a.Union(b); err != nil {
				t.Fatal(err)
			}
			if !equal(a, both) || equal(a, before) {
				t.Errorf("%v, rate %v: the union differs from the filter of both sets", layout, rate)
			}
			addRange(a, 10_000, 1000)
			if !a.Saturated() {
				t.Errorf("%v: a union with more keys than it was made for is not saturated", layout)
			}
		}
	}
}

func TestShapesDiffer(t *testing.T) {
	o := Options{Keys: 1000, Rate: 0.01, Seed: testSeed}
	f := newFilter(t, o)
	for name, other := range map[string]Options{
		"keys": {Keys: 2000, Rate: 0.01, Seed: testSeed}, "rate": {Keys: 1000, Rate: 1e-6, Seed: testSeed},
		"seed":   {Keys: 1000, Rate: 0.01, Seed: 1},
		"layout": {Keys: 1000, Rate: 0.01, Seed: testSeed, Layout: LayoutClassic},
	} {
		g := newFilter(t, other)
		g.AddHash(1)
		if err := f.Union(g); !errors.Is(err, ErrShape) || f.Fill() != 0 {
			t.Errorf("another %s: %v, want %v", name, err, ErrShape)
		}
		if _, err := f.Compare(g); !errors.Is(err, ErrShape) {
			t.Errorf("another %s: %v, want %v", name, err, ErrShape)
		}
	}
}

// In at least 95 of 100 trials each estimate is within its error.
func TestEstimatesAreWithinTheirErrors(t *testing.T) {
	testkit.Long(t)
	random := rand.New(rand.NewPCG(7, 8))
	for _, layout := range []Layout{LayoutBlocked, LayoutClassic, LayoutPartitioned} {
		for _, rate := range []float64{0.05, 1e-4} {
			const trials = 100
			within := make(map[string]int)
			errs := 0.0
			for range trials {
				onlyA, onlyB, both := random.IntN(4000), random.IntN(4000), random.IntN(3000)
				o := Options{Keys: 5000, Rate: rate, Seed: testSeed, Layout: layout}
				a, b := newFilter(t, o), newFilter(t, o)
				for i := range onlyA + onlyB + both {
					h := bloomblock.Hash(random.Uint64())
					if i < onlyA+both {
						a.AddHash(h)
					}
					if i >= onlyA {
						b.AddHash(h)
					}
				}
				got, err := a.Compare(b)
				if err != nil {
					t.Fatal(err)
				}
				check := func(name string, e Estimate, want int) {
					if math.Abs(e.Value-float64(want)) <= e.Err {
						within[name]++
					}
				}
				check("count", a.EstimatedCount(), onlyA+both)
				check("union", got.Union, onlyA+onlyB+both)
				check("intersection", got.Intersection, both)
				check("difference", got.Difference, onlyA)
				errs += got.Intersection.Err
			}
			for _, name := range []string{"count", "union", "intersection", "difference"} {
				if n := within[name]; n < 95 {
					t.Errorf("%v, rate %v: %s within its error in %d of %d trials", layout, rate, name, n, trials)
				}
			}
			if mean := errs / trials; mean > 400 {
				t.Errorf("%v, rate %v: the mean error of an intersection is %v", layout, rate, mean)
			}
		}
	}
}

func TestSharesOfSetsOfOtherShapes(t *testing.T) {
	const keys, trials = 20_000, 100
	within := 0
	for trial := range trials {
		random := rand.New(rand.NewPCG(9, uint64(trial)))
		f := newFilter(t, Options{Keys: keys, Rate: 0.05, Seed: testSeed, Layout: Layout(trial % 3)})
		addRange(f, 0, keys)
		share := float64(trial) / (trials - 1)
		sample := make([]bloomblock.Hash, 1000)
		for i := range sample { // that share of it is in f
			sample[i] = hash(random.Uint64N(keys))
			if random.Float64() >= share {
				sample[i] = hash(random.Uint64N(keys) + 1<<40)
			}
		}
		if got := f.Share(sample); math.Abs(got.Value-share) <= got.Err {
			within++
		}
	}
	if within < 95 {
		t.Errorf("%d of %d shares are within their errors", within, trials)
	}
	if got := newFilter(t, Options{Keys: 10}).Share(nil); got != (Estimate{0.5, 0.5}) {
		t.Errorf("without a sample: %v", got)
	}
}
