package inspect_test

import (
	"math"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
	"github.com/bloomkv/bloomkv/vfs"
)

// TestPlacesAndOverlapsAreThoseOfTheKeys inspects a store whose keys are known: n in the last level, the second
// quarter of them again in a run of level 0, and the last tenth in a newer run, together with as many new keys.
func TestPlacesAndOverlapsAreThoseOfTheKeys(t *testing.T) {
	const n = 40_000
	for _, tableSize := range []int64{1 << 20, 32 << 10} { // a few tables, and more than 64
		g := steady(t, n, bloomkv.Options{TableSize: tableSize})
		must(t, g.db.Compact(t.Context(), bloomkv.CompactOptions{}))
		all := n + n/50
		g.put(each(n/4, n/2))
		// the last 4,000 keys, and 4,000 new ones after them
		g.put(func(yield func(int) bool) {
			for i := all - n/10; i < all+n/10 && yield(i); i++ {
			}
		})
		total := float64(all + n/10)
		s := g.inspect(inspect.Options{})
		type stretch struct{ from, to float64 }
		places := map[[2]uint64]stretch{}
		for _, f := range s.Tables {
			key := [2]uint64{uint64(*f.Level), *f.Run}
			p, ok := places[key]
			if !ok {
				p.from = f.Place.From
			}
			if ok && math.Abs(p.to-f.Place.From) > 0.01 {
				t.Errorf("%s begins at %g, the table before ends at %g", f.File, f.Place.From, p.to)
			}
			p.to = f.Place.To
			places[key] = p
			if got, want := f.Place.Wasted, (f.Place.To-f.Place.From)*f.Place.FPR; got != want {
				t.Errorf("%s wastes %g, want %g", f.File, got, want)
			}
		}
		if len(places) != 3 || s.Tree.Runs != 3 {
			t.Fatalf("runs %v, want 3", places)
		}
		newest := s.Tables[0]
		second := s.Levels[0]
		if second.Runs != 2 {
			t.Fatalf("%+v, want two runs", second)
		}
		for key, got := range places {
			want := stretch{0, float64(all) / total}
			switch {
			case key[0] == 0 && key[1] == *newest.Run:
				want = stretch{(float64(all) - n/10) / total, 1}
			case key[0] == 0:
				want = stretch{n / 4 / total, n / 2 / total}
			}
			if math.Abs(got.from-want.from) > 0.01 || math.Abs(got.to-want.to) > 0.01 {
				t.Errorf("tables of %d KiB: level %d, run %d: from %.4f to %.4f, want %.4f to %.4f", tableSize>>10,
					key[0], key[1], got.from, got.to, want.from, want.to)
			}
		}

		o := s.Overlap
		if (o.Of == "tables") != (len(s.Tables) <= 64) || o.Of == "runs" && len(o.Members) != 3 || o.Of == "tables" &&
			len(o.Members) != len(s.Tables) {
			t.Fatalf("%d tables: overlap of %d %s", len(s.Tables), len(o.Members), o.Of)
		}
		in := func(a, b int) (share, err float64) { // of keys of the first in the second: 0 is the newest run
			of := func(m inspect.OverlapMember) int {
				switch {
				case m.Level > 0:
					return 2
				case m.Run == *newest.Run:
					return 0
				}
				return 1
			}
			keys, common, variance := 0.0, 0.0, 0.0
			for _, m := range o.Members {
				if of(m) == a {
					keys += float64(m.Keys)
				}
			}
			for _, p := range o.Pairs {
				if m := o.Members[p.A]; of(m) == a && of(o.Members[p.B]) == b {
					common += float64(m.Keys) * p.Share
					variance += float64(m.Keys) * p.Err * float64(m.Keys) * p.Err
				}
			}
			return common / keys, math.Sqrt(variance) / keys
		}
		for _, c := range []struct {
			a, b int
			want float64
		}{{0, 1, 0}, {0, 2, 0.5}, {1, 2, 1}, {2, 0, n / 10 / float64(all)}, {2, 1, n / 4 / float64(all)}} {
			share, err := in(c.a, c.b)
			if math.Abs(share-c.want) > 4*err+0.001 || err > 0.05 {
				t.Errorf("tables of %d KiB: of run %d %.4f ± %.4f are in run %d, want %.4f", tableSize>>10, c.a, share,
					err, c.b, c.want)
			}
		}
		if entries := float64(s.Tree.Entries); !o.Known || math.Abs(o.Written-total) > 4*o.Err ||
			math.Abs(o.Written+o.Garbage-entries) > 1 {
			t.Errorf("%.0f ± %.0f keys would be written and %.0f entries dropped, want %.0f of %.0f", o.Written, o.Err,
				o.Garbage, total, entries)
		}
		must(t, g.db.DeleteRange(bloomkv.KeyRange{Lower: treeKey(5), Upper: treeKey(6)}))
		g.put(each(0, 1))
		if o := g.inspect(inspect.Options{}).Overlap; o.Known || o.Written != 0 {
			t.Errorf("with range deletes: %+v, want nothing known", o)
		}
	}
}

