package filterplan

import (
	"math"
	"testing"
)

func TestABudgetIsTheSmallestThatHoldsItsFilters(t *testing.T) {
	for _, fixed := range []int64{0, 1, 5 << 20} {
		for _, share := range []float64{0, 1. / 32, 1. / 16, 0.5} {
			for filters := int64(1); filters < 1<<40; filters = filters*3 + 1 {
				b := BudgetFor(filters, fixed, share)
				if b%mib != 0 || b < MinBudget || Space(left(b, fixed, share)) < filters {
					t.Fatalf("%d bytes of filters, %d fixed, share %g: %d, of which filters get %d",
						filters, fixed, share, b, Space(left(b, fixed, share)))
				}
				if less := Space(left(b-mib, fixed, share)); b > MinBudget && less >= filters && less > 0 {
					t.Fatalf("%d bytes of filters, %d fixed, share %g: %d, but one MiB less leaves %d",
						filters, fixed, share, b, less)
				}
			}
		}
	}
}

// TestAForecastIsKeptUpToWhatABudgetHolds looks at stores that are a little smaller and larger than what a budget
// holds, and at the budget that a larger store needs.
func TestAForecastIsKeptUpToWhatABudgetHolds(t *testing.T) {
	for _, o := range []Options{
		{}, {Kind: Bloom}, {Kind: Ribbon}, {FPR: 0.001}, {FPR: 0.3, Kind: Ribbon}, {FPR: 0.05, Kind: Bloom, Ratio: 4},
	} {
		for _, budget := range []int64{MinBudget, DefaultBudget, 1 << 30} {
			for _, use := range []Use{Idle, Writing} {
				asked := o.WithDefaults().FPR
				promise := func(keys uint64, budget int64) Promise {
					f, err := o.Forecast(keys, 0, budget)
					must(t, err)
					if f.Writing.Passed < f.Idle.Passed || f.Writing.Budget < f.Idle.Budget {
						t.Errorf("%+v, %d keys in %d bytes: %+v; want no less of an idle store", o, keys, budget, f)
					}
					if use == Idle {
						return f.Idle
					}
					return f.Writing
				}
				most, err := o.Holds(budget, use)
				must(t, err)
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
	if f, err := (Options{FPR: 1}).Forecast(1e9, 3, MinBudget); err != nil || f.Bytes != 0 || f.Writing.FPR != 3 ||
		f.Writing.Budget != MinBudget {
		t.Errorf("without filters: %+v, %v; want a read for each of three runs", f, err)
	}
	for _, o := range []Options{{FPR: 2}, {FPR: 1e-30}, {Ratio: 1}} {
		_, err := o.Forecast(1000, 0, DefaultBudget)
		_, also := o.Holds(DefaultBudget, Idle)
		if err == nil || also == nil {
			t.Errorf("%+v: %v, %v, want errors", o, err, also)
		}
	}
	if _, err := (Options{}).Forecast(1000, 7, DefaultBudget); err == nil {
		t.Error("a forecast of seven levels")
	}
}

// TestAForecastRisesSmoothly has no cliff where memory becomes short: with a quarter more keys, lookups of absent keys
// never use more than six times the reads, and a budget of 64 MiB keeps much for 100 million keys.
func TestAForecastRisesSmoothly(t *testing.T) {
	for _, kind := range []Kind{Auto, Ribbon, Bloom} {
		before := Forecast{}
		for keys := uint64(1_000_000); keys < 1<<34; keys += keys / 4 {
			f, err := Options{Kind: kind}.Forecast(keys, 0, DefaultBudget)
			must(t, err)
			const rounded = 1e-9
			if f.Idle.Reads < before.Idle.Reads-rounded || f.Writing.Reads < before.Writing.Reads-rounded ||
				keys > 1_000_000 && (f.Writing.Reads > 6*before.Writing.Reads || f.Idle.Reads > 6*before.Idle.Reads) {
				t.Errorf("%v, %d keys: %+v, with fewer %+v", kind, keys, f, before)
			}
			before = f
		}
	}
	f, err := Options{}.Forecast(100_000_000, 0, DefaultBudget)
	if err != nil || f.Idle.Reads > 0.2 || f.Writing.Reads > 0.47 || f.Writing.FPR > 0.1 ||
		math.Abs(float64(f.Writing.Budget)/(210<<20)-1) > 0.1 {
		t.Errorf("100 million keys: %+v, %v", f, err)
	}
}
