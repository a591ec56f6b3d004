package debug

import "github.com/bloomkv/bloomkv/tools/picture"

// A row is a figure of the live section. The script finds it in a sample by its path, and formats it in the same way.
type row struct {
	Path   string // in the JSON of a Sample
	Minute string // path of the figure of the last minute; "" if it has none
	Name   string
	Kind   string // "number", "bytes" or "percent"
	Drawn  bool   // with a line over time, of Minute if it has one
	value  func(s *Sample) float64
	minute func(s *Sample) float64
}

// ofRates returns a row of a figure of Rates.
func ofRates(name, path, kind string, value func(r *Rates) float64) row {
	return row{
		Path: "now." + path, Minute: "last_minute." + path, Name: name, Kind: kind, Drawn: true,
		value:  func(s *Sample) float64 { return value(&s.Now) },
		minute: func(s *Sample) float64 { return value(&s.LastMinute) },
	}
}

// ofState returns a row of a figure of the state.
func ofState(name, path, kind string, drawn bool, value func(s *Sample) float64) row {
	return row{Path: path, Name: name, Kind: kind, Drawn: drawn, value: value}
}

// promiseRow is the index of the row whose line is drawn next to the promise.
const promiseRow = 0

var rows = []row{
	ofRates("wasted reads per absent key, measured", "fpr_measured", number,
		func(r *Rates) float64 { return r.FPRMeasured }),
	ofState("promised", "fpr_promised", number, false, func(s *Sample) float64 { return s.FPRPromised }),
	ofState("reads outside of memory per absent key, promised", "reads_promised", number, false,
		func(s *Sample) float64 { return s.Reads }),
	ofState("asked", "fpr_asked", number, false, func(s *Sample) float64 { return s.FPRAsked }),
	ofState("predicted", "fpr_predicted", number, false, func(s *Sample) float64 { return s.FPRPredicted }),
	ofRates("lookups per second", "lookups_per_second", number,
		func(r *Rates) float64 { return r.LookupsPerSecond }),
	ofRates("tables excluded by filters, per lookup", "negatives_per_lookup", number,
		func(r *Rates) float64 { return r.NegativesPerLookup }),
	ofRates("tables searched, per lookup", "tables_per_lookup", number,
		func(r *Rates) float64 { return r.TablesPerLookup }),
	ofRates("blocks not in the cache, per lookup", "blocks_per_lookup", number,
		func(r *Rates) float64 { return r.BlocksPerLookup }),
	ofRates("cache hits", "cache_hit_rate", percent, func(r *Rates) float64 { return r.CacheHitRate }),
	ofRates("writes per second", "writes_per_second", number, func(r *Rates) float64 { return r.WritesPerSecond }),
	ofRates("flushed per second", "flushed_per_second", bytesKind,
		func(r *Rates) float64 { return r.FlushedPerSecond }),
	ofRates("compacted per second", "compacted_per_second", bytesKind,
		func(r *Rates) float64 { return r.CompactedPerSecond }),
	ofRates("seconds that writes waited, per second", "stalled_per_second", number,
		func(r *Rates) float64 { return r.StalledPerSecond }),
	ofState("backlog of compaction", "backlog.bytes", bytesKind, true,
		func(s *Sample) float64 { return float64(s.Backlog.Bytes) }),
	ofState("memory: budget that all filters need", "budget_needed", bytesKind, false,
		func(s *Sample) float64 { return float64(s.BudgetNeeded) }),
	ofState("memory: budget", "memory.budget", bytesKind, false,
		func(s *Sample) float64 { return float64(s.Memory.Budget) }),
	ofState("memory: memtables", "memory.memtables", bytesKind, true,
		func(s *Sample) float64 { return float64(s.Memory.Memtables) }),
	ofState("memory: filters", "memory.filters", bytesKind, true,
		func(s *Sample) float64 { return float64(s.Memory.Filters) }),
	ofState("memory: indexes", "memory.indexes", bytesKind, true,
		func(s *Sample) float64 { return float64(s.Memory.Indexes) }),
	ofState("memory: range deletes", "memory.range_deletes", bytesKind, true,
		func(s *Sample) float64 { return float64(s.Memory.RangeDeletes) }),
	ofState("memory: tables", "memory.tables", bytesKind, true,
		func(s *Sample) float64 { return float64(s.Memory.Tables) }),
	ofState("memory: cache", "memory.cache", bytesKind, true,
		func(s *Sample) float64 { return float64(s.Memory.Cache) }),
	ofState("files mapped, beside the budget", "memory.mapped", bytesKind, true,
		func(s *Sample) float64 { return float64(s.Memory.Mapped) }),
}

// Kinds of figures.
const (
	number    = "number"
	bytesKind = "bytes"
	percent   = "percent"
)

// format formats a figure as the script does.
func format(kind string, v float64) string {
	switch kind {
	case bytesKind:
		return picture.Bytes(v)
	case percent:
		return picture.Number(100*v) + " %"
	default:
		return picture.Number(v)
	}
}
