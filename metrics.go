package bloomkv

import (
	"reflect"
	"time"

	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Metrics are the figures of a store: counters since Open, and what it holds now. Their JSON names are
// their Go names in lower case with underscores, and do not change; times are in nanoseconds and end in _ns. Lookups
// are calls of Get, AppendGet, View, Has, PutIfAbsent and the like, and each key of GetMany.
//
// The answer of a filter is a negative (the table is skipped), a true positive (the table holds some version of the
// key) or a false positive (it does not). A wasted read is a search of a table that holds no version of the key,
// because of a false positive or a missing filter.
type Metrics struct {
	// FPRAsked is what the options ask: Options.FilterFPR, or with Options.FilterMemory the best rate whose filters fit
	// now.
	FPRAsked float64 `json:"fpr_asked"`
	// FPRPromised is the promise: wasted reads per lookup of an absent key, over the whole tree. It is FPRAsked,
	// unless memory is too short for that; then it is the best that this much memory can keep, with memtables as they
	// are: what they do not need is lent to filters. If the store was written to in the last minute, it is the promise
	// with full memtables if that is worse. Tables that were written for another promise count with the filters that
	// they have: see TablesOffPlan. Without filters, each run costs a read.
	FPRPromised float64 `json:"fpr_promised"`
	// ReadsPromised is what a lookup of an absent key uses outside of the budget's memory, at most: pages of filters,
	// parts of indexes and data blocks, in mapped files or read. A table that is searched in vain costs a block, and a
	// part of its index unless that is in memory. If all filters fit, it counts on what they predict and a tenth more,
	// which may be less than FPRPromised: that is kept in a tree of any shape. Lookups.ReadsPerAbsent is its measured
	// value.
	ReadsPromised float64 `json:"reads_promised"`
	// BudgetNeeded is the Options.MemoryBudget, or the memory of shared Resources, in bytes, that keeps FPRAsked for
	// what the store has now. It is at most Memory.Budget if FPRPromised is FPRAsked.
	BudgetNeeded int64 `json:"budget_needed"`
	// FPRPredicted is the same as FPRPromised, computed from the bits of the filters in memory, and from the promised
	// rates of those that are asked in their files, for a key within the bounds of every run. Each table counts by its
	// share of the entries of its run.
	FPRPredicted float64 `json:"fpr_predicted"`
	// FPRMeasured is what lookups of absent keys have measured since Open: Lookups.WastedPerAbsent.
	FPRMeasured float64 `json:"fpr_measured"`
	// TablesOffPlan is the number of tables whose filter differs from what the options ask for, in rate, kind or
	// prefix rule. Compact rewrites them.
	TablesOffPlan int    `json:"tables_off_plan"`
	BytesOffPlan  uint64 `json:"bytes_off_plan"` // of these tables
	// Levels are all levels, including empty ones, starting with level 0; nil after Close.
	Levels    []LevelMetrics   `json:"levels"`
	Lookups   LookupMetrics    `json:"lookups"`
	Prefixes  PrefixMetrics    `json:"prefixes"`
	Cache     CacheMetrics     `json:"cache"`
	Memory    MemoryMetrics    `json:"memory"`
	Resources ResourcesMetrics `json:"resources"`
	Files     FileMetrics      `json:"files"`
	Writes    WriteMetrics     `json:"writes"`
	Work      WorkMetrics      `json:"work"`
	Backlog   BacklogMetrics   `json:"backlog"`
	Readers   ReaderMetrics    `json:"readers"`
	// Settled is true if Warm is, nothing waits for a flush or compaction, and the filters in memory follow the plan of
	// the current tree. Many seeks, or a minute without writes, may have level 0 compacted further. With
	// Options.ReadOnly it is true once Warm is, whatever Backlog is.
	Settled bool `json:"settled"`
	// Warm is true once the loading that Open starts has ended: filters are in memory as far as the budget allows.
	Warm bool `json:"warm"`
	// Uptime is the time since Open, or between two Metrics: see Since.
	Uptime time.Duration `json:"uptime_ns"`
}

// LevelMetrics are the figures of one level. Level 0 is the newest, the last level the oldest. The answers of filters
// are the sums of the tables in the level now, including answers before the last Open: see FilterAnswers.
type LevelMetrics struct {
	Level    int    `json:"level"`    // 0 is the level that flushes write to
	Runs     int    `json:"runs"`     // a lookup searches at most one table of each
	Tables   int    `json:"tables"`   // in all runs
	Ingested int    `json:"ingested"` // tables that an Ingest created
	Bytes    uint64 `json:"bytes"`    // on disk
	// Target is the number of bytes above which the level is compacted. It is 0 for level 0, for the last level, and
	// for a level that should be empty.
	Target              uint64 `json:"target"`
	Entries             uint64 `json:"entries"`                // versions, including tombstones
	Deletes             uint64 `json:"deletes"`                // tombstones among them
	RangeDeletes        uint64 `json:"range_deletes"`          // range tombstones, which do not count as entries
	FilterBytes         uint64 `json:"filter_bytes"`           // on disk, including prefix filters
	FilterBytesInMemory int64  `json:"filter_bytes_in_memory"` // including prefix filters
	// FPRPromised is the share of the promised rate that each run of this level gets.
	FPRPromised float64 `json:"fpr_promised"`
	// FPRPredicted is the rate of the filters in memory, averaged over the runs; 0 if there are no runs.
	FPRPredicted float64 `json:"fpr_predicted"`
	// FPRMeasured is the share of false positives among themselves and the negatives; 0 if there are neither.
	FPRMeasured float64 `json:"fpr_measured"`
	FilterAnswers
	// FiltersShed is the number of tables that have less of their filter in memory than FPRAsked takes: it does not fit
	// the memory budget or Options.FilterMemory, or was not loaded yet.
	FiltersShed int `json:"filters_shed"`
	// TablesOffPlan is the part of Metrics.TablesOffPlan in this level.
	TablesOffPlan int `json:"tables_off_plan"`
	// FiltersDamaged is the number of tables with a damaged filter block; its intact units are used.
	FiltersDamaged int `json:"filters_damaged"`
}

// FilterAnswers count what the filters of tables have answered to lookups since each table was written, on whatever
// level it was, and however many units of its filter were in memory. Searches are counted exactly, negatives
// estimated: one lookup in 64 is a sample, and each negative in it counts as 64. Therefore a count of N negatives has
// a standard error of √(63·N): 8 % of ten thousand, 0.8 % of a million. A measured rate with F false positives has a
// relative standard error of √(1/F + 63/N); the first part, chance, is the larger one for rates below 1/63.
//
// The counts outlast Close. They are kept in the manifest, which is rewritten when a store is closed that has written
// anything since Open. A store that was opened read-only forgets what it has counted, and a crash loses what was
// counted since the manifest was last begun. The tables written by a compaction or a Checkpoint start at zero.
type FilterAnswers struct {
	FilterNegatives uint64 `json:"filter_negatives"` // the table was skipped: an estimate
	TruePositives   uint64 `json:"true_positives"`   // searches that a filter let through, and that found the key
	FalsePositives  uint64 `json:"false_positives"`  // searches that a filter let through, and that did not
	// Unfiltered is the number of searches without a query of a filter: it was not built, not loaded, or damaged.
	Unfiltered uint64 `json:"unfiltered"`
}

// FPR returns the measured rate: the share of false positives among themselves and the negatives; 0 if there are
// neither.
func (a FilterAnswers) FPR() float64 {
	return ratio(a.FalsePositives, a.FalsePositives+a.FilterNegatives)
}

// TableMetrics are the figures of one table: what it holds, and the promised, predicted and measured rates of its
// filter. Their JSON names do not change.
type TableMetrics struct {
	File             string `json:"file"`              // base name of its file, in the directory of the store
	Level            int    `json:"level"`             //
	Run              uint64 `json:"run"`               // number of its run, in the level
	Smallest         []byte `json:"smallest"`          // lower bound of keys and range tombstones
	Largest          []byte `json:"largest"`           // upper bound of both; only nil is unbounded
	LargestExclusive bool   `json:"largest_exclusive"` // no key equals Largest
	Entries          uint64 `json:"entries"`           // versions, including tombstones
	Deletes          uint64 `json:"deletes"`           // tombstones among them
	RangeDeletes     uint64 `json:"range_deletes"`     // range tombstones, which do not count as entries
	Bytes            uint64 `json:"bytes"`             // on disk
	// FilterBytes is the number of bytes of filter blocks on disk, including a prefix filter; 0 means no filter.
	FilterBytes         uint64 `json:"filter_bytes"`
	FilterBytesInMemory int64  `json:"filter_bytes_in_memory"` // bytes of them in memory
	FilterUnits         int    `json:"filter_units"`           // units of the filter in memory, smaller ones included
	FilterUnitsInFile   int    `json:"filter_units_in_file"`   // units in the file; 0 if it was not read yet
	// FilterShed is true if less of the filter is in memory than FPRAsked takes: see LevelMetrics.FiltersShed.
	FilterShed bool `json:"filter_shed"`
	// OffPlan is true if the filter differs from what the options ask for: Compact rewrites the table.
	OffPlan       bool `json:"off_plan"`
	FilterDamaged bool `json:"filter_damaged"` // a filter block is damaged; its intact units are used
	// FPRPromised is the share of the promised rate that each run of the level gets.
	FPRPromised float64 `json:"fpr_promised"`
	// FPRPredicted is the rate of the filter, computed from its bits in memory; or the promised rate of the filter in
	// the file, if lookups ask that because there is too little in memory; 1 without a filter.
	FPRPredicted float64 `json:"fpr_predicted"`
	// FPRMeasured is the share of false positives among themselves and the negatives; 0 if there are neither.
	FPRMeasured float64 `json:"fpr_measured"`
	FilterAnswers
}

// LookupMetrics count what lookups cost. Loads of indexes and filters are counted separately: they happen once for
// each table, and again after the memory budget has dropped an index or a filter.
type LookupMetrics struct {
	Gets            uint64 `json:"gets"`             // lookups
	MemtableHits    uint64 `json:"memtable_hits"`    // answered by a memtable
	TableHits       uint64 `json:"table_hits"`       // a table held a version of the key, or a tombstone
	RunsInRange     uint64 `json:"runs_in_range"`    // runs with a table whose bounds include the key
	FilterProbes    uint64 `json:"filter_probes"`    // filters queried
	FilterNegatives uint64 `json:"filter_negatives"` // filters that excluded the key: the table was skipped
	TruePositives   uint64 `json:"true_positives"`   // filters that did not, and the table held a version of the key
	FalsePositives  uint64 `json:"false_positives"`  // filters that did not, and the table held no version
	TableSearches   uint64 `json:"table_searches"`   // tables searched, with or without a filter
	WastedReads     uint64 `json:"wasted_reads"`     // searches that found no version of the key
	AbsentWasted    uint64 `json:"absent_wasted"`    // wasted reads by lookups of absent keys: see Absent
	Blocks          uint64 `json:"blocks"`           // data blocks used
	BlocksRead      uint64 `json:"blocks_read"`      // data blocks that were not in the cache
	BlocksMapped    uint64 `json:"blocks_mapped"`    // data blocks among these that were used in mapped files
	BytesRead       uint64 `json:"bytes_read"`       // bytes read from files for the others
	IndexParts      uint64 `json:"index_parts"`      // parts of indexes that were not in memory
	FilterParts     uint64 `json:"filter_parts"`     // pages of filters asked in files, for lack of memory
	AbsentReads     uint64 `json:"absent_reads"`     // of lookups of absent keys: see ReadsPerAbsent
	TailLoads       uint64 `json:"tail_loads"`       // indexes read
	TailBytes       uint64 `json:"tail_bytes"`       // bytes of indexes and filters read
}

// FPR returns the measured rate of the filters: the share of false positives among the probes of tables that hold no
// version of the key; 0 without answers.
func (l LookupMetrics) FPR() float64 {
	return ratio(l.FalsePositives, l.FalsePositives+l.FilterNegatives)
}

// Absent returns the number of lookups for absent keys: neither memtables nor tables held a version.
func (l LookupMetrics) Absent() uint64 { return l.Gets - min(l.MemtableHits+l.TableHits, l.Gets) }

// WastedPerAbsent returns the measured value of what Options.FilterFPR promises: wasted reads per lookup of an absent
// key; 0 without such lookups.
func (l LookupMetrics) WastedPerAbsent() float64 { return ratio(l.AbsentWasted, l.Absent()) }

// ReadsPerAbsent returns the pages of filters, parts of indexes and data blocks that a lookup of an absent key used
// outside of the budget's memory, in mapped files or by reading them; 0 without such lookups. It is the measured
// value of Metrics.ReadsPromised.
func (l LookupMetrics) ReadsPerAbsent() float64 { return ratio(l.AbsentReads, l.Absent()) }

// PrefixMetrics count what prefix filters did for iterators and scans, which are counted once they are closed: see
// Options.FilterPrefix.
type PrefixMetrics struct {
	Probes    uint64 `json:"probes"`    // prefix filters queried
	Negatives uint64 `json:"negatives"` // prefix filters that excluded the prefix: the table was skipped
	// Unasked is the number of tables opened without a query although the bounds have a prefix by the rule: the table
	// has no filter by that rule, or an incomplete one, or there is no memory for it.
	Unasked uint64 `json:"unasked"`
}

// CacheMetrics are the figures of the cache of data blocks. Hits and misses are those of lookups; iterators are not
// counted.
type CacheMetrics struct {
	// Capacity is a bound in bytes, including buffers kept for reuse, for all stores that share Resources.
	Capacity  int64  `json:"capacity"`
	Used      int64  `json:"used"`    // bytes of blocks of this store
	Blocks    int    `json:"blocks"`  // of this store
	Hits      uint64 `json:"hits"`    // blocks found in the cache
	Misses    uint64 `json:"misses"`  // blocks that were not in the cache
	Inserts   uint64 `json:"inserts"` // blocks added to the cache
	Evictions uint64 `json:"evictions"`
}

// HitRate returns the share of hits; 0 if the cache was not used.
func (c CacheMetrics) HitRate() float64 { return ratio(c.Hits, c.Hits+c.Misses) }

// MemoryMetrics are bytes in memory, by part.
type MemoryMetrics struct {
	// Budget is for all parts together: Options.MemoryBudget, or the memory that stores share.
	Budget       int64 `json:"budget"`
	Memtables    int64 `json:"memtables"`     // the one that takes writes, and those that wait for a flush
	Filters      int64 `json:"filters"`       // of tables
	Indexes      int64 `json:"indexes"`       // of tables
	RangeDeletes int64 `json:"range_deletes"` // of tables
	// Tables is about what the store knows of each table, its bounds and where its parts are, and of ranges of deleted
	// keys that iterators skip.
	Tables int64 `json:"tables"`
	Cache  int64 `json:"cache"` // data blocks

	PrefixFilters int64 `json:"prefix_filters"` // of tables; included in Filters

	// Mapped is the number of bytes of table files that are mapped, of which the system has some in memory. It is not
	// part of the budget: see Options.MaxMappedBytes.
	Mapped int64 `json:"mapped"`
	// MaxMapped is Options.MaxMappedBytes, or the bound that stores share; 0 if no file is mapped.
	MaxMapped int64 `json:"max_mapped"`
}

// memoryMetrics returns bytes in memory, by part.
func memoryMetrics(p *budget.Pool, memtables int64, tables tree.TableBytes, parts, cache, mapped int64) MemoryMetrics {
	return MemoryMetrics{
		Budget: p.Memory, Memtables: memtables, Cache: cache, Indexes: tables.Top + parts,
		RangeDeletes: tables.RangeDeletes, Tables: tables.Description,
		Filters: tables.Filter + tables.Prefix, PrefixFilters: tables.Prefix,
		Mapped: mapped, MaxMapped: p.Files.MaxMapped,
	}
}

// Sum returns the bytes of all parts of the budget.
func (m MemoryMetrics) Sum() int64 {
	return m.Memtables + m.Filters + m.Indexes + m.RangeDeletes + m.Tables + m.Cache
}

// FileMetrics are figures of the files of tables.
type FileMetrics struct {
	Tables   int `json:"tables"`   // in the tree
	Obsolete int `json:"obsolete"` // no longer in the tree, but still read, or not yet removed
	Open     int `json:"open"`     // tables of either kind with an open descriptor
	MaxOpen  int `json:"max_open"` // Options.MaxOpenFiles, or the number that stores share
}

// WriteMetrics count what writes cost, in operations, bytes and time.
type WriteMetrics struct {
	Operations  uint64 `json:"operations"`   // puts, deletes and range deletes, each operation of a batch
	Groups      uint64 `json:"groups"`       // log writes: several waiting writers share one
	Updates     uint64 `json:"updates"`      // runs of functions of Update; one may run several times
	Conflicts   uint64 `json:"conflicts"`    // runs among them that could not commit: what they had read had changed
	LogBytes    uint64 `json:"log_bytes"`    // of the payloads of records; reserved log space does not count
	LogSyncs    uint64 `json:"log_syncs"`    // syncs that writers waited for
	Flushes     uint64 `json:"flushes"`      // memtables written out
	FlushBytes  uint64 `json:"flush_bytes"`  // bytes written to level 0
	Ingests     uint64 `json:"ingests"`      // ingests that stored something
	IngestBytes uint64 `json:"ingest_bytes"` // bytes of their tables
	Compactions uint64 `json:"compactions"`  // compactions that rewrote tables, or slices of one
	// CompactedBytesRead is the number of bytes of the inputs, except tables that range deletes dropped as a whole.
	CompactedBytesRead uint64 `json:"compacted_bytes_read"`
	CompactedBytes     uint64 `json:"compacted_bytes"` // of the outputs
	// RewrittenBytes is the part of CompactedBytes for tables of one run that were rewritten, to get other filters, or
	// joined because they were small: nothing else was merged with them, nothing dropped.
	RewrittenBytes uint64 `json:"rewritten_bytes"`
	// Moves is the number of tables that changed their level without being rewritten.
	Moves uint64 `json:"moves"`
	// SlowedByLevel0 counts groups delayed a little each, because compaction was behind.
	SlowedByLevel0    StallMetrics `json:"slowed_by_level0"`
	StoppedByLevel0   StallMetrics `json:"stopped_by_level0"`   // groups that waited for compaction
	StoppedByMemtable StallMetrics `json:"stopped_by_memtable"` // groups that waited for a flush
	SlowedByMemtable  StallMetrics `json:"slowed_by_memtable"`  // groups delayed a little each by a flush
}

// StallMetrics are the number of times, and the total time, that writes waited for one reason.
type StallMetrics struct {
	Count    uint64        `json:"count"`
	Duration time.Duration `json:"duration_ns"`
}

// WriteAmplification returns the bytes written to logs and tables per byte that writes and ingests stored; 0 if they
// stored nothing.
func (w WriteMetrics) WriteAmplification() float64 {
	in := w.LogBytes + w.IngestBytes
	return ratio(in+w.FlushBytes+w.CompactedBytes, in)
}

// WorkMetrics are the flushes and compactions in progress. Counts of versions advance every 64 versions.
type WorkMetrics struct {
	// Memtables is the number of memtables that wait for a flush, including the one that is being flushed.
	Memtables       int                 `json:"memtables"`
	Versions        uint64              `json:"versions"`         // in these memtables
	VersionsFlushed uint64              `json:"versions_flushed"` // the part of Versions that the flush has read
	Compactions     []CompactionMetrics `json:"compactions"`      // empty or nil if none is running
}

// CompactionMetrics are the figures of a compaction in progress. A compaction that only moves tables to another level
// reads nothing, and is not listed.
type CompactionMetrics struct {
	From         int           `json:"from"`          // the uppermost level of the inputs
	To           int           `json:"to"`            // the level of the outputs
	Tables       int           `json:"tables"`        // inputs
	Bytes        uint64        `json:"bytes"`         // of the inputs
	Versions     uint64        `json:"versions"`      // in the inputs
	VersionsRead uint64        `json:"versions_read"` // the part of Versions that was read so far
	Duration     time.Duration `json:"duration_ns"`   // since it began
}

// BacklogMetrics are the work left for compaction in the current tree.
type BacklogMetrics struct {
	Base  int    `json:"base"`  // the level that level 0 is merged into
	Runs  int    `json:"runs"`  // runs of level 0 if a compaction is due, counted from the one that starts it
	Bytes uint64 `json:"bytes"` // bytes above the targets, and all of level 0 if Runs is not 0
}

// ReaderMetrics are the readers that keep old data from being removed.
type ReaderMetrics struct {
	Iterators      int           `json:"iterators"`          // open
	Snapshots      int           `json:"snapshots"`          // open
	OldestSnapshot time.Duration `json:"oldest_snapshot_ns"` // time since it was opened; 0 without snapshots
}

func ratio(part, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return float64(part) / float64(of)
}

// Since returns what happened between earlier, an older Metrics of the same DB, and m. Counters are differences, and
// so is Uptime: a counter divided by Uptime is a rate. Figures of the current state, such as levels, memory, files
// and backlog, are those of m.
func (m Metrics) Since(earlier Metrics) Metrics {
	m.Uptime -= earlier.Uptime
	subtract(reflect.ValueOf(&m.Lookups).Elem(), reflect.ValueOf(earlier.Lookups))
	m.FPRMeasured = m.Lookups.WastedPerAbsent()
	subtract(reflect.ValueOf(&m.Prefixes).Elem(), reflect.ValueOf(earlier.Prefixes))
	subtract(reflect.ValueOf(&m.Cache).Elem(), reflect.ValueOf(earlier.Cache))
	subtract(reflect.ValueOf(&m.Writes).Elem(), reflect.ValueOf(earlier.Writes))
	return m
}

// subtract subtracts the counters of earlier from those of now: fields of type uint64 and time.Duration. Other fields
// describe the current state and stay.
func subtract(now, earlier reflect.Value) {
	for i := range now.NumField() {
		switch f, e := now.Field(i), earlier.Field(i); f.Kind() {
		case reflect.Struct:
			subtract(f, e)
		case reflect.Uint64:
			f.SetUint(f.Uint() - e.Uint())
		case reflect.Int64:
			if f.Type() == reflect.TypeFor[time.Duration]() {
				f.SetInt(f.Int() - e.Int())
			}
		default:
		}
	}
}
