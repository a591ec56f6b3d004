package forecast

import (
	"math"
	"testing"

	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

var must = testkit.Must

// TestAForecastIsKeptUpToWhatABudgetHolds looks at stores that are a little smaller and larger than what a budget
// holds, and at the budget that a larger store needs.
func TestAForecastIsKeptUpToWhatABudgetHolds(t *testing.T) {
	for _, o := range []filterplan.Options{
		{},
		{Kind: filterplan.Bloom},
		{Kind: filterplan.Ribbon},
		{FPR: 0.001},
		{FPR: 0.3, Kind: filterplan.Ribbon},
		{FPR: 0.05, Kind: filterplan.Bloom, Ratio: 4},
	} {
		for _, budget := range []int64{filterplan.MinBudget, filterplan.DefaultBudget, 1 << 30} {
			for _, use := range []Use{Idle, Writing} {
				asked := o.WithDefaults().FPR
				promise := func(keys uint64, budget int64) filterplan.Promise {
					f, err := Of(o, keys, 0, budget)
					if err != nil {
						t.Fatal(err)
					}
					if f.Writing.Passed < f.Idle.Passed || f.Writing.Budget < f.Idle.Budget {
						t.Errorf("%+v, %d keys in %d bytes: %+v; want no less of an idle store", o, keys, budget, f)
					}
					if use == Idle {
						return f.Idle
					}
					return f.Writing
				}
				most, err := Holds(o, budget, use)
				if err != nil {
					t.Fatal(err)
				}
				within, beyond := promise(most*99/100, budget), promise(most*108/100, budget)
				if within.Passed != asked || within.Budget > budget ||
					beyond.Passed <= asked || beyond.Budget < budget {
					t.Errorf("%+v: %d bytes hold %d keys: %+v with a hundredth less, %+v with more", o, budget, most,
						within, beyond)
				}
				large := promise(3*most, budget)
				kept, not := promise(3*most, large.Budget), promise(3*most, large.Budget*9/10)
				if kept.Passed != asked || not.Passed <= asked || large.Passed <= beyond.Passed ||
					large.Passed > 2 {
					t.Errorf("%+v: %d keys in %d bytes: %+v, then %+v, and %+v with less", o, 3*most, budget, large,
						kept, not)
				}
			}
		}
	}
	f, err := Of(filterplan.Options{FPR: 1}, 1e9, 3, filterplan.MinBudget)
	if err != nil || f.Bytes != 0 || f.Writing.FPR != 3 || f.Writing.Budget != filterplan.MinBudget {
		t.Errorf("without filters: %+v, %v; want a read for each of three runs", f, err)
	}
	for _, o := range []filterplan.Options{{FPR: 2}, {FPR: 1e-30}, {Ratio: 1}} {
		_, err := Of(o, 1000, 0, filterplan.DefaultBudget)
		_, also := Holds(o, filterplan.DefaultBudget, Idle)
		if err == nil || also == nil {
			t.Errorf("%+v: %v, %v, want errors", o, err, also)
		}
	}
	if _, err := Of(filterplan.Options{}, 1000, 7, filterplan.DefaultBudget); err == nil {
		t.Error("a forecast of seven levels")
	}
}

// TestMemtablesOfLargeBudgetsTakeAsMuchAsTheyMay compares budgets below, at and above the largest of which memtables
// take a share, and finds each as the smallest one for the filters that it holds.
func TestMemtablesOfLargeBudgetsTakeAsMuchAsTheyMay(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, c := range []struct{ budget, writing, idle int64 }{
		{2 * gib, 1 * gib, 2*gib - 128*mib},
		{4 * gib, 2 * gib, 4*gib - 256*mib},
		{4*gib + mib, 2*gib + mib, 4*gib + mib - 256*mib},
		{16 * gib, 14 * gib, 16*gib - 256*mib},
	} {
		for u, want := range map[Use]int64{Writing: c.writing, Idle: c.idle} {
			if got := u.Free(c.budget); got != want {
				t.Errorf("use %d: memtables leave %d of %d bytes, want %d", u, got, c.budget, want)
			}
			const fixed = 100 * mib
			if got := u.Budget(u.Space(c.budget, fixed), fixed); got != c.budget {
				t.Errorf("use %d: what %d bytes hold needs %d", u, c.budget, got)
			}
		}
	}
}

// TestAForecastRisesSmoothly has no cliff where memory becomes short: with a quarter more keys, lookups of absent keys
// never use more than six times the reads, and a budget of 64 MiB keeps much for 100 million keys.
func TestAForecastRisesSmoothly(t *testing.T) {
	for _, kind := range []filterplan.Kind{filterplan.Auto, filterplan.Ribbon, filterplan.Bloom} {
		before := Forecast{}
		for keys := uint64(1_000_000); keys < 1<<34; keys += keys / 4 {
			f, err := Of(filterplan.Options{Kind: kind}, keys, 0, filterplan.DefaultBudget)
			if err != nil {
				t.Fatal(err)
			}
			const rounded = 1e-3 // tables of another size have units, and so pages, of another rate
			if f.Idle.Reads < before.Idle.Reads-rounded || f.Writing.Reads < before.Writing.Reads-rounded ||
				keys > 1_000_000 && (f.Writing.Reads > 6*before.Writing.Reads || f.Idle.Reads > 6*before.Idle.Reads) {
				t.Errorf("%v, %d keys: %+v, with fewer %+v", kind, keys, f, before)
			}
			before = f
		}
	}
	f, err := Of(filterplan.Options{}, 100_000_000, 0, filterplan.DefaultBudget)
	if err != nil || f.Idle.Reads > 0.2 || f.Writing.Reads > 0.47 || f.Writing.FPR > 0.1 ||
		math.Abs(float64(f.Writing.Budget)/(210<<20)-1) > 0.1 {
		t.Errorf("100 million keys: %+v, %v", f, err)
	}
}
