package debug

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
)

func TestRatesAreMeansOfTheirTime(t *testing.T) {
	d := bloomkv.Metrics{Uptime: 2 * time.Second}
	d.Lookups = bloomkv.LookupMetrics{
		Gets: 100, MemtableHits: 10, TableHits: 10, FilterNegatives: 300, TableSearches: 30, AbsentWasted: 20,
		BlocksRead: 5,
	}
	d.Cache.Hits, d.Cache.Misses = 15, 5
	d.Writes = bloomkv.WriteMetrics{Operations: 50, FlushBytes: 1000, CompactedBytes: 4000}
	d.Writes.StoppedByMemtable.Duration = time.Second
	want := Rates{
		Span: 2 * time.Second, LookupsPerSecond: 50, WritesPerSecond: 25, FPRMeasured: 0.25, AbsentLookups: 80,
		NegativesPerLookup: 3, TablesPerLookup: 0.3, BlocksPerLookup: 0.05, CacheHitRate: 0.75, FlushedPerSecond: 500,
		CompactedPerSecond: 2000, StalledPerSecond: 0.5,
	}
	if got := ratesOf(&d); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	var none bloomkv.Metrics
	if got := ratesOf(&none); got != (Rates{}) {
		t.Errorf("got %+v of no time, want zeros", got)
	}
}

func TestASampleDiffersByMoreThanItsTime(t *testing.T) {
	s := Sample{Time: time.Unix(1, 0), Now: Rates{Span: 1}, LastMinute: Rates{Span: 2}, Settled: true}
	later := Sample{Time: time.Unix(2, 0), Now: Rates{Span: 3}, LastMinute: Rates{Span: 4}, Settled: true}
	if later.differs(s) {
		t.Error("a sample of an idle store differs from the one before")
	}
	later.Writes.Flushes = 1
	if !later.differs(s) {
		t.Error("a sample with a flush does not differ from the one before")
	}
}

// names are those that programs read. Names may be added, but never removed.
const names = `
error files last_minute metrics open samples tables time
backlog budget_needed cache fpr_asked fpr_predicted fpr_promised last_minute lookups memory now
reads_promised settled time warm work writes
absent_lookups blocks_per_lookup cache_hit_rate compacted_per_second flushed_per_second fpr_measured lookups_per_second
negatives_per_lookup span_ns stalled_per_second tables_per_lookup writes_per_second
`

func TestTheReportKeepsItsNamesInJSON(t *testing.T) {
	want := make(map[string]int)
	for name := range strings.FieldsSeq(names) {
		want[name]++
	}
	got := make(map[string]int)
	for _, of := range []reflect.Type{reflect.TypeFor[report](), reflect.TypeFor[Sample](), reflect.TypeFor[Rates]()} {
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			got[name]++
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

func TestTheScriptIsSmall(t *testing.T) {
	if len(liveScript) >= 6000 {
		t.Errorf("the script has %d bytes, want less than 6,000", len(liveScript))
	}
}

func TestTooLittleMemoryIsSaid(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		promised, reads float64
		needed, budget  int64
		want            string
	}{
		{0.01, 0.02, 80 * mib, 64 * mib, ""},  // smaller filters keep it as well
		{0.02, 0.04, 40 * mib, 64 * mib, ""},  // by tables with other filters
		{0.01, 0.013, 80 * mib, 64 * mib, ""}, // as asked, with most of the indexes in memory
		{
			0.01, 0.5, 1280 * mib, 64 * mib,
			"Memory is too short for the filters that 0.01 wasted reads per absent key take: up to 0.01 are " +
				"promised, and 0.5 reads outside of memory in all. All filters need a MemoryBudget of 1,280 MiB.",
		},
		{
			0.0255, 0.051, 80 * mib, 64 * mib,
			"Memory is too short for the filters that 0.01 wasted reads per absent key take: up to 0.0255 are " +
				"promised, and 0.051 reads outside of memory in all. All filters need a MemoryBudget of 80 MiB.",
		},
	} {
		s := Sample{
			FPRAsked: 0.01, FPRPromised: c.promised, Reads: c.reads, BudgetNeeded: c.needed,
			Memory: bloomkv.MemoryMetrics{Budget: c.budget},
		}
		if got := shortage(&s); got != c.want {
			t.Errorf("%+v: %q, want %q", c, got, c.want)
		}
	}
}

func TestOptionsHaveDefaultsAndALeastInterval(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{
		0:                      time.Second,
		time.Millisecond:       100 * time.Millisecond,
		-time.Second:           100 * time.Millisecond,
		200 * time.Millisecond: 200 * time.Millisecond,
	} {
		o := Options{Interval: given}.withDefaults("/data/store")
		if o.Interval != want || o.Reread != 15*time.Second || o.Title != "bloomkv: store" {
			t.Errorf("an interval of %v: %+v, want %v and the defaults", given, o, want)
		}
	}
}
