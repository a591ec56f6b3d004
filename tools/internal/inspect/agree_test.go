package inspect_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/forecast"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

// TestTheFiguresOfInspectAreThoseOfMetrics compares what files show with what the open store reports, of stores of
// both promises and both kinds of filters: promised and measured wasted reads, bytes of filters, and tables off the
// plan. The last stores get less memory than the filters that they have, so that units are left out.
func TestTheFiguresOfInspectAreThoseOfMetrics(t *testing.T) {
	n := *treeKeys
	memory := int64(max(64<<10, n))
	for _, c := range []struct{ built, o bloomkv.Options }{
		{o: bloomkv.Options{FilterFPR: 0.05}},
		{o: bloomkv.Options{FilterFPR: 0.05, FilterKind: bloomkv.FilterRibbon}},
		{o: bloomkv.Options{FilterMemory: memory}},
		{o: bloomkv.Options{FilterMemory: memory, FilterKind: bloomkv.FilterRibbon}},
		{o: bloomkv.Options{FilterFPR: 1}},
		{bloomkv.Options{FilterFPR: 0.002}, bloomkv.Options{FilterMemory: memory}},
		{
			bloomkv.Options{FilterFPR: 0.0005, FilterKind: bloomkv.FilterRibbon},
			bloomkv.Options{FilterMemory: memory, FilterKind: bloomkv.FilterRibbon},
		},
	} {
		o := c.o
		name := fmt.Sprintf("rate %g, memory %d, kind %d", o.FilterFPR, o.FilterMemory, o.FilterKind)
		t.Run(name, func(t *testing.T) {
			short := c.built.FilterFPR > 0
			if !short {
				c.built = o
			}
			g := grow(t, n, c.built)
			g.wasted(n)
			must(t, g.db.Close())
			o.MemoryBudget, o.LevelRatio, o.MemtableSize = 512<<20, 4, 64<<20
			var err error
			g.db, err = bloomkv.Open(g.dir, &o)
			must(t, err)
			must(t, errors.Join(g.db.Put([]byte("zzz"), nil), g.db.Close())) // which records the counts
			s := g.inspect(inspect.Options{})
			o.ReadOnly = true
			g.db, err = bloomkv.Open(g.dir, &o)
			must(t, err)
			g.settle()
			m, shed := g.db.Metrics(), 0
			for _, l := range m.Levels {
				shed += l.FiltersShed
			}
			// Where a flush falls decides whether filters that were built for the memory fit into it at the end.
			if shed == 0 && short || shed > 0 && o.FilterMemory == 0 {
				t.Errorf("%d filters lack units", shed)
			}
			same := func(what string, got, want float64) {
				t.Helper()
				if math.Abs(got-want) > 1e-9*math.Abs(want) {
					t.Errorf("%s: %g, the store has %g", what, got, want)
				}
			}
			same("promised", s.Tree.Promised, m.FPRPromised)
			measured := 0.0
			same("bytes of filters in memory", float64(s.Tree.FilterBytes), float64(m.Memory.Filters))
			for _, l := range s.Levels {
				of, runs := m.Levels[l.Level], float64(l.Runs)
				name := fmt.Sprintf("level %d, ", l.Level)
				same(name+"runs", runs, float64(of.Runs))
				same(name+"promised", l.Promised, runs*of.FPRPromised)
				same(name+"measured", l.Measured, runs*of.FPRMeasured)
				measured += l.Measured
				same(name+"bytes of filters on disk", float64(l.FilterDisk), float64(of.FilterBytes))
				same(name+"in memory", float64(l.FilterBytes), float64(of.FilterBytesInMemory))
			}
			same("measured", s.Tree.Measured, measured)
			if s.Plan == nil || s.Plan.TablesOffPlan != m.TablesOffPlan || s.Plan.BytesOffPlan != m.BytesOffPlan {
				t.Errorf("plan %+v, the store has %d tables off the plan", s.Plan, m.TablesOffPlan)
			}
			if f := s.Tree; f.Optimum > f.Predicted*(1+1e-9) || f.Optimum > f.Even*(1+1e-9) ||
				f.Predicted > m.FPRPredicted*1.3 || (f.Measured == 0) != (o.FilterFPR == 1) {
				t.Errorf("%+v: want optimum ≤ predicted, even; the store predicts %g", f, m.FPRPredicted)
			}
			t.Logf("promised %.3g, predicted %.3g (Metrics %.3g), measured %.3g, optimum %.3g, evenly %.3g",
				s.Tree.Promised, s.Tree.Predicted, m.FPRPredicted, s.Tree.Measured, s.Tree.Optimum, s.Tree.Even)
		})
	}
}

