package bloomblock

import (
	"math"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

func TestTheQuickRateHasFiveDigits(t *testing.T) {
	testkit.Long(t)
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

// TestRateOfKnownUnits checks values published elsewhere or computed by other means.
func TestRateOfKnownUnits(t *testing.T) {
	for _, tt := range []struct {
		unit Unit
		want float64
	}{
		{Unit{1, 1}, 1 - math.Exp(-1)}, // one probe needs no mixture
		{Unit{8, 1}, 1 - math.Exp(-1.0/8)},
		{Unit{10, 6}, 9.665e-3},
		{Unit{16, 9}, 8.439e-4},
		{Unit{20, 11}, 1.978e-4},
		{Unit{32, 14}, 5.382e-6},
	} {
		if got := tt.unit.Rate(); math.Abs(got/tt.want-1) > 2e-4 {
			t.Errorf("%v: rate %v, want %v", tt.unit, got, tt.want)
		}
	}
}

func TestRateOfFewKeys(t *testing.T) {
	for _, tt := range []struct {
		keys, blocks uint64
		want         float64
	}{
		{0, 1, 0},
		{0, 5, 0},
		{1, 1, 2.5e-12},
		{2, 1, 1.6e-10},
		{50, 1, 7.7e-3},
		{64, 2, 1.1e-3},
		{1000, 20, 8.70e-3},
		{10_000, 196, 9.52e-3},
		{1 << 40, 512 * 1 << 20, 1},
		{math.MaxUint64, 1, 1},
		{math.MaxUint64, 1 << 40, 1},
		{1, 1 << 40, 0},
	} {
		if got := binomialRate(tt.keys, tt.blocks, 6); math.Abs(got-tt.want) > 0.03*tt.want+1e-12 {
			t.Errorf("%d keys in %d blocks: rate %v, want %v", tt.keys, tt.blocks, got, tt.want)
		}
	}
	if got, want := binomialRate(1e9, 1e9/50, 6), poissonRate(50, 6); math.Abs(got/want-1) > 1e-6 {
		t.Errorf("a billion keys: rate %v, want nearly %v", got, want)
	}
}

func BenchmarkQuickRate(b *testing.B) {
	for b.Loop() {
		quickRate(80_000, 80_000*10/blockBits, 7)
	}
}
