package bloomkv

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/vfs"
)

func TestTheSharesOfAllRunsNeverExceedThePromise(t *testing.T) {
	for _, fpr := range []float64{0.999, 0.5, 0.1, 0.05, 0.01, 0.001, 1e-4, 1e-5, 1e-6} {
		for _, ratio := range []int{2, 3, 4, 10, 50, 100, -10} {
			kind := BloomFilter
			if ratio < 0 {
				ratio, kind = -ratio, RibbonFilter
			}
			p, err := filterPlanner{ratio: ratio, kind: kind}.plan(fpr)
			if err != nil {
				t.Fatalf("%v, ratio %d: %v", fpr, ratio, err)
			}
			if got, want := p.level[bottom].params.Ribbon(), kind == RibbonFilter && p.level[bottom].rate < 0.5 && p.level[bottom].rate > 2e-5; got != want {
				t.Errorf("%v, ratio %d: Ribbon units %v, want %v", fpr, ratio, got, want)
			}
			sum := p.level[0].rate * stopRuns
			for l := 1; l <= bottom; l++ {
				sum += p.level[l].rate
				if l > 1 && p.level[l].rate < p.level[l-1].rate {
					t.Errorf("%v, ratio %d: level %d has %g, less than the level above, %g", fpr, ratio, l, p.level[l].rate, p.level[l-1].rate)
				}
			}
			if sum > fpr*(1+1e-9) {
				t.Errorf("%v, ratio %d: the shares add up to %g", fpr, ratio, sum)
			}
			for l := range p.level {
				if got := p.level[l].params.Rate(); got > p.level[l].rate {
					t.Errorf("%v, ratio %d, level %d: filters are built for %g, want at most %g", fpr, ratio, l, got, p.level[l].rate)
				}
			}
		}
	}
}

func TestAPromiseOfOneBuildsNoFilterAndOneOutOfReachIsRefused(t *testing.T) {
	p, err := filterPlanner{ratio: 10, kind: RibbonFilter}.plan(1)
	if err != nil {
		t.Fatal(err)
	}
	for l := range p.level {
		if p.level[l].rate != 1 || p.level[l].params.Rate() != 1 {
			t.Errorf("level %d: rate %g, filters for %g, want none", l, p.level[l].rate, p.level[l].params.Rate())
		}
	}
	if _, err := (filterPlanner{ratio: 10}).plan(1e-12); !errors.Is(err, ErrFilterRate) {
		t.Errorf("1e-12: got %v, want ErrFilterRate", err)
	}
}

// A layer is one run of a tree: how many keys it holds beside the others.
type layer struct {
	level int
	keys  float64
}

// compactedLayers are three levels, each ten times as large as the one above.
var compactedLayers = []layer{{bottom - 2, 1}, {bottom - 1, 10}, {bottom, 100}}

// cost is what a plan gives a tree: bits for a key, and wasted reads for a lookup of an absent one.
func (p *filterPlan) cost(tree []layer) (bits, wasted float64) {
	keys := 0.0
	for _, l := range tree {
		bits += l.keys * p.level[l.level].params.BitsPerKey()
		keys += l.keys
		wasted += p.level[l.level].params.Rate()
	}
	return bits / keys, wasted
}

