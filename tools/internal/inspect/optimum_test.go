package inspect

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bloomkv/bloomkv/internal/forecast"
)

// TestNoOtherSharesAreBetterThanTheOptimum moves various numbers of bits between runs in many trees.
func TestNoOtherSharesAreBetterThanTheOptimum(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		runs := make([]demand, 1+rng.IntN(8))
		keys := 0.0
		for i := range runs {
			runs[i] = demand{math.Exp(6 + 10*rng.Float64()), rng.Float64(), rng.IntN(2) == 0}
			keys += runs[i].keys
		}
		budget := keys * 20 * rng.Float64()
		rates := optimum(runs, budget)
		bits := make([]float64, len(runs)) // for each key, of these rates
		spent, least := 0.0, 0.0
		for i, r := range runs {
			l := forecast.LadderOf(r.ribbon)
			low, high := 0.0, l[len(l)-1].BitsPerKey
			for range 60 {
				if mid := (low + high) / 2; l.Rate(mid) > rates[i] {
					low = mid
				} else {
					high = mid
				}
			}
			bits[i] = high
			spent += high * r.keys
			least += r.share * rates[i]
		}
		if spent > budget*1.000001 || spent < budget*0.999999 && least > 1e-8 {
			t.Errorf("%g bits are spent, of %g", spent, budget)
		}
		for range 200 {
			from, to := rng.IntN(len(runs)), rng.IntN(len(runs))
			moved := bits[from] * runs[from].keys * math.Pow(rng.Float64(), 4)
			wasted := 0.0
			for i, r := range runs {
				b := bits[i]
				switch {
				case from == to:
				case i == from:
					b -= moved / r.keys
				case i == to:
					b += moved / r.keys
				}
				wasted += r.share * forecast.LadderOf(r.ribbon).Rate(b)
			}
			if wasted < least*(1-1e-6) {
				t.Fatalf("%+v with %g bits: %g is wasted, and %g if %g bits move from run %d to run %d", runs, budget,
					least, wasted, moved, from, to)
			}
		}
	}
	if rates := optimum([]demand{{0, 1, false}, {1000, 1, false}}, 0); rates[0] != 1 || rates[1] != 1 {
		t.Errorf("without bits: %v", rates)
	}
}
