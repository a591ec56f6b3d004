package forecast

import (
	"math"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/filterplan"
)

// TestAPlanOfATreeIsThatOfItsLevels compares Tree with AtRest for trees at rest, and checks plans with keys in
// level 0.
func TestAPlanOfATreeIsThatOfItsLevels(t *testing.T) {
	for _, o := range []filterplan.Options{
		{},
		{FPR: 0.3},
		{FPR: 1},
		{FPR: 0.001, Kind: filterplan.Ribbon, Ratio: 4},
		{Memory: 5 << 19},
		{Memory: 8 << 20, Kind: filterplan.Ribbon},
	} {
		fpr, rest, err := AtRest(o, 3_000_000, 3)
		if err != nil {
			t.Fatal(err)
		}
		var runs []filterplan.Run
		for _, l := range rest {
			runs = append(runs, filterplan.Run{Level: l.Level, Keys: l.Keys})
		}
		got, tree, err := Tree(o, runs, math.MaxInt64)
		if err != nil || got.FPR != fpr || len(tree) != 7 {
			t.Fatalf("%+v: %+v, %d levels, %v; want %g, 7", o, got, len(tree), err, fpr)
		}
		for _, want := range rest {
			got := tree[want.Level]
			if bytes := float64(got.Bytes) / float64(want.Bytes+1); o.FPR != 1 && math.Abs(bytes-1) > 0.01 ||
				got.Predicted > want.Predicted || got.Predicted < 0.97*want.Predicted || got.Keys != want.Keys ||
				got.Ribbon != want.Ribbon {
				t.Errorf("%+v: %+v, want %+v", o, got, want)
			}
		}
		if o.Memory > 0 {
			continue
		}
		_, with, err := Tree(o, append(runs, filterplan.Run{Keys: 100_000}), math.MaxInt64)
		if err != nil || with[6].Predicted != tree[6].Predicted ||
			with[0].Keys != 100_000 || o.FPR != 1 && with[0].Bytes < 100_000 {
			t.Errorf("%+v: with keys in level 0: %+v, %v", o, with, err)
		}
	}
	// The keys of level 0 soon move to the last level: memory is divided as if they were there, and filters that do not
	// fit are reduced.
	for _, few := range []uint64{1_000, 50_000, 1_000_000} {
		memory := int64(few+1_000_000) * 6 / 8
		runs := []filterplan.Run{{Keys: few}, {Level: 6, Keys: 1_000_000}}
		promise, tree, err := Tree(filterplan.Options{Memory: memory}, runs, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		fpr := promise.FPR
		if sum := int64(tree[0].Bytes + tree[6].Bytes); sum > memory || sum < memory/2 ||
			tree[0].BitsPerKey < tree[6].BitsPerKey {
			t.Errorf("rate %g: level 0 %+v, last level %+v; want at most %d bytes", fpr, tree[0], tree[6], memory)
		}
		t.Logf("%d keys in level 0: rate %g, %.4g predicted", few, fpr, tree[0].Predicted+tree[6].Predicted)
		if tree[0].Predicted+tree[6].Predicted > fpr*(1+1e-9) || fpr > 0.3 {
			t.Errorf("rate %g: level 0 %+v, last level %+v", fpr, tree[0], tree[6])
		}
	}
	for _, bad := range []struct {
		runs []filterplan.Run
		o    filterplan.Options
		want string
	}{
		{
			[]filterplan.Run{{Level: 6, Keys: 1 << 30}},
			filterplan.Options{Memory: 1 << 20},
			"filters of 1073741824 keys take ",
		},
		{nil, filterplan.Options{FPR: 1e-30}, "FilterFPR"},
		{nil, filterplan.Options{FPR: 0.1, Memory: 1 << 20}, "FilterMemory"},
		{nil, filterplan.Options{Memory: 1 << 50}, "FilterMemory"},
		{nil, filterplan.Options{FPR: 2}, "FilterFPR"},
		{nil, filterplan.Options{FPR: math.NaN()}, "FilterFPR"},
		{nil, filterplan.Options{Ratio: 1}, "LevelRatio: 1, want 2 to 100"},
	} {
		if _, _, err := Tree(bad.o, bad.runs, 1<<40); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%v, %+v: %v, want %q", bad.runs, bad.o, err, bad.want)
		}
	}
}
