package inspect_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/forecast"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

var must = testkit.Must

// steady creates a store whose shape does not depend on time: n keys in the last level, then some of them again and
// some new ones in runs of level 0, too few to be compacted. With FilterMemory it has no such runs, because older
// filters would follow a plan for fewer keys.
func steady(t *testing.T, n int, o bloomkv.Options) *grown {
	t.Helper()
	g := &grown{T: t, dir: t.TempDir(), keys: n}
	o.Compression, o.FilterSeed = bloomkv.CompressionNone, 1
	var err error
	if g.db, err = bloomkv.Open(g.dir, &o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.db.Close() })
	for first := range 2 { // two runs that are merged: one would be moved, with the filter that it has
		err = errors.Join(err, g.db.Ingest(t.Context(), func(yield func(bloomkv.KV, error) bool) {
			for i := first; i < n && yield(bloomkv.KV{Key: treeKey(i), Value: make([]byte, 64)}, nil); i += 2 {
			}
		}, bloomkv.IngestOptions{}))
	}
	must(t, errors.Join(err, g.db.Compact(t.Context(), bloomkv.CompactOptions{})))
	if o.FilterMemory == 0 {
		g.put(each(n/4, n/4+n/25)) // again
		g.put(each(n, n+n/50))
		g.keys += n / 50
	}
	g.settle()
	return g
}

func each(lo, hi int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for i := lo; i < hi && yield(i); i++ {
		}
	}
}

func question(t *testing.T, text string) inspect.Question {
	t.Helper()
	q, err := inspect.ParseWhatIf(text)
	must(t, err)
	return q
}

// TestWhatIfIsWhatAStoreThatIsBuiltSoHas compares the answers about another plan with a store of the same shape that
// was built by it: bytes within 2 %, and wasted reads, predicted and counted, within 10 % and five standard
// deviations of the count.
func TestWhatIfIsWhatAStoreThatIsBuiltSoHas(t *testing.T) {
	const n = 100_000
	plain := steady(t, n, bloomkv.Options{})
	memory := steady(t, n, bloomkv.Options{FilterMemory: 100_000})
	for _, c := range []struct {
		text string
		fpr  float64
		o    bloomkv.Options
	}{
		{"fpr=0.001", 0.001, bloomkv.Options{FilterFPR: 0.001}},
		{"fpr=0.1", 0.1, bloomkv.Options{FilterFPR: 0.1}},
		{"kind=ribbon", 0.01, bloomkv.Options{FilterKind: bloomkv.FilterRibbon}},
		{"kind=ribbon,fpr=0.05", 0.05, bloomkv.Options{FilterKind: bloomkv.FilterRibbon, FilterFPR: 0.05}},
		{"kind=bloom", 0.01, bloomkv.Options{}},
		{"fpr=1", 1, bloomkv.Options{FilterFPR: 1}},
		{"memory=0.125", 0, bloomkv.Options{FilterMemory: 128 << 10}},
		{"memory=0.25,kind=ribbon", 0, bloomkv.Options{FilterMemory: 256 << 10, FilterKind: bloomkv.FilterRibbon}},
	} {
		t.Run(c.text, func(t *testing.T) {
			if testing.Short() && c.text != "kind=ribbon,fpr=0.05" && c.text != "memory=0.125" {
				t.Skip("one rate and one bound are enough")
			}
			now := plain
			if c.o.FilterMemory > 0 {
				now = memory
			}
			s := now.inspect(inspect.Options{WhatIf: []inspect.Question{question(t, c.text)}})
			w := s.WhatIf[0]
			built := steady(t, n, c.o)
			if c.o.FilterMemory > 0 {
				// Filters are loaded in the background, once those of compacted tables have been dropped.
				testkit.Soon(t, "all filters are loaded", func() bool {
					return !slices.ContainsFunc(built.db.Tables(), func(t bloomkv.TableMetrics) bool {
						return t.FilterUnits == 0 || t.FilterUnits < t.FilterUnitsInFile
					})
				})
			}
			counted := built.wasted(n)
			m := built.db.Metrics() // all filters are loaded now
			t.Logf("%d bytes, built %d; wastes %.3g, built predicts %.3g, counted %.3g", w.Bytes, m.Memory.Filters,
				w.Wasted, built.inspect(inspect.Options{}).Tree.Predicted, counted)
			if got, want := float64(w.Bytes), float64(m.Memory.Filters); math.Abs(got-want) > 0.02*want {
				t.Errorf("%g bytes of filters, a store that is built so has %g", got, want)
			}
			if off := 0.1*w.Wasted + 5*math.Sqrt(w.Wasted/n); math.Abs(w.Wasted-counted) > off {
				t.Errorf("wastes %g reads a lookup, a store that is built so %g", w.Wasted, counted)
			}
			if c.fpr > 0 {
				if b := built.inspect(inspect.Options{}).Tree.Predicted; math.Abs(w.Wasted-b) > 0.1*b {
					t.Errorf("wastes %g reads a lookup, a store that is built so predicts %g", w.Wasted, b)
				}
			}
			// With memory, a step of the rates may lie between them.
			if math.Abs(math.Log2(w.FPR/m.FPRPromised)) > 0.26 || w.FPR < w.Wasted || w.AtRest > w.FPR {
				t.Errorf("promises %g, and %g at rest; a store that is built so promises %g", w.FPR, w.AtRest,
					m.FPRPromised)
			}
			if more := int64(w.Bytes) - int64(s.Tree.FilterBytes); w.More != more || w.Asked != c.text ||
				int64(w.Memory) != c.o.FilterMemory {
				t.Errorf("%+v, want %d bytes more than now", w, more)
			}
			var bytes uint64
			var wasted float64
			for i, l := range w.Levels {
				bytes += l.Bytes
				wasted += l.Wasted
				if l.Level != s.Levels[i].Level || l.Keys != s.Levels[i].Keys {
					t.Errorf("%+v, the level has %+v", l, s.Levels[i])
				}
			}
			if bytes != w.Bytes || math.Abs(wasted-w.Wasted) > 1e-12 {
				t.Errorf("the levels add up to %d bytes and %g, all to %d and %g", bytes, wasted, w.Bytes, w.Wasted)
			}
		})
	}
}

func TestQuestionsThatMakeNoSenseAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "want fpr=RATE",
		"fpr":                             `fpr="", want more than 0, at most 1`,
		"fpr=0":                           "want more than 0",
		"fpr=NaN":                         "want more than 0",
		"fpr=1.5":                         "at most 1",
		"fpr=0.1,":                        "want fpr=RATE",
		"fpr=0.1,fpr=0.2":                 `"fpr" is given twice`,
		"memory=0":                        `memory="0", want 0.0625 to 1048576 MiB`,
		"memory=Inf":                      "want 0.0625 to",
		"memory=64MB":                     "want 0.0625 to",
		"memory=64,fpr=0.1":               "fpr and memory are given, want one of them",
		"kind=cuckoo":                     `kind="cuckoo", want auto, bloom or ribbon`,
		"kind":                            "want auto, bloom or ribbon",
		"speed=1":                         `"speed=1", want fpr=RATE`,
		"fpr=" + strings.Repeat("9", 999): "want more than 0",
	} {
		if _, err := inspect.ParseWhatIf(text); err == nil || !strings.Contains(err.Error(), want) ||
			len(err.Error()) > 160 {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
	g := steady(t, 5000, bloomkv.Options{})
	const want = "--what-if fpr=1e-30: option FilterFPR: 1e-30 is out of reach"
	if _, err := inspect.ReadStore(t.Context(), g.dir,
		inspect.Options{WhatIf: []inspect.Question{question(t, "fpr=1e-30")}}); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestAPromiseIsNeverBelowItsPrediction asks for less memory than the filters of level 0 take. The promise at rest is
// that of the plan for as many keys.
func TestAPromiseIsNeverBelowItsPrediction(t *testing.T) {
	for _, kind := range []bloomkv.FilterKind{bloomkv.FilterBloom, bloomkv.FilterRibbon} {
		for _, o := range []bloomkv.Options{{FilterKind: kind}, {FilterKind: kind, FilterMemory: 200_000}} {
			g := grow(t, 60_000, o)
			var asked []inspect.Question
			for _, text := range []string{
				"kind=bloom", "kind=ribbon", "fpr=0.2", "fpr=1", "memory=0.0625", "kind=bloom,memory=0.0625",
				"kind=ribbon,memory=0.1", "memory=1",
			} {
				asked = append(asked, question(t, text))
			}
			s := g.inspect(inspect.Options{WhatIf: asked})
			for _, w := range s.WhatIf {
				rounded := uint64(len(w.Levels)) // the bytes of each level are
				if w.FPR < w.Wasted || w.Memory > 0 && w.Bytes > w.Memory+rounded {
					t.Errorf("%v: %+v: want a promise of at least what is wasted, and filters that fit", o, w)
				}
				kind, _ := filterplan.ParseKind(w.Kind)
				rest, _, err := forecast.AtRest(filterplan.Options{
					Memory: int64(w.Memory), Kind: kind, Ratio: s.Plan.Ratio,
				}, s.Tree.Keys, 0)
				if w.Memory > 0 && (err != nil || w.AtRest != rest) {
					t.Errorf("%s: %g is promised at rest, by the plan %g, %v", w.Asked, w.AtRest, rest, err)
				}
			}
		}
	}
}

func FuzzWhatIf(f *testing.F) {
	for _, text := range []string{
		"", "fpr=0.001", "kind=ribbon", "kind=bloom,memory=64", "memory=1e9", "fpr=0x1p-3",
		"fpr=1e-400", "fpr=0.1,memory=1", "kind=,=,", "memory=-0",
	} {
		f.Add(text)
	}
	dir := f.TempDir()
	db, err := bloomkv.Open(dir, nil)
	if err == nil {
		err = errors.Join(db.Put([]byte("k"), nil), db.Close())
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := inspect.ParseWhatIf(text)
		if err != nil {
			return
		}
		s, err := inspect.ReadStore(t.Context(), dir, inspect.Options{WhatIf: []inspect.Question{q}})
		if err != nil {
			if !errors.Is(err, bloomkv.ErrFilterRate) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if w := s.WhatIf[0]; !(w.FPR > 0 && w.FPR <= 1 && w.Wasted >= 0 && w.Wasted <= 1) || w.Memory > 0 &&
			w.Bytes > w.Memory {
			t.Errorf("%q: %+v", text, w)
		}
	})
}
