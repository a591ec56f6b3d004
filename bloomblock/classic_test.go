package bloomblock

import (
	"math"
	"testing"
)

// TestClassicRatesAreThoseOfTheBooks checks published values.
func TestClassicRatesAreThoseOfTheBooks(t *testing.T) {
	for _, tt := range []struct {
		bits   float64
		probes int
		want   float64
	}{
		{20, 10, 8.894e-5},
		{10, 7, 8.194e-3},
		{16, 11, 4.587e-4},
		{8, 6, 2.158e-2},
		{4, 3, 1.469e-1},
		{1, 1, 1 - 1/math.E},
	} {
		if got := classicRate(tt.bits, tt.probes); math.Abs(got/tt.want-1) > 5e-4 {
			t.Errorf("%g bits, %d probes: %.4g, want %.4g", tt.bits, tt.probes, got, tt.want)
		}
	}
}

func TestTheLeastClassicFilterForARate(t *testing.T) {
	for _, tt := range []struct {
		rate float64
		want Unit
	}{{0.01, Unit{10, 5}}, {0.025, Unit{8, 4}}, {0.001, Unit{14.5, 9}}, {0.0001, Unit{19.5, 11}}, {0.9, Unit{1, 1}}} {
		got := ClassicUnit(tt.rate)
		if got != tt.want {
			t.Errorf("%g: %+v at %.4g, want %+v at %.4g", tt.rate,
				got, classicRate(got.BitsPerKey, got.Probes), tt.want, classicRate(tt.want.BitsPerKey, tt.want.Probes))
		}
		blocked, err := ParamsFor(tt.rate)
		if err != nil || blocked.BitsPerKey()+0.5 < got.BitsPerKey-2 {
			t.Errorf("%g: %v bits, classic %v, %v", tt.rate, blocked.BitsPerKey(), got.BitsPerKey, err)
		}
	}
}
