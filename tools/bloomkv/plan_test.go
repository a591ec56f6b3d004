package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/forecast"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

func planned(t *testing.T, args ...string) (f planFacts) {
	t.Helper()
	out := (tool{}).must(t, append([]string{"plan", "--json"}, args...)...)
	must(t, json.Unmarshal([]byte(out), &f))
	return f
}

func TestPlanAddsUpAndKeepsThePromise(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"--keys", "1"},
		{"--keys", "100000000", "--fpr", "0.001"},
		{"--keys", "5000000", "--levels", "6", "--ratio", "4"},
		{"--keys", "100000000", "--ribbon"},
		{"--fpr", "1"},
		{"--fpr", "0.4", "--ribbon"},
	} {
		f := planned(t, args...)
		var keys, bytes uint64
		var predicted float64
		for _, l := range f.Levels {
			keys += l.Keys
			bytes += l.Bytes
			predicted += l.Predicted
			if l.Predicted > l.FPR || (len(l.Units) == 0) != (f.FilterFPR >= 1) ||
				l.Ribbon != (f.Kind == "Ribbon" && f.FilterFPR < 0.5) {
				t.Errorf("%q: %+v", args, l)
			}
		}
		if predicted > f.FilterFPR || predicted != f.Predicted || bytes != f.Bytes ||
			math.Abs(float64(keys)-float64(f.Keys)) > 3 {
			t.Errorf("%q: the levels have %d keys, %d bytes, and predict %g: want %d, %d, at most %g", args, keys,
				bytes, predicted, f.Keys, f.Bytes, f.FilterFPR)
		}
		if len(f.Levels) > 1 && f.FilterFPR < 0.5 && f.Kind == "Bloom" && f.Even < 1.4*f.Predicted {
			t.Errorf("%q: evenly %g, with shares %g", args, f.Even, f.Predicted)
		}
	}
}

func TestPlanFindsTheBestRateThatFits(t *testing.T) {
	for _, kind := range [][]string{nil, {"--ribbon"}} {
		before := 1.0
		for _, memory := range []string{"2", "8", "12.5", "100"} {
			f := planned(t, append([]string{"--keys", "10000000", "--memory", memory}, kind...)...)
			better := planned(t, append([]string{"--keys", "10000000", "--fpr", jsonNumber(t, f.FilterFPR/1.2)},
				kind...)...)
			var most float64
			must(t, json.Unmarshal([]byte(memory), &most))
			most *= 1 << 20
			if float64(f.Bytes) > most || f.FilterFPR > before || f.FilterFPR > 1.3e-4 &&
				float64(better.Bytes) < 0.8*most {
				t.Errorf("%s MiB: %g with %d bytes, and %g with %d", memory, f.FilterFPR, f.Bytes, better.FilterFPR,
					better.Bytes)
			}
			before = f.FilterFPR
		}
	}
}

func jsonNumber(t *testing.T, x float64) string {
	t.Helper()
	b, err := json.Marshal(x)
	must(t, err)
	return string(b)
}

// TestGoldenPlans keeps what plan prints: plans, and errors of wrong flags. Lines have at most 80 characters.
func TestGoldenPlans(t *testing.T) {
	var got strings.Builder
	for _, args := range []string{
		"", "--keys 100000000 --table", "--keys 100000000 --ribbon", "--keys 100000000 --memory 64", "--fpr 1",
		"--keys 1000 --budget 8", "--keys 100000000 --budget 64 --table", "--keys 5000000 --fpr 0.001 --budget 12.5",
		"--fpr 0", "--fpr NaN", "--fpr -0.1", "--fpr 1.5", "--fpr 1e-12", "--memory 1e-07", "--memory 0.001",
		"--memory 0.07 --keys 100000000", "--memory -1", "--memory NaN", "--memory 1 --fpr 0.1", "--budget 7",
		"--budget 0", "--budget NaN", "--budget 64 --memory 8", "--budget 64 --ribbon", "--budget 64 --fpr 1e-12",
		"--budget 64 --levels 7", "--keys 0", "--levels 7", "--ratio 1", "--ratio 101", "more",
	} {
		r := tool{}.run(t, append([]string{"plan"}, strings.Fields(args)...)...)
		fmt.Fprintf(&got, "==== plan %s\n\n%s%sexit %d\n\n", args, r.out, r.err, r.code)
		for line := range strings.Lines(r.out) {
			if n := utf8.RuneCountInString(line); n > 81 { // with its end
				t.Errorf("a line of %d characters: %s", n, line)
			}
		}
	}
	testkit.Golden(t, filepath.Join("testdata", "plans.txt"), got.String())
}

