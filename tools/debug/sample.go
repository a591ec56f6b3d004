package debug

import (
	"reflect"
	"time"

	"github.com/bloomkv/bloomkv"
)

// A Sample is what a store did between two looks at its Metrics, and its state at the second one. Names in JSON do not
// change; times are in nanoseconds and end in _ns.
type Sample struct {
	Time       time.Time `json:"time"`        // UTC
	Now        Rates     `json:"now"`         // since the sample before, or since Open
	LastMinute Rates     `json:"last_minute"` // since the sample of a minute ago, or the oldest one since
	// Lookups, Cache and Writes count what happened in Now.Span; see bloomkv.Metrics.Since.
	Lookups bloomkv.LookupMetrics `json:"lookups"`
	Cache   bloomkv.CacheMetrics  `json:"cache"`
	Writes  bloomkv.WriteMetrics  `json:"writes"`
	// The following are of the second look, as in bloomkv.Metrics.
	FPRAsked     float64                `json:"fpr_asked"`
	FPRPromised  float64                `json:"fpr_promised"`
	FPRPredicted float64                `json:"fpr_predicted"`
	Reads        float64                `json:"reads_promised"`
	BudgetNeeded int64                  `json:"budget_needed"`
	Memory       bloomkv.MemoryMetrics  `json:"memory"`
	Work         bloomkv.WorkMetrics    `json:"work"`
	Backlog      bloomkv.BacklogMetrics `json:"backlog"`
	Settled      bool                   `json:"settled"`
	Warm         bool                   `json:"warm"`
}

// Rates describe the work of a store in a period. Ratios are 0 if nothing was counted.
type Rates struct {
	Span             time.Duration `json:"span_ns"`
	LookupsPerSecond float64       `json:"lookups_per_second"`
	WritesPerSecond  float64       `json:"writes_per_second"` // operations
	// FPRMeasured is the measured value of the promise: wasted reads per lookup of an absent key.
	FPRMeasured   float64 `json:"fpr_measured"`
	AbsentLookups uint64  `json:"absent_lookups"` // that FPRMeasured was measured with
	// Means of a lookup.
	NegativesPerLookup float64 `json:"negatives_per_lookup"` // filters that excluded the key
	TablesPerLookup    float64 `json:"tables_per_lookup"`    // tables searched
	BlocksPerLookup    float64 `json:"blocks_per_lookup"`    // data blocks that were not in the cache
	CacheHitRate       float64 `json:"cache_hit_rate"`       // share of blocks, 0 to 1
	// Bytes written in the background, to tables.
	FlushedPerSecond   float64 `json:"flushed_per_second"`
	CompactedPerSecond float64 `json:"compacted_per_second"`
	// StalledPerSecond is the time that writes waited for background work, in seconds of all writers.
	StalledPerSecond float64 `json:"stalled_per_second"`
}

// sampleOf returns the sample of now. before are the metrics of the last sample, minute those of a minute ago.
func sampleOf(at time.Time, now, before, minute *bloomkv.Metrics) Sample {
	d := now.Since(*before)
	return Sample{
		Time: at.UTC(), Now: ratesOf(&d), LastMinute: ratesOf(new(now.Since(*minute))),
		Lookups: d.Lookups, Cache: d.Cache, Writes: d.Writes,
		FPRAsked: now.FPRAsked, FPRPromised: now.FPRPromised, FPRPredicted: now.FPRPredicted,
		Reads: now.ReadsPromised, BudgetNeeded: now.BudgetNeeded, Memory: now.Memory, Work: now.Work,
		Backlog: now.Backlog, Settled: now.Settled, Warm: now.Warm,
	}
}

// ratesOf returns the rates of a difference of metrics.
func ratesOf(d *bloomkv.Metrics) Rates {
	seconds := max(d.Uptime.Seconds(), 1e-9)
	lookups := max(float64(d.Lookups.Gets), 1)
	w := &d.Writes
	stalled := w.SlowedByLevel0.Duration + w.StoppedByLevel0.Duration + w.SlowedByMemtable.Duration +
		w.StoppedByMemtable.Duration
	return Rates{
		Span: d.Uptime, LookupsPerSecond: float64(d.Lookups.Gets) / seconds,
		WritesPerSecond: float64(w.Operations) / seconds,
		FPRMeasured:     d.Lookups.WastedPerAbsent(), AbsentLookups: d.Lookups.Absent(),
		NegativesPerLookup: float64(d.Lookups.FilterNegatives) / lookups,
		TablesPerLookup:    float64(d.Lookups.TableSearches) / lookups,
		BlocksPerLookup:    float64(d.Lookups.BlocksRead) / lookups,
		CacheHitRate:       d.Cache.HitRate(),
		FlushedPerSecond:   float64(w.FlushBytes) / seconds, CompactedPerSecond: float64(w.CompactedBytes) / seconds,
		StalledPerSecond: stalled.Seconds() / seconds,
	}
}

// differs reports whether a sample shows anything that the one before does not, besides that time has passed.
func (s Sample) differs(before Sample) bool {
	for _, x := range []*Sample{&s, &before} {
		x.Time, x.Now.Span, x.LastMinute.Span = time.Time{}, 0, 0
	}
	return !reflect.DeepEqual(s, before)
}

// stalls returns the number of times that writes waited.
func (s *Sample) stalls() uint64 {
	w := &s.Writes
	return w.SlowedByLevel0.Count + w.StoppedByLevel0.Count + w.SlowedByMemtable.Count + w.StoppedByMemtable.Count
}
