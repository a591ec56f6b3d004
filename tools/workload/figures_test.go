package workload

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestQuantilesAreWithinThreePercent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var a, b Histogram
	var all []uint64
	for i := range 20_000 {
		ns := uint64(math.Exp(r.Float64() * 20))
		all = append(all, ns)
		if i%2 == 0 {
			a.Add(ns)
		} else {
			b.Add(ns)
		}
	}
	a.Merge(&b)
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.5, 0.99, 0.999, 1} {
		want := float64(all[int(math.Ceil(q*float64(len(all))))-1])
		if got := a.Quantile(q); math.Abs(got-want) > 0.03*want+1 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := new(Histogram).Quantile(0.5); got != 0 {
		t.Errorf("of no times the median is %v, want 0", got)
	}
}

func TestBucketsHoldEveryTime(t *testing.T) {
	for _, ns := range []uint64{0, 1, 31, 32, 33, 63, 64, 65, 1 << 20, 1<<20 + 12345, 1 << 63, math.MaxUint64} {
		var h Histogram
		h.Add(ns)
		if got := middle(bucket(ns)); math.Abs(got-float64(ns)) > float64(ns)/32 {
			t.Errorf("%d is counted as %v", ns, got)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{7}, 7}, {[]float64{9, 1}, 5}, {[]float64{30, 10, 20}, 20}, {[]float64{4, 1, 3, 2}, 2.5}} {
		given := slices.Clone(c.values)
		if got := Median(given); got != c.want || !slices.Equal(given, c.values) {
			t.Errorf("Median(%v) = %v, want %v, and left %v", c.values, got, c.want, given)
		}
	}
}

func TestABenchmarkLineIsOne(t *testing.T) {
	f := Figures{Ops: 1000, MeanNs: 50.25, MedianNs: 44, P50Ns: 41, P99Ns: 120}
	want := "BenchmarkAbsent/keys=1M 1000 44.0 ns/op 50.2 mean-ns/op 41 p50-ns 120 p99-ns"
	if got := f.Benchmark("Absent/keys=1M"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
