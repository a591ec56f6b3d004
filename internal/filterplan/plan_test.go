package filterplan

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

var must = testkit.Must

func TestTheSharesOfAllRunsNeverExceedThePromise(t *testing.T) {
	for _, fpr := range []float64{0.999, 0.5, 0.1, 0.05, 0.01, 0.001, 1e-4, 1e-5, 1e-6} {
		for _, ratio := range []int{2, 3, 4, 10, 50, 100, -10} {
			kind := Auto
			if ratio < 0 {
				ratio, kind = -ratio, Ribbon
			}
			p, err := Planner{Ratio: ratio, Kind: kind}.Plan(fpr)
			if err != nil {
				t.Fatalf("%v, ratio %d: %v", fpr, ratio, err)
			}
			last := p.Levels[bottom]
			if got, want := last.Params.Ribbon(), kind == Ribbon && last.Rate < 0.5 && last.Rate > 2e-5; got != want {
				t.Errorf("%v, ratio %d: Ribbon units %v, want %v", fpr, ratio, got, want)
			}
			sum := p.Levels[0].Rate * Level0Runs
			if math.Abs(sum/(fpr/20)-1) > 1e-9 && p.Levels[0].Rate > bloomblock.BestRate {
				t.Errorf("%v, ratio %d: level 0 has %g, want a twentieth", fpr, ratio, sum)
			}
			for l := 1; l <= bottom; l++ {
				sum += p.Levels[l].Rate
				if l > 1 && p.Levels[l].Rate < p.Levels[l-1].Rate {
					t.Errorf("%v, ratio %d: level %d has %g, less than the level above, %g",
						fpr, ratio, l, p.Levels[l].Rate, p.Levels[l-1].Rate)
				}
			}
			if sum > fpr*(1+1e-9) {
				t.Errorf("%v, ratio %d: the shares add up to %g", fpr, ratio, sum)
			}
			for l := range p.Levels {
				if got := p.Levels[l].Params.Rate(); got > p.Levels[l].Rate {
					t.Errorf("%v, ratio %d, level %d: filters are built for %g, want at most %g",
						fpr, ratio, l, got, p.Levels[l].Rate)
				}
			}
		}
	}
}

func TestAPromiseOfOneBuildsNoFilterAndOneOutOfReachIsRefused(t *testing.T) {
	p, err := Planner{Ratio: 10, Kind: Ribbon}.Plan(1)
	must(t, err)
	for l := range p.Levels {
		if p.Levels[l].Rate != 1 || p.Levels[l].Params.Rate() != 1 {
			t.Errorf("level %d: rate %g, filters for %g, want none", l, p.Levels[l].Rate, p.Levels[l].Params.Rate())
		}
	}
	_, err = Planner{Ratio: 10}.Plan(1e-12)
	want := fmt.Sprintf("option FilterFPR: 1e-12 is out of reach with a level ratio of 10, the best is about %.1g: %v",
		(Level0Runs+bottom)*bloomblock.BestRate/0.95, bloomblock.ErrRate)
	if !errors.Is(err, bloomblock.ErrRate) || err.Error() != want {
		t.Errorf("1e-12: got %v, want %s", err, want)
	}
}

// A layer is one run of a tree, with its number of keys in relation to the other runs.
type layer struct {
	level int
	keys  float64
}

// compactedLayers are three levels, each ten times as large as the one above.
var compactedLayers = []layer{{bottom - 2, 1}, {bottom - 1, 10}, {bottom, 100}}

// cost returns what a plan gives a tree: bits for a key, and wasted reads for a lookup of an absent one.
func (p *Plan) cost(tree []layer) (bits, wasted float64) {
	keys := 0.0
	for _, l := range tree {
		bits += l.keys * p.Levels[l.level].Params.BitsPerKey()
		keys += l.keys
		wasted += p.Levels[l.level].Params.Rate()
	}
	return bits / keys, wasted
}

