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
	in   stateID
	name string
	unit unit
	must bar
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
	rowDiskOverwritten                             = "disk-ow"
)

// Targets for blocks read per lookup of an absent and of a present key, with a small cache.
var absentReads, presentReads = atMost(1.15 * promisedFPR), atMost(0.95 + promisedFPR)

// lines are all rows in the order of the table.
var lines = slices.Concat([]line{
	{"absent", compacted, "absent, cached, compacted", nanoseconds, below(0.6, rocksdbName)},
	{"absent-unc", uncompacted, "absent, cached, uncompacted", nanoseconds, below(0.7, rocksdbName)},
	{"absent-ow", overwritten, "absent, cached, overwritten", nanoseconds, below(0.7, rocksdbName)},
	{"absent-small", small, "absent, small cache", nanoseconds, below(0.8, rocksdbName)},
	{"absent-2t", compacted, "absent, two goroutines", nanoseconds, below(0.7, rocksdbName)},
	{"present", compacted, "present, cached, compacted", nanoseconds, below(0.6, bestPeer)},
	{"present-unc", uncompacted, "present, cached, uncompacted", nanoseconds, below(1, bestPeer)},
	{"present-ow", overwritten, "present, cached, overwritten", nanoseconds, below(1, bestPeer)},
	{"present-small", small, "present, small cache", nanoseconds, below(1, rocksdbName)},
	{"present-2t", compacted, "present, two goroutines", nanoseconds, below(1, bestPeer)},
	{"zipf", small, "Zipf 0.99, small cache, compacted", nanoseconds, below(0.8, bestPeer)},
	{"zipf-unc", uncSmall, "Zipf 0.99, small cache, uncompacted", nanoseconds, below(0.8, bestPeer)},
	{"zipf-2t", small, "… compacted, two goroutines", nanoseconds, below(0.8, bestPeer)},
	{"zipf-2t-unc", uncSmall, "… uncompacted, two goroutines", nanoseconds, below(0.8, bestPeer)},
	{"mixed", compacted, "95 % get, 5 % put", nanoseconds, below(1, bestPeer)},
	{"seek10", compacted, "seek + 10 next", nanoseconds, below(1, pebbleTuned)},
	{"seek10-new", compacted, "seek + 10 next, new iterator", nanoseconds, below(1, pebbleTuned)},
	{"seek100", compacted, "seek + 100 next", nanoseconds, below(1, pebbleTuned)},
	{"scan", compacted, "full scan, per entry", nanoseconds, below(1, pebbleName)},
	{rowLoad, loaded, "random load, one by one", nanoseconds, below(0.5, rocksdbName)},
	{"load-batched", batched, "random load, batches of 100", nanoseconds, below(1, pebbleName)},
	{"load-seq", ordered, "sequential load, one by one", nanoseconds, below(0.6, rocksdbName)},
	{"load-seq-batched", orderedBatched, "sequential load, batches of 100", nanoseconds, below(1, pebbleName)},
	{"overwrite", overwritten, "overwrite", nanoseconds, below(0.6, rocksdbName)},
	{"fillsync", synced, "load, each put synced (µs)", microseconds, upTo(1.05, bestPeer)},

	{"misses-absent", small, "blocks read per absent lookup, small cache, compacted", reads, absentReads},
	{"misses-absent-unc", uncSmall, "blocks read per absent lookup, small cache, uncompacted", reads, absentReads},
	{"misses-present", small, "blocks read per present lookup, small cache, compacted", reads, presentReads},
	{"misses-present-unc", uncSmall, "blocks read per present lookup, small cache, uncompacted", reads, presentReads},
	{"misses-zipf", small, "blocks read per Zipf lookup, small cache, compacted", reads, upTo(1, bestPeer)},
	{"misses-zipf-unc", uncSmall, "blocks read per Zipf lookup, small cache, uncompacted", reads, upTo(1, bestPeer)},
	{"reads-absent", small, "read calls per absent lookup, small cache, compacted", reads, bar{}},
	{"reads-absent-unc", uncSmall, "read calls per absent lookup, small cache, uncompacted", reads, bar{}},
	{"reads-present", small, "read calls per present lookup, small cache, compacted", reads, bar{}},
	{"reads-present-unc", uncSmall, "read calls per present lookup, small cache, uncompacted", reads, bar{}},
	{"reads-zipf", small, "read calls per Zipf lookup, small cache, compacted", reads, bar{}},
	{"reads-zipf-unc", uncSmall, "read calls per Zipf lookup, small cache, uncompacted", reads, bar{}},
	{rowWriteAmp, loaded, "write amplification with the log, random load", times, upTo(1, pebbleName)},
	{rowDisk, compacted, "on disk, compacted (MB)", megabytes, bar{limit: ofDecimalKeys}},
	{rowDiskPeak, loaded, "largest on disk during the load (MB)", megabytes, bar{limit: atAMillion(250e6)}},
	{rowDiskOverwritten, overwritten, "on disk, overwritten (MB)", megabytes, bar{}},
	{rowReopen, compacted, "reopen after a clean close (ms)", milliseconds, upTo(1, pebbleName)},
	{rowResident, loaded, "peak resident during the load (MB)", megabytes, bar{limit: atAMillion(160e6)}},
	{rowFilters, compacted, "filters, compacted (MB)", megabytes, bar{}},
}, tailLines(rowPuts, manyPuts, "many random puts", map[string]bar{
	"p999": below(0.8, bestLSM), "p9999": upTo(1, bestLSM), "max": upTo(1, bestLSM),
}), []line{
	{rowPutsLong, manyPuts, "many random puts, number over 10 ms", count, bar{}},
	{rowPutsAmp, manyPuts, "many random puts, write amplification with the log", times, bar{}},
	{rowPutsDisk, manyPuts, "many random puts, largest on disk (MB)", megabytes, bar{}},
	{rowPutsLast, manyPuts, "many random puts, speed of the last tenth, of the first", times, bar{}},
}, tailLines(rowBusyAbsent, busy, "busy: absent", map[string]bar{"max": upTo(1, bestLSM)}),
	tailLines(rowBusyPresent, busy, "busy: present", map[string]bar{"max": upTo(1, bestLSM)}),
	tailLines(rowBusyPut, busy, "busy: put, from its intended start", map[string]bar{
		"p99": upTo(1, bestLSM), "p999": upTo(1, bestLSM), "max": upTo(1, bestLSM),
	}), tailLines(rowBusyCall, busy, "busy: put, from its call", map[string]bar{
		"p99": upTo(1, bestLSM), "p999": upTo(1, bestLSM), "max": upTo(1, bestLSM),
	}), []line{
		{"ycsb-a", served, "YCSB A: 50 % read, 50 % update", nanoseconds, bar{}},
		{"ycsb-b", served, "YCSB B: 95 % read, 5 % update", nanoseconds, bar{}},
		{"ycsb-c", served, "YCSB C: read", nanoseconds, bar{}},
		{"ycsb-d", served, "YCSB D: 95 % read of the latest, 5 % insert", nanoseconds, bar{}},
		{"ycsb-e", served, "YCSB E: 95 % scan, 5 % insert", nanoseconds, bar{}},
		{"ycsb-f", served, "YCSB F: 50 % read, 50 % read-modify-write", nanoseconds, bar{}},
	})

