package inspect_test

import (
	"errors"
	"flag"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

var treeKeys = flag.Int("keys", 40_000,
	"keys of the stores whose trees are looked at; as many absent ones are looked up")

// A grown is a store with several levels, runs over parts of the keys, overwritten keys and ingested ones.
type grown struct {
	*testing.T
	dir  string
	db   *bloomkv.DB
	keys int
}

func treeKey(i int) []byte { return fmt.Appendf(nil, "user/%09d", i) }

// put overwrites or adds keys.
func (g *grown) put(keys iter.Seq[int]) {
	g.Helper()
	var b bloomkv.Batch
	for i := range keys {
		b.Put(treeKey(i), fmt.Appendf(nil, "%064d", i))
		if b.Len() == 1000 {
			if err := g.db.ApplyWith(&b, bloomkv.DurabilityNoSync); err != nil {
				g.Fatal(err)
			}
			b.Reset()
		}
	}
	if err := errors.Join(g.db.ApplyWith(&b, bloomkv.DurabilityNoSync), g.db.Flush(g.Context())); err != nil {
		g.Fatal(err)
	}
}

func (g *grown) settle() {
	g.Helper()
	done := func(m bloomkv.Metrics) bool { return m.Settled && m.Files.Obsolete == 0 }
	testkit.Soon(g, "settled", func() bool { return done(g.db.Metrics()) })
}

// between returns n random numbers in [lo, hi).
func between(rng *rand.Rand, n, lo, hi int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for range n {
			if !yield(lo + rng.IntN(hi-lo)) {
				return
			}
		}
	}
}

// grow creates a store of the keys from 0 to n, and ingests the last twentieth of them.
func grow(t *testing.T, n int, o bloomkv.Options) *grown {
	t.Helper()
	g := &grown{T: t, dir: t.TempDir(), keys: n}
	size := 4 * int64(n)
	o.MemoryBudget, o.MemtableSize, o.TableSize, o.BaseLevelSize, o.LevelRatio = 512<<20, size, size, 2*size, 4
	o.Compression, o.FilterSeed = bloomkv.CompressionNone, 1
	var err error
	if g.db, err = bloomkv.Open(g.dir, &o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.db.Close() })
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	old := n * 19 / 20
	order := rng.Perm(old)
	g.put(func(yield func(int) bool) {
		for _, i := range order {
			if !yield(i) {
				return
			}
		}
	})
	g.put(between(rng, n/4, 0, n/3)) // the first third is written more than once
	g.settle()
	err = g.db.Ingest(t.Context(), func(yield func(bloomkv.KV, error) bool) {
		for i := old; i < n && yield(bloomkv.KV{Key: treeKey(i), Value: []byte("ingested")}, nil); i++ {
		}
	}, bloomkv.IngestOptions{})
	must(t, err)
	g.settle()
	g.put(between(rng, n/100, n/2, n*6/10)) // a tenth of the keys, in the middle
	for runs := 0; runs < 4; {              // a compaction may have left two
		g.put(between(rng, n/200, 0, n))
		g.settle()
		runs = 0
		for _, l := range g.db.Metrics().Levels {
			runs += l.Runs
		}
	}
	return g
}

// wasted looks up absent keys that are distributed like the present ones, each once, and returns the wasted reads per
// lookup.
func (g *grown) wasted(lookups int) float64 {
	g.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	before := g.db.Metrics().Lookups
	for _, i := range rng.Perm(g.keys)[:lookups] {
		if _, err := g.db.Get(append(treeKey(i), '/')); !errors.Is(err, bloomkv.ErrNotFound) {
			g.Fatal(err)
		}
	}
	return float64(g.db.Metrics().Lookups.WastedReads-before.WastedReads) / float64(lookups)
}

func (g *grown) inspect(o inspect.Options) *inspect.Store {
	g.Helper()
	s, err := inspect.ReadStore(g.Context(), g.dir, o)
	if err = errors.Join(err); err != nil {
		g.Fatal(err)
	}
	if err := s.Wrong(); err != nil {
		g.Fatal(err)
	}
	return s
}

// TestPredictedWasteIsWhatLookupsCount compares predicted wasted reads with those that the running store counts,
// within 5 % and five standard deviations, and memory by part with the metrics of the store.
func TestPredictedWasteIsWhatLookupsCount(t *testing.T) {
	for _, kind := range []bloomkv.FilterKind{bloomkv.FilterBloom, bloomkv.FilterRibbon} {
		for _, fpr := range []float64{0.2, 0.01} {
			name := map[bloomkv.FilterKind]string{bloomkv.FilterBloom: "bloom", bloomkv.FilterRibbon: "ribbon"}[kind]
			t.Run(fmt.Sprintf("%s/%g", name, fpr), func(t *testing.T) {
				if testing.Short() && (kind == bloomkv.FilterRibbon) != (fpr == 0.01) {
					t.Skip("each kind and each rate once is enough")
				}
				g := grow(t, *treeKeys, bloomkv.Options{FilterFPR: fpr, FilterKind: kind})
				s := g.inspect(inspect.Options{})
				if s.Plan == nil || s.Plan.FPR != fpr || s.Plan.Kind != name || s.Plan.Ratio != 4 ||
					s.Plan.TablesOffPlan != 0 {
					t.Errorf("plan %+v, want %s filters of %g", s.Plan, name, fpr)
				}
				if s.Tree.Runs < 3 {
					t.Errorf("%d runs on %d levels: too few to show anything", s.Tree.Runs, len(s.Levels))
				}
				got := g.wasted(*treeKeys)
				want := s.Tree.Predicted
				off := 0.05*want + 5*math.Sqrt(want/float64(*treeKeys))
				t.Logf("%d tables: counted %.3g, predicted %.3g (%.3f of it), optimum %.3g, evenly %.3g, promised %g",
					s.Tree.Tables, got, want, got/want, s.Tree.Optimum, s.Tree.Even, fpr)
				if math.Abs(got-want) > off {
					t.Errorf("counted %g wasted reads a lookup, predicted %g, want a difference of %g at most", got,
						want, off)
				}
				if s.Tree.Optimum > want || s.Tree.Even < s.Tree.Optimum || s.Tree.Promised != fpr {
					t.Errorf("%+v: want optimum ≤ predicted, and ≤ even", s.Tree)
				}
				m := g.db.Metrics()
				if have, is := s.Memory, m.Memory; int64(have.Filters) != is.Filters ||
					int64(have.Indexes) != is.Indexes || have.RangeDeletes != uint64(is.RangeDeletes) ||
					have.Tables != uint64(is.Tables) {
					t.Errorf("memory %+v, the store has %+v", have, is)
				}
				if have := s.Memory; have.Sum != have.Filters+have.PrefixFilters+have.Indexes+have.RangeDeletes+
					have.Tables ||
					have.FiltersOnDisk+have.Filters+uint64(bloomblock.HeaderSize*s.Tree.Tables) != s.Tree.FilterDisk {
					t.Errorf("memory %+v, want with headers %d of filters on disk", have, s.Tree.FilterDisk)
				}
				for _, l := range s.Levels {
					if of := m.Levels[l.Level]; l.Runs != of.Runs || l.Tables != of.Tables || l.Bytes != of.Bytes ||
						l.Entries != of.Entries ||
						l.FilterDisk != of.FilterBytes || int64(l.FilterBytes) != of.FilterBytesInMemory ||
						math.Abs(l.Promised/of.FPRPromised-float64(l.Runs)) > 1e-9 { // it adds, and so rounds
						t.Errorf("level %+v, the store has %+v", l, of)
					}
				}
			})
		}
	}
}
