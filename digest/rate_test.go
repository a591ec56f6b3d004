package digest

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// TestTheRateIsThatOfItsRuns makes digests of four runs, from many keys to few, under many seeds. The rate of their
// bits varies with the seed; its mean is at most the promised rate, and close to it where there are many keys. The
// measured rate is that of the bits.
func TestTheRateIsThatOfItsRuns(t *testing.T) {
	testkit.Long(t)
	const seeds, positives = 15, 10_000
	for _, test := range []struct {
		name  string
		keys  []int
		units int // at most
		build func(...float64) (bloomblock.Params, error)
		least float64 // share of the promise
	}{
		{"Bloom", []int{20000, 10000, 5000, 5000}, 3, bloomblock.ParamsNested, 0.97},
		{"Bloom, one unit", []int{20000, 10000, 5000, 5000}, 1, bloomblock.ParamsNested, 0.97},
		{"Bloom, few keys", []int{2000, 100, 10, 1}, 3, bloomblock.ParamsNested, 0},
		{"Ribbon", []int{20000, 10000, 5000, 5000}, 3, bloomblock.ParamsRibbon, 0.9},
		{"Ribbon, few keys", []int{2000, 100, 10, 1}, 3, bloomblock.ParamsRibbon, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			params, err := test.build(0.05, 0.004)
			if err != nil {
				t.Fatal(err)
			}
			var sum, squares, promised float64
			for seed := range uint64(seeds) {
				next := seed << 40 // no key is used twice
				var runs [][]*Part
				deny := 1.0
				for _, n := range test.keys {
					b := bloomblock.Builder{Seed: bloomblock.Seed(seed)}
					for range n {
						b.Add(hashOf(next))
						next++
					}
					p := &Part{Keys: uint64(n)}
					if err := p.SetFilter(b.AppendBlock(nil, params)); err != nil {
						t.Fatal(err)
					}
					p = p.cut(min(test.units, len(p.Units)))
					runs = append(runs, []*Part{p})
				}
				d, err := New(bloomblock.Seed(seed), runs)
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range d.parts {
					deny *= 1 - p.filter.FalsePositiveRate()
				}
				ofBits := 1 - deny
				promised = d.Rate()
				sum, squares = sum+ofBits, squares+ofBits*ofBits
				if seed > 0 {
					continue
				}
				asked, wrong := 0, 0
				for ; wrong < positives; asked++ {
					if d.MayContain(binary.BigEndian.AppendUint64(nil, next)) {
						wrong++
					}
					next++
				}
				want := float64(asked) * ofBits
				t.Logf("promised %.5f, by the bits %.5f, measured %.5f", promised, ofBits,
					float64(wrong)/float64(asked))
				// 4.9 standard errors are exceeded once in a million times; FalsePositiveRate measures Ribbon units.
				if math.Abs(float64(wrong)-want) > 4.9*math.Sqrt(want)+0.02*want {
					t.Errorf("%d false positives, want %.0f", wrong, want)
				}
			}
			mean := sum / float64(seeds)
			deviation := math.Sqrt(max(0, squares/float64(seeds)-mean*mean) / float64(seeds-1))
			t.Logf("promised %.5f, mean %.5f ± %.5f", promised, mean, deviation)
			if mean > promised+4.9*deviation || mean < test.least*promised-4.9*deviation {
				t.Errorf("mean rate %v ± %v, promised %v", mean, deviation, promised)
			}
		})
	}
}

func hashOf(n uint64) bloomblock.Hash {
	return bloomblock.HashKey(binary.BigEndian.AppendUint64(nil, n))
}