func planOf(t *testing.T, fpr float64, kind FilterKind) *filterPlan {
	t.Helper()
	p, err := filterPlanner{ratio: 10, kind: kind}.plan(fpr)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSharesByLevelWasteFewerReadsThanEqualBits compares the plan with the same memory shared out evenly, at the best number of
// probes.
func TestSharesByLevelWasteFewerReadsThanEqualBits(t *testing.T) {
	flushed := append([]layer{{0, 0.25}, {0, 0.25}, {0, 0.25}, {0, 0.25}}, compactedLayers...)
	for _, tree := range []struct {
		name   string
		layers []layer
		least  float64
	}{{"compacted", compactedLayers, 1.9}, {"with four runs in level 0", flushed, 4}} {
		for _, fpr := range []float64{0.1, 0.01, 0.001} {
			p := planOf(t, fpr, BloomFilter)
			bits, wasted := p.cost(tree.layers)
			even := 1.0
			for k := 1; k <= bloomblock.MaxProbes; k++ {
				even = min(even, bloomblock.Unit{BitsPerKey: bits, Probes: k}.Rate())
			}
			gain := even * float64(len(tree.layers)) / wasted
			t.Logf("%s, %g: %.2f bits a key waste %.3g reads, shared out evenly %.3g: %.2f times as many", tree.name, fpr, bits, wasted, even*float64(len(tree.layers)), gain)
			if fpr == 0.01 && gain < tree.least {
				t.Errorf("%s, %g: evenly shared out the memory wastes %.2f times as many reads, want at least %g", tree.name, fpr, gain, tree.least)
			}
		}
	}
}

func TestRibbonFiltersTakeLessMemoryForTheSamePromise(t *testing.T) {
	bloom, ribbon := planOf(t, 0.01, BloomFilter), planOf(t, 0.01, RibbonFilter)
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
			t.Errorf("%s: %.3f of the memory and %.4f wasted reads, want at most %g, 0.01", tree.name, r/b, wasted, tree.most)
		}
	}
}

