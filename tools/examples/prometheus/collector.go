package main

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bloomkv/bloomkv"
)

// A collector converts the metrics of a store for Prometheus each time they are collected. Figures that only rise are
// counters.
type collector struct{ db *bloomkv.DB }

var (
	lookups   = describe("lookups_total", "Lookups of single keys.")
	absent    = describe("absent_lookups_total", "Lookups of keys that have no version.")
	probes    = describe("filter_probes_total", "Filters asked.")
	negatives = describe("filter_negatives_total", "Filters that answered no, so that the table was skipped.")
	falses    = describe("filter_false_positives_total",
		"Filters that answered maybe although the table held no version of the key.")
	wasted      = describe("wasted_reads_total", "Searches of tables that held no version of the key.")
	absentReads = describe("absent_wasted_reads_total",
		"Wasted reads of lookups of absent keys, to which the promised rate applies.")
	blocks      = describe("blocks_total", "Data blocks searched by lookups.")
	blocksRead  = describe("blocks_read_total", "Data blocks of lookups that were not in the cache.")
	evictions   = describe("cache_evictions_total", "Data blocks evicted from the cache.")
	operations  = describe("operations_total", "Puts, deletes and range deletes.")
	logBytes    = describe("log_bytes_total", "Bytes written to logs.")
	flushBytes  = describe("flush_bytes_total", "Bytes that flushes wrote.")
	ingestBytes = describe("ingest_bytes_total", "Bytes that ingests wrote.")
	compacted   = describe("compacted_bytes_total", "Bytes that compactions wrote.")
	stalls      = describe("write_stalls_total", "Groups of writes that waited for background work.", "reason")
	stalled     = describe("write_stall_seconds_total",
		"Time that groups of writes waited for background work.", "reason")
	promised  = describe("filter_fpr_promised", "Promised wasted reads of a lookup of an absent key.")
	predicted = describe("filter_fpr_predicted",
		"Wasted reads of a lookup of an absent key, predicted from the filters in memory.")
	damaged     = describe("filters_damaged", "Tables whose filter is damaged.")
	backlog     = describe("compaction_backlog_bytes", "Bytes waiting for compaction.")
	iterators   = describe("iterators", "Open iterators.")
	snapshots   = describe("snapshots", "Open snapshots.")
	oldest      = describe("oldest_snapshot_seconds", "Age of the oldest snapshot.")
	files       = describe("table_files", "Files of tables, in the tree or obsolete but not yet removed.", "state")
	descriptors = describe("open_files", "Descriptors held for tables.")
	overBudget  = describe("over_budget_bytes", "Bytes by which memory exceeds its budget.")
	memory      = describe("memory_bytes", "Bytes in memory.", "part")
	mapped      = describe("mapped_bytes", "Bytes of table files that are mapped, beside the memory budget.")
	levelBytes  = describe("level_bytes", "Bytes on disk.", "level")
	levelRuns   = describe("level_runs", "Sorted runs.", "level")
	levelTables = describe("level_tables", "Tables.", "level")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("bloomkv_"+name, help, labels, nil)
}

// Describe sends nothing: the descriptions are sent with the values.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends every figure.
func (c collector) Collect(to chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	m := c.db.Metrics()
	l, w := m.Lookups, m.Writes
	count(lookups, float64(l.Gets))
	count(absent, float64(l.Absent()))
	count(probes, float64(l.FilterProbes))
	count(negatives, float64(l.FilterNegatives))
	count(falses, float64(l.FalsePositives))
	count(wasted, float64(l.WastedReads))
	count(absentReads, float64(l.AbsentWasted))
	count(blocks, float64(l.Blocks))
	count(blocksRead, float64(l.BlocksRead))
	count(evictions, float64(m.Cache.Evictions))
	count(operations, float64(w.Operations))
	count(logBytes, float64(w.LogBytes))
	count(flushBytes, float64(w.FlushBytes))
	count(ingestBytes, float64(w.IngestBytes))
	count(compacted, float64(w.CompactedBytes))
	for reason, s := range map[string]bloomkv.StallMetrics{
		"slowed_by_level0":    w.SlowedByLevel0,
		"stopped_by_level0":   w.StoppedByLevel0,
		"slowed_by_memtable":  w.SlowedByMemtable,
		"stopped_by_memtable": w.StoppedByMemtable,
	} {
		count(stalls, float64(s.Count), reason)
		count(stalled, s.Duration.Seconds(), reason)
	}
	gauge(promised, m.FPRPromised)
	gauge(predicted, m.FPRPredicted)
	gauge(backlog, float64(m.Backlog.Bytes))
	gauge(iterators, float64(m.Readers.Iterators))
	gauge(snapshots, float64(m.Readers.Snapshots))
	gauge(oldest, m.Readers.OldestSnapshot.Seconds())
	gauge(files, float64(m.Files.Tables), "live")
	gauge(files, float64(m.Files.Obsolete), "obsolete")
	gauge(descriptors, float64(m.Files.Open))
	gauge(overBudget, float64(m.Resources.OverBudget))
	gauge(memory, float64(m.Memory.Memtables), "memtables")
	gauge(memory, float64(m.Memory.Filters), "filters")
	gauge(memory, float64(m.Memory.Indexes), "indexes")
	gauge(memory, float64(m.Memory.RangeDeletes), "range_deletes")
	gauge(memory, float64(m.Memory.Tables), "tables")
	gauge(memory, float64(m.Memory.Cache), "cache")
	gauge(mapped, float64(m.Memory.Mapped))
	broken := 0
	for _, level := range m.Levels {
		name := strconv.Itoa(level.Level)
		gauge(levelBytes, float64(level.Bytes), name)
		gauge(levelRuns, float64(level.Runs), name)
		gauge(levelTables, float64(level.Tables), name)
		broken += level.FiltersDamaged
	}
	gauge(damaged, float64(broken))
}
