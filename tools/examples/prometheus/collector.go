package main

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bloomkv/bloomkv"
)

// A collector converts the metrics of a store for Prometheus each time they are collected. Figures that only rise are
// counters.
type collector struct{ db *bloomkv.DB }

// Describe sends nothing: the descriptions are sent with the values.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends every figure.
func (c collector) Collect(to chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, name, help string, v float64, labels prometheus.Labels) {
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc("bloomkv_"+name, help, nil, labels), kind, v)
	}
	count := func(name, help string, v uint64) { send(prometheus.CounterValue, name, help, float64(v), nil) }
	gauge := func(name, help string, v float64) { send(prometheus.GaugeValue, name, help, v, nil) }
	m := c.db.Metrics()
	l, w := m.Lookups, m.Writes
	count("lookups_total", "Lookups of single keys.", l.Gets)
	count("absent_lookups_total", "Lookups of keys that have no version.", l.Absent())
	count("filter_probes_total", "Filters asked.", l.FilterProbes)
	count("filter_negatives_total", "Filters that answered no, so that the table was skipped.", l.FilterNegatives)
	count("filter_false_positives_total",
		"Filters that answered maybe although the table held no version of the key.", l.FalsePositives)
	count("wasted_reads_total", "Searches of tables that held no version of the key.", l.WastedReads)
	count("absent_wasted_reads_total",
		"Wasted reads of lookups of absent keys, to which the promised rate applies.", l.AbsentWasted)
	count("blocks_total", "Data blocks searched by lookups.", l.Blocks)
	count("blocks_read_total", "Data blocks of lookups that were not in the cache.", l.BlocksRead)
	count("cache_evictions_total", "Data blocks evicted from the cache.", m.Cache.Evictions)
	count("operations_total", "Puts, deletes and range deletes.", w.Operations)
	count("log_bytes_total", "Bytes written to logs.", w.LogBytes)
	count("flush_bytes_total", "Bytes that flushes wrote.", w.FlushBytes)
	count("ingest_bytes_total", "Bytes that ingests wrote.", w.IngestBytes)
	count("compacted_bytes_total", "Bytes that compactions wrote.", w.CompactedBytes)
	for reason, s := range map[string]bloomkv.StallMetrics{
		"slowed_by_level0":    w.SlowedByLevel0,
		"stopped_by_level0":   w.StoppedByLevel0,
		"slowed_by_memtable":  w.SlowedByMemtable,
		"stopped_by_memtable": w.StoppedByMemtable,
	} {
		labels := prometheus.Labels{"reason": reason}
		send(prometheus.CounterValue, "write_stalls_total", "Groups of writes that waited for background work.",
			float64(s.Count), labels)
		send(prometheus.CounterValue, "write_stall_seconds_total",
			"Time that groups of writes waited for background work.", s.Duration.Seconds(), labels)
	}
	gauge("filter_fpr_promised", "Promised wasted reads of a lookup of an absent key.", m.FPRPromised)
	gauge("filter_fpr_predicted",
		"Wasted reads of a lookup of an absent key, predicted from the filters in memory.", m.FPRPredicted)
	gauge("compaction_backlog_bytes", "Bytes waiting for compaction.", float64(m.Backlog.Bytes))
	gauge("iterators", "Open iterators.", float64(m.Readers.Iterators))
	gauge("snapshots", "Open snapshots.", float64(m.Readers.Snapshots))
	gauge("oldest_snapshot_seconds", "Age of the oldest snapshot.", m.Readers.OldestSnapshot.Seconds())
	for state, n := range map[string]int{"live": m.Files.Tables, "obsolete": m.Files.Obsolete} {
		send(prometheus.GaugeValue, "table_files", "Files of tables, in the tree or obsolete but not yet removed.",
			float64(n), prometheus.Labels{"state": state})
	}
	gauge("open_files", "Descriptors held for tables.", float64(m.Files.Open))
	gauge("over_budget_bytes", "Bytes by which memory exceeds its budget.", float64(m.Resources.OverBudget))
	for part, bytes := range map[string]int64{
		"memtables":     m.Memory.Memtables,
		"filters":       m.Memory.Filters,
		"indexes":       m.Memory.Indexes,
		"range_deletes": m.Memory.RangeDeletes,
		"tables":        m.Memory.Tables,
		"cache":         m.Memory.Cache,
	} {
		send(prometheus.GaugeValue, "memory_bytes", "Bytes in memory.", float64(bytes),
			prometheus.Labels{"part": part})
	}
	gauge("mapped_bytes", "Bytes of table files that are mapped, beside the memory budget.", float64(m.Memory.Mapped))
	broken := 0
	for _, level := range m.Levels {
		labels := prometheus.Labels{"level": strconv.Itoa(level.Level)}
		send(prometheus.GaugeValue, "level_bytes", "Bytes on disk.", float64(level.Bytes), labels)
		send(prometheus.GaugeValue, "level_runs", "Sorted runs.", float64(level.Runs), labels)
		send(prometheus.GaugeValue, "level_tables", "Tables.", float64(level.Tables), labels)
		broken += level.FiltersDamaged
	}
	gauge("filters_damaged", "Tables whose filter is damaged.", float64(broken))
}