// TestTablesThatOnlyMoveKeepNoMoreFilterThanTheirLevelNeeds loads keys in order, so that no table is ever rewritten.
func TestTablesThatOnlyMoveKeepNoMoreFilterThanTheirLevelNeeds(t *testing.T) {
	for _, kind := range []FilterKind{BloomFilter, RibbonFilter} {
		o := tiny(vfs.NewMem())
		o.Durability, o.FilterKind, o.MemtableSize, o.TableSize, o.LevelRatio, o.BaseLevelSize = NoSync, kind, 1<<20, 1<<20, 10, 1<<20
		db, err := Open("db", o)
		if err != nil {
			t.Fatal(err)
		}
		const keys = 300_000
		value := make([]byte, 60)
		for i := range uint64(keys) {
			if err := db.Put(binary.BigEndian.AppendUint64(nil, i), value); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		settle(t, db)
		soon(t, "it is warm", func() bool { return db.Metrics().Warm })
		m := db.Metrics()
		if m.Writes.Moves == 0 || m.Writes.CompactedBytes > 0 {
			t.Fatalf("%d tables moved, %d bytes rewritten: want only moves", m.Writes.Moves, m.Writes.CompactedBytes)
		}
		want := 0.0
		for l, level := range m.Levels {
			want += float64(level.Entries) * db.plans.Load().now.level[l].params.BitsPerKey() / 8
		}
		got := float64(m.Memory.Filters)
		t.Logf("kind %d: %.2f bits a key in memory, by the plan %.2f", kind, 8*got/keys, 8*want/keys)
		if got > 1.15*want {
			t.Errorf("kind %d: filters take %.0f bytes, want at most 1.15 × %.0f\n%v", kind, got, want, m)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEveryPlanThatMemoryMayAskForCanBeMade: of all steps of rates, ratios and kinds.
func TestEveryPlanThatMemoryMayAskForCanBeMade(t *testing.T) {
	for ratio := 2; ratio <= 100; ratio += 1 + ratio/4 {
		for _, kind := range []FilterKind{BloomFilter, RibbonFilter} {
			for _, memory := range []int64{minFilterMemory, maxMemory} {
				f := filterPlanner{ratio: ratio, kind: kind, memory: memory}
				steps := 0
				for fpr := math.Exp2(-1. / fprSteps); fpr > bestFPR*0.99; fpr *= math.Exp2(-1. / fprSteps) {
					if _, err := f.plan(fpr); err != nil {
						t.Fatalf("ratio %d, kind %d, %g: %v", ratio, kind, fpr, err)
					}
					steps++
				}
				step, fits := f.within(func(*filterPlan) int64 { return 0 })
				p := f.at(step)
				if math.Abs(p.fpr/bestFPR-1) > 1e-9 || !fits || steps != 13*fprSteps {
					t.Fatalf("ratio %d, kind %d: %g after %d steps, %v; want %g", ratio, kind, p.fpr, steps, fits, bestFPR)
				}
			}
		}
	}
}

// TestAPlanOfATreeIsThatOfItsLevels compares PlanTree with PlanFilters, for trees at rest, and with what the plan has for level 0.
func TestAPlanOfATreeIsThatOfItsLevels(t *testing.T) {
	for _, o := range []*Options{
		nil, {FilterFPR: 0.3}, {FilterFPR: 1}, {FilterFPR: 0.001, FilterKind: RibbonFilter, LevelRatio: 4}, {FilterMemory: 2 << 20}, {FilterMemory: 8 << 20, FilterKind: RibbonFilter},
	} {
		fpr, rest, err := PlanFilters(3_000_000, 3, o)
		if err != nil {
			t.Fatal(err)
		}
		keys := make([]uint64, 7)
		for _, l := range rest {
			keys[l.Level] = l.Keys
		}
		got, tree, err := PlanTree(keys, o)
		if err != nil || got != fpr || len(tree) != 7 {
			t.Fatalf("%+v: rate %g, %d levels, %v; want %g, 7", o, got, len(tree), err, fpr)
		}
		for _, want := range rest {
			got := tree[want.Level]
			if got.Bytes-want.Bytes+1 > 2 || got.Predicted != want.Predicted || got.Keys != want.Keys || got.Ribbon != want.Ribbon {
				t.Errorf("%+v: %+v, want %+v", o, got, want)
			}
		}
		if o != nil && o.FilterMemory > 0 {
			continue
		}
		keys[0] = 100_000
		_, with, err := PlanTree(keys, o)
		if err != nil || with[6].Predicted != tree[6].Predicted || with[0].Bytes != uint64(100_000*with[0].BitsPerKey/8+0.5) {
			t.Errorf("%+v: with keys in level 0 %+v, %v", o, with, err)
		}
	}
	// What level 0 has soon lies in the last level: memory for it is shared out as if it did, and units that do not fit are left out.
	for _, few := range []uint64{1_000, 50_000, 1_000_000} {
		memory := int64(few+1_000_000) * 6 / 8
		fpr, tree, err := PlanTree([]uint64{few, 0, 0, 0, 0, 0, 1_000_000}, &Options{FilterMemory: memory})
		if err != nil {
			t.Fatal(err)
		}
		if sum := int64(tree[0].Bytes + tree[6].Bytes); sum > memory || sum < memory/2 || tree[0].BitsPerKey < tree[6].BitsPerKey {
			t.Errorf("rate %g: level 0 %+v, the last %+v; want at most %d bytes", fpr, tree[0], tree[6], memory)
		}
		t.Logf("%d keys in level 0: rate %g, %.4g predicted", few, fpr, tree[0].Predicted+tree[6].Predicted)
		if tree[0].Predicted+tree[6].Predicted > fpr || fpr > 0.3 {
			t.Errorf("rate %g: level 0 %+v, the last %+v", fpr, tree[0], tree[6])
		}
	}
	for _, bad := range []struct {
		keys []uint64
		o    *Options
		want string
	}{
		{make([]uint64, 8), nil, "8 levels, a store has 7"},
		{[]uint64{0, 0, 0, 0, 0, 0, 1 << 30}, &Options{FilterMemory: 1 << 20}, "filters of 1073741824 keys take "},
		{nil, &Options{FilterFPR: 1e-30}, "FilterFPR"},
		{nil, &Options{FilterFPR: 0.1, FilterMemory: 1 << 20}, "FilterMemory"},
	} {
		if _, _, err := PlanTree(bad.keys, bad.o); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%v, %+v: %v, want %q", bad.keys, bad.o, err, bad.want)
		}
	}
}
