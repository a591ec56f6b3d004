package debug

import (
	"math"

	"github.com/bloomkv/bloomkv/tools/picture"
)

// A row is a figure of the live section.
type row struct {
	name   string
	tile   string // its name on a tile; "" if it has none
	format func(value float64) string
	value  float64
	minute float64 // of the last minute; NaN if there is none
}

// promiseRow is the index of the row whose line is drawn next to the promise.
const promiseRow = 0

// appendRows appends the figures of a sample.
func appendRows(all []row, s *Sample) []row {
	number, bytes := picture.Number, picture.Bytes
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
		row{"flushed per second", "", bytes, now.FlushedPerSecond, minute.FlushedPerSecond},
		row{"compacted per second", "compacted / s", bytes, now.CompactedPerSecond, minute.CompactedPerSecond},
		row{"seconds that writes waited, per second", "", number, now.StalledPerSecond, minute.StalledPerSecond},
		row{"backlog of compaction", "", bytes, float64(s.Backlog.Bytes), none},
		row{"memory: budget that all filters need", "", bytes, float64(s.BudgetNeeded), none},
		row{"memory: budget", "", bytes, float64(m.Budget), none},
		row{"memory: memtables", "", bytes, float64(m.Memtables), none},
		row{"memory: filters", "", bytes, float64(m.Filters), none},
		row{"memory: indexes", "", bytes, float64(m.Indexes), none},
		row{"memory: range deletes", "", bytes, float64(m.RangeDeletes), none},
		row{"memory: tables", "", bytes, float64(m.Tables), none},
		row{"memory: cache", "", bytes, float64(m.Cache), none},
		row{"files mapped, beside the budget", "", bytes, float64(m.Mapped), none},
	)
}

func percent(v float64) string { return picture.Number(100*v) + " %" }
