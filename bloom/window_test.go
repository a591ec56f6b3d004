package bloom

import (
	"math"
	"math/rand/v2"
	"testing"
)

// After each addition to a stream of random keys, the window is asked for one of the last n keys, which must be found.
func TestWindowHasTheLatestKeys(t *testing.T) {
	for _, generations := range []int{2, 3, 8} {
		n := *operations / 40
		w := must(NewWindow(Options{Keys: n, Seed: testSeed}, generations))
		var stream []uint64
		random := rand.New(rand.NewPCG(5, 6))
		for range *operations {
			if k := random.Uint64N(uint64(*operations)); len(stream) == 0 || random.Uint64N(8) > 0 {
				w.AddHash(hash(k))
				stream = append(stream, k)
			}
			if k := stream[len(stream)-1-random.IntN(min(len(stream), n))]; !w.MayContainHash(hash(k)) {
				t.Fatalf("%d generations: a key of the last %d is denied", generations, n)
			}
		}
		for _, k := range stream[len(stream)-n:] {
			if !w.MayContainHash(hash(k)) {
				t.Fatalf("%d generations: a key of the last %d is denied at the end", generations, n)
			}
		}
		if w.Generations() != generations {
			t.Errorf("%d generations, want %d", w.Generations(), generations)
		}
	}
}

func TestWindowForgets(t *testing.T) {
	const n, g, rate = 30_000, 4, 0.01
	w := must(NewWindow(Options{Keys: n, Rate: rate, Seed: testSeed}, g))
	addRange(w, 0, 10*n)
	most := n * g / (g - 1)
	// Older keys are found no more often than absent ones.
	old := 0
	for i := range uint64(10*n - most - 200) {
		if w.MayContainHash(hash(i)) {
			old++
		}
	}
	share := float64(old) / float64(10*n-most-200)
	if share > rate || math.Abs(share/w.Rate()-1) > 0.1 {
		t.Errorf("%v of the forgotten keys are found, the rate is %v", share, w.Rate())
	}
	if got := w.EstimatedCount().Value; got < n*0.995 || got > float64(most)*1.005 {
		t.Errorf("%v keys, want %d..%d", got, n, most)
	}
}

func TestWindowOfTime(t *testing.T) {
	const g = 3
	w := must(NewWindow(Options{Keys: 1000, Seed: testSeed}, g))
	for i := range uint64(20) {
		w.AddHash(hash(i))
		for age := range min(i+1, 10) {
			if got, want := w.MayContainHash(hash(i-age)), age < g; got != want {
				t.Errorf("a key of %d periods ago: found %v, want %v", age, got, want)
			}
		}
		w.Advance()
	}
	// A key that is added again is as new as any.
	w.AddHash(hash(100))
	for range 10 {
		w.Advance()
		if w.AddHash(hash(100)) {
			t.Fatal("a key that was added one period ago is not found")
		}
	}
}
