package workload

import (
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Figures are the measurements of a phase. An operation is one put, one lookup, one seek with the entries that it
// reads, or one entry of a scan; a batch contains several. A call is one call of the store; a batch is one call.
//
// With several workers, a time per operation is the time of the phase divided by the operations of all workers: two
// workers at 100 ns each give 50.
type Figures struct {
	Phase   string        `json:"phase"`
	Ops     int           `json:"ops"`
	Elapsed time.Duration `json:"elapsed_ns"` // time in the store, without preparing keys and checking answers

	// MeanNs is Elapsed per operation, stalls included; use it for loads. MedianNs is the median over chunks of a few
	// hundred operations; use it for reads, because other work on the machine hardly changes it.
	MeanNs   float64 `json:"mean_ns"`
	MedianNs float64 `json:"median_ns"`

	// PutNs is the part of MedianNs that PutSeek spends in Put.
	PutNs float64 `json:"put_ns,omitempty"`

	// Times of single calls, measured for one call in eight, with an error of at most 3 %.
	P50Ns     float64  `json:"p50_ns"`
	P99Ns     float64  `json:"p99_ns"`
	P999Ns    float64  `json:"p999_ns"`
	MaxNs     float64  `json:"max_ns"`
	Latencies []Bucket `json:"latencies,omitempty"` // all of them, the shortest first

	// Heap allocations of the whole process during the phase, including the store's background work. The phase
	// allocates its own memory in advance and adds fewer than a hundred allocations, and 0.005 per operation.
	AllocsPerOp float64 `json:"allocs_per_op"`
	BytesPerOp  float64 `json:"bytes_per_op"`

	// Wrong counts the answers that contradict the set, and FirstWrong describes one of them.
	Wrong      int    `json:"wrong"`
	FirstWrong string `json:"first_wrong,omitempty"`
}

// A Bucket counts the calls that took about the same time, within 3 %.
type Bucket struct {
	Ns    float64 `json:"ns"`
	Count uint64  `json:"count"`
}

// Benchmark returns a line in the format of Go's benchmarks, for benchstat.
func (f Figures) Benchmark(name string) string {
	name = strings.Join(strings.Fields(name), "-")
	return fmt.Sprintf("Benchmark%s %d %.1f ns/op %.1f mean-ns/op %.0f p50-ns %.0f p99-ns",
		name, f.Ops, f.MedianNs, f.MeanNs, f.P50Ns, f.P99Ns)
}

// Median returns the median, or 0 for no values. It does not reorder its argument.
func Median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// A Histogram counts times, in nanoseconds, in buckets whose width is 1/32 of their value.
type Histogram struct {
	buckets [(64 - 4) * 32]uint64
	count   uint64
	largest uint64
}

// Add counts one time.
func (h *Histogram) Add(ns uint64) {
	h.buckets[bucket(ns)]++
	h.count++
	h.largest = max(h.largest, ns)
}

// bucket returns the index of a value: below 32 the value itself, above it the position of its top bit and the next
// five bits.
func bucket(ns uint64) int {
	if ns < 32 {
		return int(ns)
	}
	top := bits.Len64(ns) - 1
	return (top-4)*32 + int(ns>>(top-5)&31)
}

// middle returns the value in the middle of a bucket.
func middle(bucket int) float64 {
	if bucket < 32 {
		return float64(bucket)
	}
	width := float64(uint64(1) << (bucket/32 - 1))
	return (float64(32+bucket%32) + 0.5) * width
}

// Count returns the number of times.
func (h *Histogram) Count() uint64 { return h.count }

// Largest returns the largest time, exactly, or 0 if there are no times.
func (h *Histogram) Largest() float64 { return float64(h.largest) }

// nonEmpty returns the buckets that are not empty, the shortest time first.
func (h *Histogram) nonEmpty() []Bucket {
	var all []Bucket
	for i, n := range h.buckets {
		if n > 0 {
			all = append(all, Bucket{min(middle(i), float64(h.largest)), n})
		}
	}
	return all
}

// Merge adds the counts of other.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.buckets {
		h.buckets[i] += n
	}
	h.count += other.count
	h.largest = max(h.largest, other.largest)
}

// Quantile returns a time that a fraction q of all times does not exceed, 0 < q ≤ 1, or 0 if there are no times.
func (h *Histogram) Quantile(q float64) float64 {
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

// allocations are the objects and bytes allocated on the heap since the process started.
type allocations struct{ objects, bytes uint64 }

// countAllocations stops the world briefly.
func countAllocations() allocations {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return allocations{m.Mallocs, m.TotalAlloc}
}
