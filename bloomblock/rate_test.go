package bloomblock

import (
	"math"
	"testing"
)

func TestTheQuickRateHasFiveDigits(t *testing.T) {
	tested, worst := 0, 0.0
	for k := 1; k <= MaxProbes; k++ {
		for _, blocks := range []uint64{1, 3, 100, 1 << 20} {
			for _, each := range []float64{0.5, 10, 33, 80, 200} {
				keys := max(uint64(each*float64(blocks)), 1)
				got, want := quickRate(keys, blocks, k), binomialRate(keys, blocks, k)
				if want < quickLow {
					if got >= 2*quickLow {
						t.Errorf("%d keys, %d blocks, %d probes: %g, want %g", keys, blocks, k, got, want)
					}
					continue
				}
				tested++
				off := math.Abs(got/want - 1)
				worst = max(worst, off)
				if off > 1e-5 {
					t.Errorf("%d keys, %d blocks, %d probes: %g, want %g", keys, blocks, k, got, want)
				}
			}
		}
	}
	if tested < 150 {
		t.Errorf("%d rates compared, want 150 at least", tested)
	}
	t.Logf("%d rates compared, the worst is off by %.1g of itself", tested, worst)
}

func BenchmarkQuickRate(b *testing.B) {
	for b.Loop() {
		quickRate(80_000, 80_000*10/blockBits, 7)
	}
}
