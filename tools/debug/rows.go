package debug

import (
	"math"

	"github.com/bloomkv/bloomkv/tools/picture"
)

// A row is a figure of the live section.
type row struct {
	name   string
	tile   string // its name on a tile; "" if it has none
	kind   string // number, bytesKind or percent
	value  float64
	minute float64 // of the last minute; NaN if there is none
}

// promiseRow is the index of the row whose line is drawn next to the promise.
const promiseRow = 0

// appendRows appends the figures of a sample.
func appendRows(all []row, s *Sample) []row {
	now, minute, m, none := &s.Now, &s.LastMinute, &s.Memory, math.NaN()
	return append(all,
		row{"wasted reads per absent key, measured", "wasted reads", number, now.FPRMeasured, minute.FPRMeasured},
		row{"promised", "", number, s.FPRPromised, none},
		row{"reads outside of memory per absent key, promised", "", number, s.Reads, none},
		row{"asked", "", number, s.FPRAsked, none},
		row{"predicted", "", number, s.FPRPredicted, none},
		row{"lookups per second", "lookups / s", number, now.LookupsPerSecond, minute.LookupsPerSecond},
		row{
			"tables excluded by filters, per lookup", "excluded / lookup", number, now.NegativesPerLookup,
			minute.NegativesPerLookup,
		},
		row{"tables searched, per lookup", "", number, now.TablesPerLookup, minute.TablesPerLookup},
		row{"blocks not in the cache, per lookup", "", number, now.BlocksPerLookup, minute.BlocksPerLookup},
		row{"cache hits", "cache hits", percent, now.CacheHitRate, minute.CacheHitRate},
		row{"writes per second", "writes / s", number, now.WritesPerSecond, minute.WritesPerSecond},
		row{"flushed per second", "", bytesKind, now.FlushedPerSecond, minute.FlushedPerSecond},
		row{"compacted per second", "compacted / s", bytesKind, now.CompactedPerSecond, minute.CompactedPerSecond},
		row{"seconds that writes waited, per second", "", number, now.StalledPerSecond, minute.StalledPerSecond},
		row{"backlog of compaction", "", bytesKind, float64(s.Backlog.Bytes), none},
		row{"memory: budget that all filters need", "", bytesKind, float64(s.BudgetNeeded), none},
		row{"memory: budget", "", bytesKind, float64(m.Budget), none},
		row{"memory: memtables", "", bytesKind, float64(m.Memtables), none},
		row{"memory: filters", "", bytesKind, float64(m.Filters), none},
		row{"memory: indexes", "", bytesKind, float64(m.Indexes), none},
		row{"memory: range deletes", "", bytesKind, float64(m.RangeDeletes), none},
		row{"memory: tables", "", bytesKind, float64(m.Tables), none},
		row{"memory: cache", "", bytesKind, float64(m.Cache), none},
		row{"files mapped, beside the budget", "", bytesKind, float64(m.Mapped), none},
	)
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
