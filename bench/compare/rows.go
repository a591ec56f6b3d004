package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/tools/workload"
)

// line is a row of the table.
type line struct {
	id   string // name for --rows
	name string
	unit unit
	must bar
	// there holds the values of Pebble and RocksDB that were measured in one run on another machine: see standIn.
	// Pebble's is from the column that uses all filters if the row has it.
	there struct{ pebble, rocksdb float64 }
}

// unit is the unit of the figures of a row.
type unit uint8

const (
	nanoseconds  unit = iota // per operation
	microseconds             // per operation, for figures in nanoseconds
	milliseconds             // for figures in nanoseconds
	reads                    // file reads per lookup
	megabytes                // for figures in bytes
	times                    // a ratio
	count                    // a number
)

// print formats a figure with three digits, or all digits before the decimal point. The name of the row includes the
// unit.
func (u unit) print(v float64) string {
	switch u {
	case microseconds:
		v /= 1e3
	case milliseconds, megabytes:
		v /= 1e6
	case reads:
		return fmt.Sprintf("%.4f", v)
	case times:
		return fmt.Sprintf("%.2f", v)
	case count:
		return fmt.Sprintf("%.0f", v)
	default:
	}
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.0f", v)
	}
}

// Rows that are produced in more than one function.
const (
	rowLoad, rowWriteAmp, rowDiskPeak, rowResident = "load", "write-amp", "disk-peak", "resident"
	rowDisk, rowReopen, rowFilters                 = "disk", "reopen", "filters"
)

// Targets for blocks read per lookup of an absent and of a present key, with a small cache.
var absentReads, presentReads = atMost(1.15 * promisedFPR), atMost(0.95 + promisedFPR)

// lines are all rows in the order of the table.
var lines = slices.Concat([]line{
	{"absent", "absent, cached, compacted", nanoseconds, below(0.6, rocksdbName), there(614, 217)},
	{"absent-unc", "absent, cached, uncompacted", nanoseconds, below(0.7, rocksdbName), there(1054, 277)},
	{"absent-ow", "absent, cached, overwritten", nanoseconds, below(0.7, rocksdbName), there(1483, 383)},
	{"absent-small", "absent, small cache", nanoseconds, below(0.8, rocksdbName), there(886, 220)},
	{"absent-2t", "absent, two goroutines", nanoseconds, below(0.7, rocksdbName), there(375, 116)},
	{"present", "present, cached, compacted", nanoseconds, below(0.6, bestPeer), there(1863, 1805)},
	{"present-unc", "present, cached, uncompacted", nanoseconds, below(1, bestPeer), there(2458, 1941)},
	{"present-ow", "present, cached, overwritten", nanoseconds, below(1, bestPeer), there(3827, 2434)},
	{"present-small", "present, small cache", nanoseconds, below(1, rocksdbName), there(4118, 2581)},
	{"present-2t", "present, two goroutines", nanoseconds, below(1, bestPeer), there(1100, 1223)},
	{"zipf", "Zipf 0.99, small cache, compacted", nanoseconds, below(0.8, bestPeer), nowhere},
	{"zipf-unc", "Zipf 0.99, small cache, uncompacted", nanoseconds, below(0.8, bestPeer), nowhere},
	{"zipf-2t", "… compacted, two goroutines", nanoseconds, below(0.8, bestPeer), nowhere},
	{"zipf-2t-unc", "… uncompacted, two goroutines", nanoseconds, below(0.8, bestPeer), nowhere},
	{"mixed", "95 % get, 5 % put", nanoseconds, below(1, bestPeer), there(2797, 2670)},
	{"seek10", "seek + 10 next", nanoseconds, below(1, pebbleTuned), there(2751, 2519)},
	{"seek10-new", "seek + 10 next, new iterator", nanoseconds, below(1, pebbleTuned), there(3141, 3735)},
	{"seek100", "seek + 100 next", nanoseconds, below(1, pebbleTuned), there(7867, 10189)},
	{"scan", "full scan, per entry", nanoseconds, below(1, pebbleName), there(47, 65)},
	{rowLoad, "random load, one by one", nanoseconds, below(0.5, rocksdbName), there(1857, 3336)},
	{"load-batched", "random load, batches of 100", nanoseconds, below(1, pebbleName), there(1177, 1741)},
	{"load-seq", "sequential load, one by one", nanoseconds, below(0.6, rocksdbName), there(754, 1922)},
	{"load-seq-batched", "sequential load, batches of 100", nanoseconds, below(1, pebbleName), there(257, 281)},
	{"overwrite", "overwrite", nanoseconds, below(0.6, rocksdbName), there(1887, 3652)},
	{"fillsync", "load, each put synced (µs)", microseconds, upTo(1.05, bestPeer), there(134e3, 122e3)},

	{"misses-absent", "blocks read per absent lookup, small cache, compacted", reads, absentReads, nowhere},
	{"misses-absent-unc", "blocks read per absent lookup, small cache, uncompacted", reads, absentReads, nowhere},
	{"misses-present", "blocks read per present lookup, small cache, compacted", reads, presentReads, nowhere},
	{"misses-present-unc", "blocks read per present lookup, small cache, uncompacted", reads, presentReads, nowhere},
	{"misses-zipf", "blocks read per Zipf lookup, small cache, compacted", reads, upTo(1, bestPeer), nowhere},
	{"misses-zipf-unc", "blocks read per Zipf lookup, small cache, uncompacted", reads, upTo(1, bestPeer), nowhere},
	{"reads-absent", "read calls per absent lookup, small cache, compacted", reads, bar{}, nowhere},
	{"reads-absent-unc", "read calls per absent lookup, small cache, uncompacted", reads, bar{}, nowhere},
	{"reads-present", "read calls per present lookup, small cache, compacted", reads, bar{}, nowhere},
	{"reads-present-unc", "read calls per present lookup, small cache, uncompacted", reads, bar{}, nowhere},
	{"reads-zipf", "read calls per Zipf lookup, small cache, compacted", reads, bar{}, nowhere},
	{"reads-zipf-unc", "read calls per Zipf lookup, small cache, uncompacted", reads, bar{}, nowhere},
	{rowWriteAmp, "write amplification with the log, random load", times, upTo(1, pebbleName), nowhere},
	{rowDisk, "on disk, compacted (MB)", megabytes, bar{limit: ofDecimalKeys}, nowhere},
	{rowDiskPeak, "largest on disk during the load (MB)", megabytes, bar{limit: atAMillion(250e6)}, nowhere},
	{rowReopen, "reopen after a clean close (ms)", milliseconds, upTo(1, pebbleName), nowhere},
	{rowResident, "peak resident during the load (MB)", megabytes, bar{limit: atAMillion(160e6)}, nowhere},
	{rowFilters, "filters, compacted (MB)", megabytes, bar{}, nowhere},
}, tailLines(rowPuts, "many random puts", map[string]bar{
	"p999": below(0.8, bestLSM), "p9999": upTo(1, bestLSM), "max": upTo(1, bestLSM),
}), []line{
	{rowPutsLong, "many random puts, number over 10 ms", count, bar{}, nowhere},
	{rowPutsAmp, "many random puts, write amplification with the log", times, bar{}, nowhere},
}, tailLines(rowBusyAbsent, "busy: absent", map[string]bar{"max": upTo(1, bestLSM)}),
	tailLines(rowBusyPresent, "busy: present", map[string]bar{"max": upTo(1, bestLSM)}),
	tailLines(rowBusyPut, "busy: put, from its intended start", map[string]bar{
		"p99": upTo(1, bestLSM), "p999": upTo(1, bestLSM), "max": upTo(1, bestLSM),
	}), tailLines(rowBusyCall, "busy: put, from its call", map[string]bar{
		"p99": upTo(1, bestLSM), "p999": upTo(1, bestLSM), "max": upTo(1, bestLSM),
	}), []line{
		{"ycsb-a", "YCSB A: 50 % read, 50 % update", nanoseconds, bar{}, nowhere},
		{"ycsb-b", "YCSB B: 95 % read, 5 % update", nanoseconds, bar{}, nowhere},
		{"ycsb-c", "YCSB C: read", nanoseconds, bar{}, nowhere},
		{"ycsb-d", "YCSB D: 95 % read of the latest, 5 % insert", nanoseconds, bar{}, nowhere},
		{"ycsb-e", "YCSB E: 95 % scan, 5 % insert", nanoseconds, bar{}, nowhere},
		{"ycsb-f", "YCSB F: 50 % read, 50 % read-modify-write", nanoseconds, bar{}, nowhere},
	})

