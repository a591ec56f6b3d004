package epoch

import (
	"sync"
	"testing"
)

// TestGoroutinesSpread has goroutines that are alive together say where they are. Were they thrown at random, 96 of
// them would take 64 × (1 - (1 - 1/64)^96) = 50 stripes of 64, give or take 2.6.
func TestGoroutinesSpread(t *testing.T) {
	const n, stripes = 96, 64
	var at [n]int
	var ready, said, done sync.WaitGroup
	ready.Add(n)
	said.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			ready.Wait() // a stack that is too small for this is left to another goroutine
			at[i] = Stripe(stripes)
			said.Done()
			said.Wait()
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
	if len(taken) < 37 { // five deviations below
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
