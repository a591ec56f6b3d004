package forecast

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filterplan"
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

// formsOf returns the forms of the filter of the given number of keys.
func formsOf(t *testing.T, keys int, p bloomblock.Params) []bloomblock.Form {
	t.Helper()
	var b bloomblock.Builder
	rng := rand.New(rand.NewPCG(1, 2))
	for range keys {
		b.Add(bloomblock.Hash(rng.Uint64()))
	}
	h, err := bloomblock.ParseHeader(b.AppendBlock(nil, p))
	if err != nil {
		t.Fatal(err)
	}
	return h.Forms(0)
}

// TestFillIsNearTheBestOfItsKind divides less and less memory among the filters of a run of equal tables. It compares
// the waste of lookups with that of filters of the same kind that were built for this memory.
func TestFillIsNearTheBestOfItsKind(t *testing.T) {
	const keys, tables = 20_000, 50
	params := func(p bloomblock.Params, err error) bloomblock.Params {
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		name   string
		params bloomblock.Params
		ribbon bool
		worst  float64 // factor
	}{
		{"three Bloom units", params(bloomblock.ParamsSplit(3, 0.0086)), false, 1.2},
		{"a Ribbon", params(bloomblock.ParamsRibbon(0.0086)), true, 1.2},
		{"one Bloom unit, as of small stores", params(bloomblock.ParamsFor(0.0086)), false, 2.5},
	} {
		forms := formsOf(t, keys, c.params)
		demands := make(filterplan.Demands, tables)
		rng := rand.New(rand.NewPCG(3, 4))
		for i := range demands {
			demands[i] = filterplan.Demand{Weight: 1. / tables, Table: rng.Uint64(), Forms: forms}
		}
		for bits := 10.0; bits >= 0.5; bits -= 0.5 {
			memory := int64(bits * keys * tables / 8)
			wasted := demands.Wasted(demands.Fill(memory))
			best := max(LadderOf(c.ribbon).Rate(bits), forms[len(forms)-1].Rate)
			if wasted > c.worst*best {
				t.Errorf("%s, %g bits a key: %.4f wasted, the best is %.4f", c.name, bits, wasted, best)
			}
		}
	}
}
