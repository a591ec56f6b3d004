package main

import (
	"math"
	"slices"
	"testing"
)

func TestMoreBitsWasteFewerReads(t *testing.T) {
	if testing.Short() {
		t.Skip("counts lookups of one goroutine")
	}
	var r sweepReport
	runJSON(t, &r, "sweep", "fpr", "--keys", "20000", "--from", "0.5", "--to", "0.05", "--json")
	var rates []float64
	last := point{}
	for _, p := range r.Points {
		if p.State != "compacted" {
			continue
		}
		rates = append(rates, p.FilterFPR)
		if p.FilterFPR == 1 {
			if p.Filters != "off" || p.FilterBitsPerKey != 0 || wasted(&p) < 0.999 {
				t.Errorf("without filters: %+v", p)
			}
		} else if p.FilterBitsPerKey <= last.FilterBitsPerKey || wasted(&p) >= wasted(&last) ||
			wasted(&p) > 1.15*p.FilterFPR {
			t.Errorf("rate %g: %.2f bits per key and %v wasted reads, after %.2f and %v",
				p.FilterFPR, p.FilterBitsPerKey, wasted(&p), last.FilterBitsPerKey, wasted(&last))
		}
		if presentBlocks(&p) != 1 || p.Runs != 1 || p.Keys != 20000 {
			t.Errorf("rate %g: %v blocks per present key, %d runs, %d keys",
				p.FilterFPR, presentBlocks(&p), p.Runs, p.Keys)
		}
		last = p
	}
	if want := []float64{1, 0.5, 0.2, 0.1, 0.05}; !equalAbout(rates, want) || len(r.Points) != 2*len(want) {
		t.Errorf("rates %v, want %v, of %d points", rates, want, len(r.Points))
	}
}

func TestWithoutFiltersEachRunIsOneMoreBlock(t *testing.T) {
	if testing.Short() {
		t.Skip("counts lookups of one goroutine")
	}
	var r sweepReport
	runJSON(t, &r, "sweep", "runs", "--keys", "6000", "--from", "4", "--to", "6", "--json")
	if len(r.Points) != 6 {
		t.Fatalf("%d points, want 6", len(r.Points))
	}
	for i, p := range r.Points {
		runs := float64(4 + i/2)
		if p.Runs != 4+i/2 {
			t.Errorf("point %d: %d runs, want %v", i, p.Runs, runs)
		}
		switch p.Filters {
		case "on":
			if absentBlocks(&p) > 0.02 || presentBlocks(&p) > 1.02 || p.Predicted > 0.01 {
				t.Errorf("%v runs with filters: %v blocks per absent key, %v per present one, predicted %v",
					runs, absentBlocks(&p), presentBlocks(&p), p.Predicted)
			}
		case "off": // a key may be in any of the runs; the runs above it are searched in vain
			if math.Abs(absentBlocks(&p)-runs) > 0.05 || math.Abs(presentBlocks(&p)-(runs+1)/2) > 0.05 {
				t.Errorf("%v runs without filters: %v blocks per absent key, %v per present one",
					runs, absentBlocks(&p), presentBlocks(&p))
			}
		}
	}
}

func TestStoresOfMoreAndMoreKeys(t *testing.T) {
	var r sweepReport
	runJSON(t, &r, "sweep", "keys", "--from", "200", "--to", "1100", "--json")
	var keys []int
	for _, p := range r.Points {
		if !slices.Contains(keys, p.Keys) {
			keys = append(keys, p.Keys)
		}
		if p.Absent.Ops != fewestOps || p.Present.Ops != fewestOps || p.IndexBitsPerKey <= 0 ||
			p.TableBytes < uint64(100*p.Keys) {
			t.Errorf("%d keys: %d and %d lookups, %v index bits per key, %d bytes",
				p.Keys, p.Absent.Ops, p.Present.Ops, p.IndexBitsPerKey, p.TableBytes)
		}
	}
	if want := []int{200, 500, 1000, 1100}; !slices.Equal(keys, want) || len(r.Points) != 4*len(want) {
		t.Errorf("keys %v, want %v, of %d points", keys, want, len(r.Points))
	}
}

func TestStepsBeginAndEndWhereAsked(t *testing.T) {
	for _, test := range []struct {
		from, to float64
		want     []float64
	}{
		{1, 1, []float64{1}},
		{1, 10, []float64{1, 2, 5, 10}},
		{2, 10000, []float64{2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000}},
		{3, 4, []float64{3, 4}},
		{3, 60, []float64{3, 5, 10, 20, 50, 60}},
		{1 / 0.5, 1 / 0.1, []float64{2, 5, 10}},
		{1 / 0.7, 1 / 0.3, []float64{1 / 0.7, 2, 1 / 0.3}},
	} {
		if got := steps(test.from, test.to); !equalAbout(got, test.want) {
			t.Errorf("steps from %v to %v: %v, want %v", test.from, test.to, got, test.want)
		}
	}
}

func equalAbout(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Abs(x-y) <= 1e-9*math.Abs(y) })
}
