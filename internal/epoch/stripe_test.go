package epoch

import (
	"sync"
	"testing"
)

// TestGoroutinesSpread counts the stripes of goroutines that are alive together. Distributed at random, 96 of them
// would take 64 × (1 - (1 - 1/64)^96) = 50 stripes of 64, with a deviation of 2.6.
func TestGoroutinesSpread(t *testing.T) {
	const n, stripes = 96, 64
	var at [n]int
	var ready, noted, done sync.WaitGroup
	ready.Add(n)
	noted.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			ready.Wait() // the runtime may pass a small stack on to another goroutine
			at[i] = Stripe(stripes)
			noted.Done()
			noted.Wait()
		})
	}
	done.Wait()
	taken := map[int]bool{}
	for _, s := range at {
		if s < 0 || s >= stripes {
			t.Fatalf("stripe %d of %d", s, stripes)
		}
		taken[s] = true
	}
	if len(taken) < 37 { // five deviations below 50
		t.Errorf("%d goroutines are on %d stripes of %d", n, len(taken), stripes)
	}
}

func BenchmarkStripe(b *testing.B) {
	for b.Loop() {
		if Stripe(64) < 0 {
			b.Fatal("below 0")
		}
	}
}
