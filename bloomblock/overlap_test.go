package bloomblock

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOverlapIsWithinTwoHundredths estimates the overlap of twenty pairs of sets of random hashes for each ratio of
// sizes, kind and state of the filter. The pairs share between none and all of the first set. The error is that of the
// share, so relative to the first set.
func TestOverlapIsWithinTwoHundredths(t *testing.T) {
	const pairs, n = 20, 20_000
	ribbon, err := ParamsRibbon(0.01, 0.001)
	must(t, err)
	rng := rand.New(rand.NewPCG(7, 7))
	for _, c := range []struct {
		name  string
		p     Params
		units int // loaded
	}{
		{"one unit", paramsFor(t, 0.01), 1},
		{"the first unit of three", paramsOf(t, Unit{5, 3}, Unit{5, 3}, Unit{5, 3}), 1},
		{"Ribbon", ribbon, 2},
	} {
		for _, ratio := range []int{1, 10, 100} {
			squares, expected, worst := 0.0, 0.0, 0.0
			var f Filter
			var hashes []Hash
			for pair := range pairs {
				if pair == 0 || ratio == 1 {
					hashes = randomHashes(rng, n*ratio)
					f = partOf(t, hashes, c.p, c.units)
				}
				share := float64(pair) / (pairs - 1)
				shared := hashes[pair*n%len(hashes):][:int(share*n)]
				var a Builder
				for _, h := range append(randomHashes(rng, n-len(shared)), shared...) {
					a.Add(h)
				}
				s, err := ParseSample(a.AppendSample(nil))
				must(t, err)
				o := s.Overlap(&f)
				if !o.Known || o.Share < 0 || o.Share > 1 {
					t.Fatalf("%s, 1:%d: %+v", c.name, ratio, o)
				}
				e := o.Share - share
				squares, expected, worst = squares+e*e, expected+o.Err*o.Err, max(worst, math.Abs(e)/o.Err)
			}
			rms, want := math.Sqrt(squares/pairs), math.Sqrt(expected/pairs)
			t.Logf("%s, 1:%d: root mean square error %.4f, expected %.4f, the worst is %.1f standard errors",
				c.name, ratio, rms, want, worst)
			if rms > 0.02 || worst > 4 {
				t.Errorf("%s, 1:%d: root mean square error %.4f of the first set, want at most 0.02; "+
					"the worst is %.1f standard errors",
					c.name, ratio, rms, worst)
			}
		}
	}
}

func randomHashes(rng *rand.Rand, n int) []Hash {
	hashes := make([]Hash, n)
	for i := range hashes {
		hashes[i] = Hash(rng.Uint64())
	}
	return hashes
}

// partOf returns a filter of hashes with only its first units.
func partOf(tb testing.TB, hashes []Hash, p Params, units int) Filter {
	tb.Helper()
	block := blockOf(p, slices.Values(hashes))
	h, err := ParseHeader(block)
	must(tb, err)
	var parts [][]byte
	for _, u := range h.Units[:units] {
		parts = append(parts, block[u.Offset:][:u.Bytes()])
	}
	f, err := h.Filter(parts)
	must(tb, err)
	return f
}

func TestOverlapWithSeveralFilters(t *testing.T) {
	// A third of the 30,000 keys is in the first filter, a third in the second and third, the rest in none.
	s := sampleOf(t, hashesOf(numbered, 0, 30_000))
	p := paramsFor(t, 0.05)
	filters := []*Filter{
		filterOf(t, p, hashesOf(numbered, 0, 10_000)), filterOf(t, p, hashesOf(numbered, 10_000, 10_000)),
		filterOf(t, p, hashesOf(numbered, 5000, 15_000)),
	}
	for i := range uint64(10) {
		filters = append(filters, filterOf(t, p, hashesOf(numbered, 100_000+10_000*i, 10_000)))
	}
	o := s.Overlap(filters...)
	if want := 2.0 / 3; !o.Known || math.Abs(o.Share-want) > 3*o.Err || o.Err > 0.04 {
		t.Errorf("overlap %+v, want %.3f", o, want)
	}
	if o := s.Overlap(); o != (Overlap{Known: true, Err: o.Err}) || o.Err > 0.001 {
		t.Errorf("overlap with nothing %+v, want 0", o)
	}
}

func TestOverlapIsUnknownWhereFiltersSayNothing(t *testing.T) {
	s := sampleOf(t, hashesOf(numbered, 0, 1000))
	good := filterOf(t, paramsFor(t, 0.01), hashesOf(numbered, 0, 10))
	full := filterOf(t, paramsOf(t, Unit{1, 14}), hashesOf(numbered, 0, 10_000))
	for name, filters := range map[string][]*Filter{
		"no units": {good, new(Filter)}, "nil": {nil, good}, "all bits set": {good, full},
	} {
		if o := s.Overlap(filters...); o != (Overlap{Err: 1}) {
			t.Errorf("%s: %+v, want an unknown one", name, o)
		}
	}
	var empty Sample
	if o := empty.Overlap(good); o != (Overlap{Known: true}) {
		t.Errorf("of no keys: %+v, want none", o)
	}
}