// ycsbRow is the prefix of rows that are measured only with --ycsb or --rows.
const ycsbRow = "ycsb-"

// nowhere marks rows without a stand-in for RocksDB.
var nowhere struct{ pebble, rocksdb float64 }

func there(pebble, rocksdb float64) struct{ pebble, rocksdb float64 } {
	return struct{ pebble, rocksdb float64 }{pebble, rocksdb}
}

// rowNames returns the names of all rows, or of those that are measured by default.
func rowNames(ycsb bool) []string {
	var names []string
	for _, l := range lines {
		if ycsb || !strings.HasPrefix(l.id, ycsbRow) {
			names = append(names, l.id)
		}
	}
	return names
}

// bar is the target of a row of bloomkv: a factor of another column, or a limit. The zero value has no target.
type bar struct {
	factor  float64
	of      string // a column, bestPeer or bestLSM
	orEqual bool   // at most the factor, instead of below it
	limit   func(config) float64
}

// Names of the fastest of several columns in a round.
const (
	bestPeer = "the best peer"
	bestLSM  = "the best LSM peer" // without bbolt, which puts fewer pairs and has no work in the background
)

func below(factor float64, of string) bar { return bar{factor: factor, of: of} }

func upTo(factor float64, of string) bar { return bar{factor: factor, of: of, orEqual: true} }

func atMost(limit float64) bar { return bar{limit: func(config) float64 { return limit }} }

// ofDecimalKeys returns a limit of 120 bytes for each pair of 16 and 100 bytes with decimal keys, which have long
// common prefixes, and no limit for other pairs.
func ofDecimalKeys(c config) float64 {
	if c.shape != workload.Decimal || c.value != 100 {
		return 0
	}
	return 120 * float64(c.keys)
}

// atAMillion returns a limit for a million pairs of 16 and 100 bytes, and no limit for other pairs.
func atAMillion(limit float64) func(config) float64 {
	return func(c config) float64 {
		if c.keys != 1_000_000 || c.dataBytes() != 116e6 {
			return 0
		}
		return limit
	}
}

// describe returns the target in words, or "" without a target.
func (b bar) describe(u unit, c config) string {
	sign := "<"
	if b.orEqual {
		sign = "≤"
	}
	switch {
	case b.limit != nil && b.limit(c) > 0:
		return "≤ " + u.print(b.limit(c))
	case b.of == "":
		return ""
	case b.factor == 1:
		return sign + " " + b.of
	default:
		return fmt.Sprintf("%s %.4g × %s", sign, b.factor, b.of)
	}
}