func planOf(t *testing.T, fpr float64, ribbon bool) *Plan {
	t.Helper()
	kind := Auto
	if ribbon {
		kind = Ribbon
	}
	p, err := Planner{Ratio: 10, Kind: kind}.Plan(fpr)
	must(t, err)
	return p
}

// TestSharesByLevelWasteFewerReadsThanEqualBits compares the plan with the same memory shared out evenly, at the best
// number of probes.
func TestSharesByLevelWasteFewerReadsThanEqualBits(t *testing.T) {
	flushed := append([]layer{{0, 0.25}, {0, 0.25}, {0, 0.25}, {0, 0.25}}, compactedLayers...)
	for _, tree := range []struct {
		name   string
		layers []layer
		least  float64
	}{{"compacted", compactedLayers, 1.9}, {"with four runs in level 0", flushed, 4}} {
		for _, fpr := range []float64{0.1, 0.01, 0.001} {
			p := planOf(t, fpr, false)
			bits, wasted := p.cost(tree.layers)
			even := 1.0
			for k := 1; k <= bloomblock.MaxProbes; k++ {
				even = min(even, bloomblock.Unit{BitsPerKey: bits, Probes: k}.Rate())
			}
			gain := even * float64(len(tree.layers)) / wasted
			t.Logf("%s, %g: %.2f bits a key waste %.3g reads, shared out evenly %.3g: %.2f times as many",
				tree.name, fpr, bits, wasted, even*float64(len(tree.layers)), gain)
			if fpr == 0.01 && gain < tree.least {
				t.Errorf("%s, %g: evenly shared out the memory wastes %.2f times as many reads, want at least %g",
					tree.name, fpr, gain, tree.least)
			}
		}
	}
}

func TestRibbonFiltersTakeLessMemoryForTheSamePromise(t *testing.T) {
	bloom, ribbon := planOf(t, 0.01, false), planOf(t, 0.01, true)
	last := compactedLayers[2:]
	for _, tree := range []struct {
		name   string
		layers []layer
		most   float64
	}{{"the last level", last, 0.74}, {"the tree", compactedLayers, 0.79}} {
		b, _ := bloom.cost(tree.layers)
		r, wasted := ribbon.cost(tree.layers)
		t.Logf("%s: %.2f bits a key, Bloom filters %.2f: %.3f", tree.name, r, b, r/b)
		if r/b > tree.most || wasted > 0.01 {
			t.Errorf("%s: %.3f of the memory and %.4f wasted reads, want at most %g, 0.01",
				tree.name, r/b, wasted, tree.most)
		}
	}
}

// TestEveryPlanThatMemoryMayAskForCanBeMade makes the plans of all steps of rates, for many ratios and both kinds of
// filters.
func TestEveryPlanThatMemoryMayAskForCanBeMade(t *testing.T) {
	for ratio := 2; ratio <= 100; ratio += 1 + ratio/4 {
		for _, kind := range []Kind{Auto, Ribbon, Bloom} {
			for _, memory := range []int64{64 << 10, 1 << 50} {
				f := Planner{Ratio: ratio, Kind: kind, Memory: memory}
				steps := 0
				for fpr := math.Exp2(-1. / perOctave); fpr > BestFPR*0.99; fpr *= math.Exp2(-1. / perOctave) {
					if _, err := f.Plan(fpr); err != nil {
						t.Fatalf("ratio %d, %v, %g: %v", ratio, kind, fpr, err)
					}
					steps++
				}
				step, fits := f.within(func(*Plan) int64 { return 0 })
				p := f.At(step)
				if math.Abs(p.FPR/BestFPR-1) > 1e-9 || !fits || steps != 13*perOctave {
					t.Fatalf("ratio %d, %v: %g after %d steps, %v; want %g",
						ratio, kind, p.FPR, steps, fits, BestFPR)
				}
			}
		}
	}
}
