package filterplan

import (
	"math"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
)

func TestALadderHasTheFiltersThatAreWorthTheirBits(t *testing.T) {
	for _, ribbon := range []bool{false, true} {
		l := LadderOf(ribbon)
		if l[0] != (Rung{0, 1}) || len(l) < 50 || l[len(l)-1].Rate > 2*bloomblock.BestRate {
			t.Fatalf("from %v to %v, %d filters", l[0], l[len(l)-1], len(l))
		}
		last := math.Inf(1)
		for i := 1; i < len(l); i++ {
			gain := (l[i-1].Rate - l[i].Rate) / (l[i].BitsPerKey - l[i-1].BitsPerKey)
			if !(gain > 0 && gain <= last) {
				t.Errorf("%v after %v gains %g for each bit, the one before %g", l[i], l[i-1], gain, last)
			}
			last = gain
			middle := (l[i-1].BitsPerKey + l[i].BitsPerKey) / 2
			got, want := l.Rate(middle), (l[i-1].Rate+l[i].Rate)/2
			if math.Abs(got/want-1) > 1e-9 || math.Abs(l.Rate(l[i].BitsPerKey)/l[i].Rate-1) > 1e-9 {
				t.Errorf("%g bits: rate %g, want %g; and %g of a rung", middle, got, want, l.Rate(l[i].BitsPerKey))
			}
		}
		for rate := 0.9; rate > 1e-9; rate /= 1.3 {
			p, err := bloomblock.ParamsFor(rate)
			if ribbon && rate > bloomblock.BestRibbonRate {
				p, err = bloomblock.ParamsRibbon(rate)
			}
			must(t, err)
			if on := l.Rate(p.BitsPerKey()); on > p.Rate()*1.005 {
				t.Errorf("ribbon %t: %g bits give %g, and by the ladder %g", ribbon, p.BitsPerKey(), p.Rate(), on)
			}
		}
		if l.Rate(-1) != 1 || l.Rate(0) != 1 || l.Rate(1000) != l[len(l)-1].Rate {
			t.Errorf("beyond the ends: %g, %g, %g", l.Rate(-1), l.Rate(0), l.Rate(1000))
		}
	}
	if bloom, ribbon := LadderOf(false).Rate(7.25), LadderOf(true).Rate(7.25); ribbon > bloom/3 {
		t.Errorf("7.25 bits: Ribbon %g, Bloom %g", ribbon, bloom)
	}
}