// ycsbRow is the prefix of rows that are measured only with --ycsb or --rows.
const ycsbRow = "ycsb-"

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
	limit   func(*config) float64
}

// Names of the fastest of several columns in a round.
const (
	bestPeer = "the best peer"
	bestLSM  = "the best LSM peer" // without bbolt, which puts fewer pairs and has no work in the background
)

func below(factor float64, of string) bar { return bar{factor: factor, of: of} }

func upTo(factor float64, of string) bar { return bar{factor: factor, of: of, orEqual: true} }

func atMost(limit float64) bar { return bar{limit: func(*config) float64 { return limit }} }

// ofDecimalKeys returns a limit of 120 bytes for each pair of 16 and 100 bytes with decimal keys, which have long
// common prefixes, and no limit for other pairs.
func ofDecimalKeys(c *config) float64 {
	if c.shape != workload.Decimal || c.value != 100 {
		return 0
	}
	return 120 * float64(c.keys)
}

// atAMillion returns a limit for a million pairs of 16 and 100 bytes, and no limit for other pairs.
func atAMillion(limit float64) func(*config) float64 {
	return func(c *config) float64 {
		if c.keys != 1_000_000 || c.dataBytes() != 116e6 {
			return 0
		}
		return limit
	}
}

// describe returns the target in words, or "" without a target.
func (b bar) describe(u unit, c *config) string {
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