// TestPlansAreThoseOfTheOptions writes stores by many plans.
func TestPlansAreThoseOfTheOptions(t *testing.T) {
	for _, c := range []struct {
		o    bloomkv.Options
		want string // kind
	}{
		{bloomkv.Options{}, "auto"},
		{bloomkv.Options{FilterFPR: 0.3}, "auto"},
		{bloomkv.Options{FilterFPR: 0.0001}, "auto"},
		{bloomkv.Options{FilterFPR: 0.05, LevelRatio: 4, FilterKind: bloomkv.FilterBloom}, "bloom"},
		{bloomkv.Options{FilterFPR: 0.037, FilterKind: bloomkv.FilterRibbon}, "ribbon"},
		{bloomkv.Options{FilterFPR: 0.002, LevelRatio: 16, FilterKind: bloomkv.FilterRibbon}, "ribbon"},
		{bloomkv.Options{FilterFPR: 1}, "none"},
		{bloomkv.Options{FilterMemory: 1 << 20}, "auto"},
		{bloomkv.Options{FilterMemory: 256 << 10, FilterKind: bloomkv.FilterRibbon}, "ribbon"},
	} {
		g := steady(t, 5000, c.o)
		if c.o.FilterMemory == 0 {
			g.put(each(0, 100))
		}
		p := g.inspect(inspect.Options{}).Plan
		want := c.o
		m := g.db.Metrics()
		switch {
		case c.o.FilterMemory > 0:
			want.FilterFPR = m.FPRPromised
		case want.FilterFPR == 0:
			want.FilterFPR = 0.01
		}
		if want.LevelRatio == 0 {
			want.LevelRatio = 10
		}
		if p == nil || p.FPR != want.FilterFPR || int64(p.Limit) != c.o.FilterMemory || p.Kind != c.want ||
			p.Kind != "none" && p.Ratio != want.LevelRatio || p.TablesOffPlan != 0 || p.Tables != m.Files.Tables {
			t.Errorf("filters of %g, ratio %d: %+v", want.FilterFPR, want.LevelRatio, p)
			continue
		}
		for l, level := range p.Levels {
			if level.FPR != m.Levels[l].FPRPromised {
				t.Errorf("%+v, the store has %g", level, m.Levels[l].FPRPromised)
			}
		}
	}
}

func TestTablesOfAnotherPromiseAreFlagged(t *testing.T) {
	g := steady(t, 20_000, bloomkv.Options{})
	if s := g.inspect(inspect.Options{}); len(s.Flags) != 0 {
		t.Errorf("flags %+v, want none", s.Flags)
	}
	must(t, g.db.Close())
	for _, fpr := range []float64{0.2, 1} {
		var err error
		o := &bloomkv.Options{FilterFPR: fpr, CompactionRate: 1} // so that no compaction merges the tables
		if g.db, err = bloomkv.Open(g.dir, o); err != nil {
			t.Fatal(err)
		}
		g.put(each(0, 20_000))
		must(t, g.db.Close())
	}
	m, err := manifest.Load(vfs.OS, g.dir)
	must(t, err)
	m.Filters = &manifest.Filters{FPR: 0.01, Ratio: 10} // as if the last writer had used these options
	number := m.NextFile
	m.NextFile++
	again, err := manifest.Create(vfs.OS, g.dir, number, m)
	must(t, err)
	must(t, again.Close())
	s := g.inspect(inspect.Options{})
	got := map[inspect.FlagName]int{}
	for _, f := range s.Flags {
		got[f.Name]++
	}
	if s.Plan == nil || s.Plan.FPR != 0.01 || s.Plan.TablesOffPlan != 2 || got[inspect.NoFilter] != 1 ||
		got[inspect.FilterWorse] != 1 || got[inspect.WastesMore] != 1 || len(s.Flags) != 3 {
		t.Errorf("plan %+v, flags %+v, want one table without a filter, one whose filter is worse, and too many "+
			"wasted reads", s.Plan, s.Flags)
	}
	if s.Tree.Predicted < 0.5 || s.Overlap.Known {
		t.Errorf("%+v, overlap %+v", s.Tree, s.Overlap)
	}
}
