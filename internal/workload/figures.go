package workload

import (
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Figures is what a phase measured. An operation is one put, also within a batch, one lookup, one seek with what it reads,
// or one entry of a scan. A call is what was asked of the store at once: a batch is one.
//
// With several workers a time per operation is what the phase took divided by all that was done in it: two workers at 100 ns
// each give 50.
type Figures struct {
	Phase   string        `json:"phase"`
	Ops     int           `json:"ops"`
	Elapsed time.Duration `json:"elapsed_ns"` // by the clock of the workers, without preparing reads and checking answers

	// MeanNs is all of Elapsed, stalls included: the figure for loads. MedianNs is the median over chunks of some hundred
	// operations: the figure for reads, which a disturbance from outside does not move.
	MeanNs   float64 `json:"mean_ns"`
	MedianNs float64 `json:"median_ns"`

	// PutNs is the part of MedianNs that PutSeek spends in Put.
	PutNs float64 `json:"put_ns,omitempty"`

	// Of calls that were timed one by one, an eighth of all, to 3 %.
	P50Ns     float64  `json:"p50_ns"`
	P99Ns     float64  `json:"p99_ns"`
	P999Ns    float64  `json:"p999_ns"`
	MaxNs     float64  `json:"max_ns"`
	Latencies []Bucket `json:"latencies,omitempty"` // all of them, the shortest first

	// What all of the process has allocated on the heap meanwhile, the store's background work included. The phase reserves its
	// own memory before it begins: it adds less than a hundred allocations, and 0.005 an operation.
	AllocsPerOp float64 `json:"allocs_per_op"`
	BytesPerOp  float64 `json:"bytes_per_op"`

	// Wrong counts the answers that were not what the set says, and FirstWrong describes one.
	Wrong      int    `json:"wrong"`
	FirstWrong string `json:"first_wrong,omitempty"`
}

// A Bucket is how many calls took about so long, to 3 %.
type Bucket struct {
	Ns    float64 `json:"ns"`
	Count uint64  `json:"count"`
}

// Benchmark is a line as Go's benchmarks print it, for benchstat.
func (f Figures) Benchmark(name string) string {
	name = strings.Join(strings.Fields(name), "-")
	return fmt.Sprintf("Benchmark%s %d %.1f ns/op %.1f mean-ns/op %.0f p50-ns %.0f p99-ns", name, f.Ops, f.MedianNs, f.MeanNs, f.P50Ns, f.P99Ns)
}

// Median is the value in the middle, or the mean of the two there; of none it is 0. The order of values stays as it is.
func Median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// histogram counts times in buckets that are 1/32 of their value wide.
type histogram struct {
	buckets [(64 - 4) * 32]uint64
	count   uint64
	largest uint64
}

// add counts one time in nanoseconds.
func (h *histogram) add(ns uint64) {
	h.buckets[bucket(ns)]++
	h.count++
	h.largest = max(h.largest, ns)
}

// bucket is the value itself below 32, else the place of its top bit and the five bits after it.
func bucket(ns uint64) int {
	if ns < 32 {
		return int(ns)
	}
	top := bits.Len64(ns) - 1
	return (top-4)*32 + int(ns>>(top-5)&31)
}

// middle is the value in the middle of a bucket.
func middle(bucket int) float64 {
	if bucket < 32 {
		return float64(bucket)
	}
	width := float64(uint64(1) << (bucket/32 - 1))
	return (float64(32+bucket%32) + 0.5) * width
}

// nonEmpty is the buckets that hold something, the shortest time first.
func (h *histogram) nonEmpty() []Bucket {
	var all []Bucket
	for i, n := range h.buckets {
		if n > 0 {
			all = append(all, Bucket{min(middle(i), float64(h.largest)), n})
		}
	}
	return all
}

// merge adds the counts of other.
func (h *histogram) merge(other *histogram) {
	for i, n := range other.buckets {
		h.buckets[i] += n
	}
	h.count += other.count
	h.largest = max(h.largest, other.largest)
}

// quantile is the time that a share q of all do not exceed, 0 < q ≤ 1; of none it is 0.
func (h *histogram) quantile(q float64) float64 {
	left := q * float64(h.count)
	for i, n := range h.buckets {
		if n == 0 {
			continue
		}
		left -= float64(n)
		if left <= 0 {
			return min(middle(i), float64(h.largest))
		}
	}
	return float64(h.largest)
}

// allocations are objects and bytes on the heap of the process, since it began.
type allocations struct{ objects, bytes uint64 }

// countAllocations stops the world for an instant.
func countAllocations() allocations {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return allocations{m.Mallocs, m.TotalAlloc}
}
