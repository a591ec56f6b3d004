package bloomkv

import (
	"errors"
	"testing"
)

func TestTheSharesOfAllRunsNeverExceedThePromise(t *testing.T) {
	for _, fpr := range []float64{0.999, 0.5, 0.1, 0.05, 0.01, 0.001, 1e-4, 1e-5, 1e-6} {
		for _, ratio := range []int{2, 3, 4, 10, 50, 100, -10} {
			kind := BloomFilter
			if ratio < 0 {
				ratio, kind = -ratio, RibbonFilter
			}
			p, err := planFilters(fpr, ratio, kind)
			if err != nil {
				t.Fatalf("%v, ratio %d: %v", fpr, ratio, err)
			}
			if got, want := p[bottom].params.Ribbon(), kind == RibbonFilter && p[bottom].rate < 0.5 && p[bottom].rate > 2e-5; got != want {
				t.Errorf("%v, ratio %d: Ribbon units %v, want %v", fpr, ratio, got, want)
			}
			sum := p[0].rate * stopRuns
			for l := 1; l <= bottom; l++ {
				sum += p[l].rate
				if l > 1 && p[l].rate < p[l-1].rate {
					t.Errorf("%v, ratio %d: level %d has %g, less than the level above, %g", fpr, ratio, l, p[l].rate, p[l-1].rate)
				}
			}
			if sum > fpr*(1+1e-9) {
				t.Errorf("%v, ratio %d: the shares add up to %g", fpr, ratio, sum)
			}
			for l := range p {
				if got := p[l].params.Rate(); got > p[l].rate {
					t.Errorf("%v, ratio %d, level %d: filters are built for %g, want at most %g", fpr, ratio, l, got, p[l].rate)
				}
			}
		}
	}
}

func TestAPromiseOfOneBuildsNoFilterAndOneOutOfReachIsRefused(t *testing.T) {
	p, err := planFilters(1, 10, RibbonFilter)
	if err != nil {
		t.Fatal(err)
	}
	for l := range p {
		if p[l].rate != 1 || p[l].params.Rate() != 1 {
			t.Errorf("level %d: rate %g, filters for %g, want none", l, p[l].rate, p[l].params.Rate())
		}
	}
	if _, err := planFilters(1e-12, 10, BloomFilter); !errors.Is(err, ErrFilterRate) {
		t.Errorf("1e-12: got %v, want ErrFilterRate", err)
	}
}
