package filterplan

import (
	"math"
	"strings"
	"testing"
)

// TestAPlanOfATreeIsThatOfItsLevels compares PlanTree with PlanAtRest for trees at rest, and checks plans with keys in
// level 0.
func TestAPlanOfATreeIsThatOfItsLevels(t *testing.T) {
	for _, o := range []Options{
		{},
		{FPR: 0.3},
		{FPR: 1},
		{FPR: 0.001, Kind: Ribbon, Ratio: 4},
		{Memory: 2 << 20},
		{Memory: 8 << 20, Kind: Ribbon},
	} {
		fpr, rest, err := o.PlanAtRest(3_000_000, 3)
		if err != nil {
			t.Fatal(err)
		}
		keys := make([]uint64, 7)
		for _, l := range rest {
			keys[l.Level] = l.Keys
		}
		got, tree, err := o.PlanTree(keys)
		if err != nil || got != fpr || len(tree) != 7 {
			t.Fatalf("%+v: rate %g, %d levels, %v; want %g, 7", o, got, len(tree), err, fpr)
		}
		for _, want := range rest {
			got := tree[want.Level]
			if got.Bytes-want.Bytes+1 > 2 || got.Predicted != want.Predicted || got.Keys != want.Keys ||
				got.Ribbon != want.Ribbon {
				t.Errorf("%+v: %+v, want %+v", o, got, want)
			}
		}
		if o.Memory > 0 {
			continue
		}
		keys[0] = 100_000
		_, with, err := o.PlanTree(keys)
		if err != nil || with[6].Predicted != tree[6].Predicted ||
			with[0].Bytes != uint64(100_000*with[0].BitsPerKey/8+0.5) {
			t.Errorf("%+v: with keys in level 0: %+v, %v", o, with, err)
		}
	}
	// The keys of level 0 soon move to the last level: memory is divided as if they were there, and units that do not
	// fit are left out.
	for _, few := range []uint64{1_000, 50_000, 1_000_000} {
		memory := int64(few+1_000_000) * 6 / 8
		fpr, tree, err := Options{Memory: memory}.PlanTree([]uint64{few, 0, 0, 0, 0, 0, 1_000_000})
		if err != nil {
			t.Fatal(err)
		}
		if sum := int64(tree[0].Bytes + tree[6].Bytes); sum > memory || sum < memory/2 ||
			tree[0].BitsPerKey < tree[6].BitsPerKey {
			t.Errorf("rate %g: level 0 %+v, last level %+v; want at most %d bytes", fpr, tree[0], tree[6], memory)
		}
		t.Logf("%d keys in level 0: rate %g, %.4g predicted", few, fpr, tree[0].Predicted+tree[6].Predicted)
		if tree[0].Predicted+tree[6].Predicted > fpr || fpr > 0.3 {
			t.Errorf("rate %g: level 0 %+v, last level %+v", fpr, tree[0], tree[6])
		}
	}
	for _, bad := range []struct {
		keys []uint64
		o    Options
		want string
	}{
		{make([]uint64, 8), Options{}, "8 levels, a store has 7"},
		{[]uint64{0, 0, 0, 0, 0, 0, 1 << 30}, Options{Memory: 1 << 20}, "filters of 1073741824 keys take "},
		{nil, Options{FPR: 1e-30}, "FilterFPR"},
		{nil, Options{FPR: 0.1, Memory: 1 << 20}, "FilterMemory"},
		{nil, Options{Memory: 1 << 50}, "FilterMemory"},
		{nil, Options{FPR: 2}, "FilterFPR"},
		{nil, Options{FPR: math.NaN()}, "FilterFPR"},
		{nil, Options{Ratio: 1}, "LevelRatio: 1, want 2 to 100"},
	} {
		if _, _, err := bad.o.PlanTree(bad.keys); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%v, %+v: %v, want %q", bad.keys, bad.o, err, bad.want)
		}
	}
}