// TestLittleMemoryLeavesOutOnlyComparisons keeps no filter of a store of several runs.
func TestLittleMemoryLeavesOutOnlyComparisons(t *testing.T) {
	g := grow(t, 20_000, bloomkv.Options{})
	all, little := g.inspect(inspect.Options{}), g.inspect(inspect.Options{Memory: 1, Workers: 1})
	if all.Overlap == nil || !all.Overlap.Known || little.Overlap == nil || little.Overlap.Known ||
		len(little.Overlap.Pairs) > 0 {
		t.Errorf("overlap %+v, and %+v without memory; want one that is not known", all.Overlap, little.Overlap)
	}
	a, l := all.Tree, little.Tree
	if l.FilterBytes != a.FilterBytes || l.Promised != a.Promised || l.Keys != a.Keys || l.Predicted <= 0 ||
		len(little.Tables) != len(all.Tables) {
		t.Errorf("%+v, want %+v", l, a)
	}
}

// TestTheOptimumIsNeverAboveWhatIsPredicted has filters of few keys, which are better than the best of many.
func TestTheOptimumIsNeverAboveWhatIsPredicted(t *testing.T) {
	for _, n := range []int{1, 7, 500} {
		g := steady(t, n, bloomkv.Options{})
		f := g.inspect(inspect.Options{}).Tree
		sum := 0.0
		for _, l := range g.inspect(inspect.Options{}).Levels {
			sum += l.Optimum
		}
		if f.Optimum > f.Predicted || math.Abs(sum-f.Optimum) > 1e-9*f.Optimum {
			t.Errorf("%d keys: optimum %g, the levels together %g; predicted %g", n, f.Optimum, sum, f.Predicted)
		}
	}
}

