package debug

import "github.com/bloomkv/bloomkv/tools/picture"

// A row is a figure of the live section.
type row struct {
	name   string
	tile   string // its name on a tile; "" if it has none
	kind   string // number, bytesKind or percent
	value  func(s *Sample) float64
	minute func(s *Sample) float64 // of the last minute; nil if there is none
}

// ofRates returns a row of a figure of Rates.
func ofRates(name, tile, kind string, value func(r *Rates) float64) row {
	return row{
		name, tile, kind, func(s *Sample) float64 { return value(&s.Now) },
		func(s *Sample) float64 { return value(&s.LastMinute) },
	}
}

// ofState returns a row of a figure of the state.
func ofState(name, kind string, value func(s *Sample) float64) row {
	return row{name, "", kind, value, nil}
}

// promiseRow is the index of the row whose line is drawn next to the promise.
const promiseRow = 0

var rows = []row{
	ofRates("wasted reads per absent key, measured", "wasted reads", number,
		func(r *Rates) float64 { return r.FPRMeasured }),
	ofState("promised", number, func(s *Sample) float64 { return s.FPRPromised }),
	ofState("reads outside of memory per absent key, promised", number,
		func(s *Sample) float64 { return s.Reads }),
	ofState("asked", number, func(s *Sample) float64 { return s.FPRAsked }),
	ofState("predicted", number, func(s *Sample) float64 { return s.FPRPredicted }),
	ofRates("lookups per second", "lookups / s", number,
		func(r *Rates) float64 { return r.LookupsPerSecond }),
	ofRates("tables excluded by filters, per lookup", "excluded / lookup", number,
		func(r *Rates) float64 { return r.NegativesPerLookup }),
	ofRates("tables searched, per lookup", "", number,
		func(r *Rates) float64 { return r.TablesPerLookup }),
	ofRates("blocks not in the cache, per lookup", "", number,
		func(r *Rates) float64 { return r.BlocksPerLookup }),
	ofRates("cache hits", "cache hits", percent, func(r *Rates) float64 { return r.CacheHitRate }),
	ofRates("writes per second", "writes / s", number, func(r *Rates) float64 { return r.WritesPerSecond }),
	ofRates("flushed per second", "", bytesKind,
		func(r *Rates) float64 { return r.FlushedPerSecond }),
	ofRates("compacted per second", "compacted / s", bytesKind,
		func(r *Rates) float64 { return r.CompactedPerSecond }),
	ofRates("seconds that writes waited, per second", "", number,
		func(r *Rates) float64 { return r.StalledPerSecond }),
	ofState("backlog of compaction", bytesKind,
		func(s *Sample) float64 { return float64(s.Backlog.Bytes) }),
	ofState("memory: budget that all filters need", bytesKind,
		func(s *Sample) float64 { return float64(s.BudgetNeeded) }),
	ofState("memory: budget", bytesKind,
		func(s *Sample) float64 { return float64(s.Memory.Budget) }),
	ofState("memory: memtables", bytesKind,
		func(s *Sample) float64 { return float64(s.Memory.Memtables) }),
	ofState("memory: filters", bytesKind,
		func(s *Sample) float64 { return float64(s.Memory.Filters) }),
	ofState("memory: indexes", bytesKind,
		func(s *Sample) float64 { return float64(s.Memory.Indexes) }),
	ofState("memory: range deletes", bytesKind,
		func(s *Sample) float64 { return float64(s.Memory.RangeDeletes) }),
	ofState("memory: tables", bytesKind,
		func(s *Sample) float64 { return float64(s.Memory.Tables) }),
	ofState("memory: cache", bytesKind,
		func(s *Sample) float64 { return float64(s.Memory.Cache) }),
	ofState("files mapped, beside the budget", bytesKind,
		func(s *Sample) float64 { return float64(s.Memory.Mapped) }),
}

// Kinds of figures.
const (
	number    = "number"
	bytesKind = "bytes"
	percent   = "percent"
)

// format formats a figure.
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