// TestPlanSaysWhatABudgetKeeps compares the numbers of plan --budget with those of the planner.
func TestPlanSaysWhatABudgetKeeps(t *testing.T) {
	for _, c := range []struct {
		keys uint64
		fpr  float64
		mib  float64
	}{{1000, 0.01, 8}, {20_000_000, 0.01, 64}, {100_000_000, 0.01, 64}, {5_000_000, 0.001, 12.5}, {1_000_000, 1, 64}} {
		args := []string{
			"plan", "--keys", jsonNumber(t, float64(c.keys)), "--fpr", jsonNumber(t, c.fpr), "--budget",
			jsonNumber(t, c.mib),
		}
		var f budgetFacts
		must(t, json.Unmarshal([]byte((tool{}).must(t, append(args, "--json")...)), &f))
		if f.Keys != c.keys || f.Asked != c.fpr || f.Budget != int64(c.mib*(1<<20)) || len(f.Kinds) != 3 {
			t.Errorf("%q: %+v", args, f)
		}
		for i, kind := range []filterplan.Kind{filterplan.Auto, filterplan.Bloom, filterplan.Ribbon} {
			o := filterplan.Options{FPR: c.fpr, Kind: kind}
			want, err := forecast.Of(o, c.keys, 0, f.Budget)
			must(t, err)
			idle, err := forecast.Holds(o, f.Budget, forecast.Idle)
			must(t, err)
			k := f.Kinds[i]
			if k.Kind != kind.String() || k.Writing != want.Writing || k.Idle != want.Idle || k.Bytes != want.Bytes ||
				k.Holds.Idle != idle || k.Holds.Writing > idle {
				t.Errorf("%q: %+v, want %+v and %d keys", args, k, want, idle)
			}
		}
	}
}

// TestThePlanOfABudgetIsThatOfTheFilters compares the budget that plan names with what the filters take.
func TestThePlanOfABudgetIsThatOfTheFilters(t *testing.T) {
	f := planned(t, "--keys", "100000000")
	const fixed = 6_250_000 // for indexes and tables
	writing, idle := forecast.Writing.Space(f.Budget.Writing, fixed), forecast.Idle.Space(f.Budget.Idle, fixed)
	if bytes := int64(f.Bytes); writing < bytes || writing > bytes+1<<20 || idle < bytes || idle > bytes+1<<20 {
		t.Errorf("%d bytes of filters, and budgets of %+v leave %d and %d", f.Bytes, f.Budget, writing, idle)
	}
}

// TestClassicRatesAreThoseOfTheBooks checks published values.
func TestClassicRatesAreThoseOfTheBooks(t *testing.T) {
	for _, tt := range []struct {
		bits   float64
		probes int
		want   float64
	}{
		{20, 10, 8.894e-5},
		{10, 7, 8.194e-3},
		{16, 11, 4.587e-4},
		{8, 6, 2.158e-2},
		{4, 3, 1.469e-1},
		{1, 1, 1 - 1/math.E},
	} {
		if got := classicRate(tt.bits, tt.probes); math.Abs(got/tt.want-1) > 5e-4 {
			t.Errorf("%g bits, %d probes: %.4g, want %.4g", tt.bits, tt.probes, got, tt.want)
		}
	}
}

func TestTheLeastClassicFilterForARate(t *testing.T) {
	for _, tt := range []struct {
		rate, bits float64
		probes     int
	}{{0.01, 10, 5}, {0.025, 8, 4}, {0.001, 14.5, 9}, {0.0001, 19.5, 11}, {0.9, 1, 1}} {
		want := bloomblock.Unit{BitsPerKey: tt.bits, Probes: tt.probes}
		got := classicUnit(tt.rate)
		if got != want {
			t.Errorf("%g: %+v at %.4g, want %+v at %.4g", tt.rate,
				got, classicRate(got.BitsPerKey, got.Probes), want, classicRate(want.BitsPerKey, want.Probes))
		}
		blocked, err := bloomblock.ParamsFor(tt.rate)
		if err != nil || blocked.BitsPerKey()+0.5 < got.BitsPerKey-2 {
			t.Errorf("%g: %v bits, classic %v, %v", tt.rate, blocked.BitsPerKey(), got.BitsPerKey, err)
		}
	}
}