// TestWhatTooLittleMemoryKeepsIsThatOfMetrics compares a store whose filters do not fit in its memory with what its
// files show, while it is idle and while it is written to.
func TestWhatTooLittleMemoryKeepsIsThatOfMetrics(t *testing.T) {
	const n, budget = 2_400_000, 8 << 20
	g := &grown{T: t, dir: t.TempDir(), keys: n}
	o := bloomkv.Options{MemoryBudget: budget, FilterFPR: 1e-6, FilterSeed: 1, Durability: bloomkv.DurabilityNoSync}
	var err error
	g.db, err = bloomkv.Open(g.dir, &o)
	must(t, err)
	t.Cleanup(func() { _ = g.db.Close() })
	must(t, g.db.Ingest(t.Context(), func(yield func(bloomkv.KV, error) bool) {
		var key [9]byte
		for i := 0; i < n && yield(bloomkv.KV{Key: fmt.Appendf(key[:0], "%09d", i)}, nil); i++ {
		}
	}, bloomkv.IngestOptions{}))
	g.settle()
	must(t, g.db.Close())
	g.db, err = bloomkv.Open(g.dir, &o)
	must(t, err)
	g.settle()
	agree := func(when string, got filterplan.Promise) {
		t.Helper()
		g.settle()
		m := g.db.Metrics()
		t.Logf("%s: %+v; the store promises %g and needs %d, predicted %g", when, got, m.FPRPromised, m.BudgetNeeded,
			m.FPRPredicted)
		if math.Abs(got.FPR/m.FPRPromised-1) > 0.05 || got.FPR < 1e-5 || got.Budget-m.BudgetNeeded > 1<<20 ||
			m.BudgetNeeded-got.Budget > 1<<20 {
			t.Errorf("%s: %+v; the store promises %g and needs %d", when, got, m.FPRPromised, m.BudgetNeeded)
		}
	}
	s := g.inspect(inspect.Options{Budget: budget})
	agree("idle", s.Promise.Idle)
	must(t, g.db.Put([]byte("x"), nil))
	agree("written to", s.Promise.Writing)

	if f := s.Flags; len(f) != 1 || f[0].Name != inspect.MemoryShort {
		t.Errorf("flags %+v, want one of too little memory", f)
	}
	if s.Tree.Promised > 1.02*s.Promise.Writing.FPR || s.Tree.Predicted > 1.02*s.Tree.Promised ||
		s.Promise.Idle.FPR >= s.Promise.Writing.FPR {
		t.Errorf("promised %g, predicted %g; want what %+v keeps while it is written to", s.Tree.Promised,
			s.Tree.Predicted, s.Promise)
	}
	if space := forecast.Writing.Space(budget, 0); int64(s.Tree.FilterBytes) > space ||
		int64(s.Tree.FilterBytes) < space*95/100 {
		t.Errorf("%d bytes of filters, want the %d that there are", s.Tree.FilterBytes, space)
	}
	// the budget that is named is enough, and a smaller one is not
	for budget, kept := range map[int64]bool{s.Promise.Writing.Budget: true, 16 << 20: false} {
		o := g.inspect(inspect.Options{Budget: budget})
		if (len(o.Flags) == 0) != kept || (o.Promise.Writing.FPR == o.Promise.Asked) != kept {
			t.Errorf("%d bytes: %+v, flags %+v; want it kept: %v", budget, o.Promise, o.Flags, kept)
		}
	}
}

// TestFiltersThatAreAskedInTheirFilesCountAsInMetrics opens a store with far less memory for filters than it has.
func TestFiltersThatAreAskedInTheirFilesCountAsInMetrics(t *testing.T) {
	const n = 250_000
	g := steady(t, n, bloomkv.Options{})
	must(t, g.db.Close())
	var err error
	g.db, err = bloomkv.Open(g.dir, &bloomkv.Options{FilterMemory: 64 << 10})
	must(t, err)
	must(t, errors.Join(g.db.Put([]byte("zzz"), nil), g.db.Flush(t.Context())))
	g.settle()
	counted := g.wasted(n / 2)
	s, m := g.inspect(inspect.Options{}), g.db.Metrics()
	p := s.Promise.Writing
	t.Logf("%+v, pages %g, predicted %g; the store promises %g and %g reads, counted %g", p, s.Tree.Pages,
		s.Tree.Predicted, m.FPRPromised, m.ReadsPromised, counted)
	if pages := m.ReadsPromised - m.FPRPromised; math.Abs(p.Pages/pages-1) > 0.05 || p.Pages < 0.1 ||
		math.Abs(p.FPR/m.FPRPromised-1) > 0.05 {
		t.Errorf("%+v; the store promises %g and %g pages of filters", p, m.FPRPromised, pages)
	}
	if math.Abs(s.Tree.Pages/p.Pages-1) > 0.2 || s.Tree.Predicted > p.FPR*1.02 || counted > p.FPR*1.1 {
		t.Errorf("%g pages and %g wasted reads predicted, %g counted; want those of %+v", s.Tree.Pages,
			s.Tree.Predicted, counted, p)
	}
	inFile := 0
	for i := range s.Tables {
		if s.Tables[i].Place.InFile {
			inFile++
		}
	}
	var b strings.Builder
	s.WriteText(&b, inspect.Style{})
	if inFile == 0 || !strings.Contains(b.String(), "  measured  pages\n") {
		t.Errorf("%d tables are asked in their files:\n%.3000s", inFile, b.String())
	}
}
