package filterplan

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// TestAPlanStaysIfNoOtherCanBeMade has a rate whose filters can be built only where memory is not short.
func TestAPlanStaysIfNoOtherCanBeMade(t *testing.T) {
	f := Options{Ratio: 2}.Planner()
	before, err := f.First(3.6e-8)
	must(t, err)
	short := f
	short.Short = true
	if _, err := short.Plan(3.6e-8); err == nil {
		t.Fatal("the filters can be built where memory is short")
	}
	if got := f.ForSpace(before, []Run{{bottom, 1000, 1}}, 0); got != before {
		t.Errorf("without space: %+v, want the plans as they were", got)
	}
}

// TestMemoryIsShortIfTwiceTheFiltersDoNotFit follows a store from the one side of the border to the other.
func TestMemoryIsShortIfTwiceTheFiltersDoNotFit(t *testing.T) {
	f := Options{Ratio: 10}.Planner()
	plans, err := f.First(0.01)
	must(t, err)
	roomy := *plans.Now
	f.Short = true // ForSpace finds out itself
	runs := []Run{{bottom, 100_000, 2}, {bottom - 1, 10_000, 1}}
	need := roomy.Levels[bottom].bytes(100_000, 2) + roomy.Levels[bottom-1].bytes(10_000, 1)
	for _, c := range []struct {
		space int64
		short bool
	}{
		{2 * need, false},
		{2*need - 1, true},
		{2 * need, true},
		{3*need - 1, true},
		{3 * need, false},
		{2 * need, false},
	} {
		plans = f.ForSpace(plans, runs, c.space)
		fine := len(plans.Fine) == 2 && *plans.Fine[0] == roomy
		if got := *plans.Now != roomy; got != c.short || !fine || len(plans.Good) == 1 != c.short {
			t.Errorf("a space of %d bytes for filters of %d: short %v, want %v; %d plans are good, %d fine",
				c.space, need, got, c.short, len(plans.Good), len(plans.Fine))
		}
	}
}

func TestTooLittleMemorySaysWhatTheCheapestFiltersTake(t *testing.T) {
	err := Options{Ratio: 10, Memory: 5}.Planner().TooLittle(8000)
	const want = "option FilterMemory: 5, and filters of 8000 keys take 813 or more, for a rate of 0.84: "
	if !errors.Is(err, bloomblock.ErrRate) || err.Error() != want+bloomblock.ErrRate.Error() {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestKindsOfFiltersHaveNamesThatParse(t *testing.T) {
	for kind, name := range []string{"auto", "ribbon", "bloom"} {
		if got, ok := ParseKind(name); !ok || got != Kind(kind) || got.String() != name {
			t.Errorf("%s: kind %v, %v", name, got, ok)
		}
	}
	for _, name := range []string{"", "Auto", "kind 3", "kind 255"} {
		if got, ok := ParseKind(name); ok {
			t.Errorf("%q: kind %v", name, got)
		}
	}
}

func TestNearPlansReachFromTwiceTheRateToTheBest(t *testing.T) {
	f := Options{Ratio: 10, Memory: mib}.Planner()
	for _, c := range []struct{ step, first int }{{0, 0}, {3, 0}, {4, 0}, {9, 5}, {allSteps - 1, allSteps - 5}} {
		for _, cut := range []bool{false, true} {
			plans, good := f.Near(c.step, cut), allSteps-c.first
			if cut {
				good = c.step + 1 - c.first
			}
			if n := len(plans.Fine); n != allSteps-c.first || *plans.Fine[0] != *f.At(c.first) ||
				*plans.Fine[n-1] != *f.At(allSteps - 1) || len(plans.Good) != good || *plans.Now != *f.At(c.step) {
				t.Errorf("step %d, cut %v: %d plans are fine and %d good, want %d and %d",
					c.step, cut, n, len(plans.Good), allSteps-c.first, good)
			}
		}
	}
}

func TestOptionsAreCheckedToTheirBounds(t *testing.T) {
	const memory = 1 * mib
	for _, c := range []struct {
		o    Options
		want string // the option that is refused
	}{
		{Options{FPR: 1, Ratio: 2}, ""},
		{Options{FPR: 1e-9, Ratio: 100}, ""},
		{Options{FPR: 0.1, Ratio: 1}, "LevelRatio"},
		{Options{FPR: 0.1, Ratio: 101}, "LevelRatio"},
		{Options{FPR: 0.1, Ratio: 10, Kind: Bloom}, ""},
		{Options{FPR: 0.1, Ratio: 10, Kind: Bloom + 1}, "FilterKind"},
		{Options{FPR: 1.001, Ratio: 10}, "FilterFPR"},
		{Options{FPR: -0.1, Ratio: 10}, "FilterFPR"},
		{Options{Ratio: 10}, "FilterFPR"},
		{Options{FPR: math.NaN(), Ratio: 10}, "FilterFPR"},
		{Options{Memory: minMemory, Ratio: 10}, ""},
		{Options{Memory: minMemory - 1, Ratio: 10}, "FilterMemory"},
		{Options{Memory: memory / 2, Ratio: 10}, ""},
		{Options{Memory: memory/2 + 1, Ratio: 10}, "FilterMemory"},
		{Options{Memory: -1, Ratio: 10}, "FilterMemory"},
		{Options{Memory: minMemory, FPR: 0.1, Ratio: 10}, "FilterMemory"},
	} {
		err := c.o.Check(memory)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), "option "+c.want+":") {
			t.Errorf("%+v: %v, want option %q to be refused", c.o, err, c.want)
		}
	}
}
