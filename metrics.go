package bloomkv

import (
	"reflect"
	"time"

	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Metrics is what a store has done since it was opened, and what it holds now. As JSON its names do not change; times are
// nanoseconds. Lookups are Get, AppendGet, View, Has, PutIfAbsent and the like, and each key of GetMany.
//
// A filter answers negative (the table is skipped), true positive (the table holds some version of the key) or false
// positive (it does not). A wasted read is a search of a table that holds no version of the key, let through by a false
// positive or by a missing filter.
type Metrics struct {
	FilterFPR     float64          `json:"fpr_promised"`    // promised: wasted reads for a lookup of an absent key, over the whole tree; with Options.FilterMemory what fits it now
	FPRPredicted  float64          `json:"fpr_predicted"`   // the same from the filters that are in memory, for a key in the range of every run
	FPRMeasured   float64          `json:"fpr_measured"`    // the same from what the filters of the tables that there are have answered, see FilterAnswers: also before the last Open
	TablesOffPlan int              `json:"tables_off_plan"` // tables whose filter is not the one that the options ask for, by rate, kind or rule of prefixes: Compact writes them anew
	BytesOffPlan  uint64           `json:"bytes_off_plan"`  // of these tables
	Levels        []LevelMetrics   `json:"levels"`          // all of them, empty ones too, from level 0 on; none after Close
	Lookups       LookupMetrics    `json:"lookups"`
	Prefixes      PrefixMetrics    `json:"prefixes"`
	Cache         CacheMetrics     `json:"cache"`
	Memory        MemoryMetrics    `json:"memory"`
	Resources     ResourcesMetrics `json:"resources"`
	Files         FileMetrics      `json:"files"`
	Writes        WriteMetrics     `json:"writes"`
	Backlog       BacklogMetrics   `json:"backlog"`
	Readers       ReaderMetrics    `json:"readers"`
	Settled       bool             `json:"settled"`   // nothing waits to be flushed or compacted; so always with Options.ReadOnly, whatever Backlog says
	Warm          bool             `json:"warm"`      // Open's reading ahead has ended: indexes and filters are in memory as far as the budget allows
	Uptime        time.Duration    `json:"uptime_ns"` // since Open, or between two Metrics: see Since
}

// LevelMetrics is one level; level 0 is the newest, the last level the oldest. What filters have answered is the sum
// of the tables that are in the level now, and older than this use of the store: see FilterAnswers.
type LevelMetrics struct {
	Level        int     `json:"level"`                  // 0 is the level that flushes write
	Runs         int     `json:"runs"`                   // what a lookup may have to ask, each one table of it
	Tables       int     `json:"tables"`                 // in all runs
	Ingested     int     `json:"ingested"`               // tables among them that an Ingest has made
	Bytes        uint64  `json:"bytes"`                  // on disk
	Target       uint64  `json:"target"`                 // bytes above which the level is compacted; 0: none (level 0, the last level), or it should be empty
	Entries      uint64  `json:"entries"`                // versions, tombstones included
	Deletes      uint64  `json:"deletes"`                // tombstones among them
	RangeDeletes uint64  `json:"range_deletes"`          // range tombstones, which are not among the entries
	FilterDisk   uint64  `json:"filter_bytes"`           // bytes of filter blocks on disk, those of prefixes too
	FilterBytes  int64   `json:"filter_bytes_in_memory"` // bytes of filters in memory, those of prefixes too
	FilterFPR    float64 `json:"fpr_promised"`           // the share of the promised rate that each run of this level has
	FPRPredicted float64 `json:"fpr_predicted"`          // what the filters in memory give, for each run on average; 0 without runs
	FPRMeasured  float64 `json:"fpr_measured"`           // false positives among these and the negatives; 0 without any
	FilterAnswers
	FilterShed    int `json:"filters_shed"`    // tables whose filter, or units of it, do not fit the memory budget or Options.FilterMemory
	TablesOffPlan int `json:"tables_off_plan"` // see Metrics
	FilterDamaged int `json:"filters_damaged"` // tables with a filter block that is damaged: what is whole of it is used
}

// LookupMetrics counts what lookups cost. Loads of indexes and filters are apart: they happen once for each table, and again
// after the memory budget made one go.
type LookupMetrics struct {
	Gets            uint64 `json:"gets"`             // lookups
	MemtableHits    uint64 `json:"memtable_hits"`    // answered by a memtable
	TableHits       uint64 `json:"table_hits"`       // for which a table held a version of the key, if only a tombstone
	TablesInRange   uint64 `json:"tables_in_range"`  // runs that have a table whose bounds hold the key
	FilterProbes    uint64 `json:"filter_probes"`    // filters asked
	FilterNegatives uint64 `json:"filter_negatives"` // of these, said no: the table was skipped
	TruePositives   uint64 `json:"true_positives"`   // said maybe, and the table held a version of the key
	FalsePositives  uint64 `json:"false_positives"`  // said maybe, and the table held none
	TableSearches   uint64 `json:"table_searches"`   // tables searched, with or without a filter
	WastedReads     uint64 `json:"wasted_reads"`     // searches that found no version of the key
	AbsentWasted    uint64 `json:"absent_wasted"`    // of these, those by lookups of absent keys: see Absent
	Blocks          uint64 `json:"blocks"`           // data blocks touched
	BlocksRead      uint64 `json:"blocks_read"`      // of these, read from files; the others were cached
	BytesRead       uint64 `json:"bytes_read"`       // bytes of these reads
	TailLoads       uint64 `json:"tail_loads"`       // indexes and filters read
	TailBytes       uint64 `json:"tail_bytes"`       // bytes of these reads
}

// FPR is the measured rate of the filters: false positives among the probes of tables that hold no version of the key; 0
// without any.
func (l LookupMetrics) FPR() float64 {
	return ratio(l.FalsePositives, l.FalsePositives+l.FilterNegatives)
}

// Absent is how many lookups were of absent keys: neither memtables nor tables held a version.
func (l LookupMetrics) Absent() uint64 { return l.Gets - min(l.MemtableHits+l.TableHits, l.Gets) }

// WastedPerAbsent is what Options.FilterFPR promises, as measured: wasted reads for a lookup of an absent key; 0 without any.
func (l LookupMetrics) WastedPerAbsent() float64 { return ratio(l.AbsentWasted, l.Absent()) }

// PrefixMetrics counts what prefix filters did for iterators and scans, from when they are closed on: see Options.FilterPrefix.
type PrefixMetrics struct {
	Probes    uint64 `json:"probes"`    // prefix filters asked
	Negatives uint64 `json:"negatives"` // of these, said no: the table was skipped
	Unasked   uint64 `json:"unasked"`   // tables opened by who would have asked: without a filter of the rule, or none that is whole and has room
}

// CacheMetrics is the cache of data blocks. Hits and misses are those of lookups; iterators are not counted.
type CacheMetrics struct {
	Capacity  int64  `json:"capacity"` // bytes that there may be, what waits to be used again included; of all stores that share Resources
	Used      int64  `json:"used"`     // bytes of this store's blocks
	Blocks    int    `json:"blocks"`   // of this store
	Hits      uint64 `json:"hits"`     // blocks that were there
	Misses    uint64 `json:"misses"`   // blocks that were read from files
	Inserts   uint64 `json:"inserts"`  // blocks that were kept
	Evictions uint64 `json:"evictions"`
}

// HitRate is the share of hits; 0 without any use.
func (c CacheMetrics) HitRate() float64 { return ratio(c.Hits, c.Hits+c.Misses) }

// MemoryMetrics are bytes in memory, by part.
type MemoryMetrics struct {
	Budget       int64 `json:"budget"`        // for all the parts together: Options.MemoryBudget, or what all stores share
	Memtables    int64 `json:"memtables"`     // the one that fills and those that wait to be written out
	Filters      int64 `json:"filters"`       // of tables
	Indexes      int64 `json:"indexes"`       // of tables
	RangeDeletes int64 `json:"range_deletes"` // of tables
	Cache        int64 `json:"cache"`         // data blocks

	PrefixFilters int64 `json:"prefix_filters"` // of prefixes; they are among Filters
}

func (m *MemoryMetrics) setTables(b tree.TableBytes) {
	m.Filters, m.PrefixFilters, m.Indexes, m.RangeDeletes = b.Filter+b.Prefix, b.Prefix, b.Index, b.RangeDeletes
}

// Sum is the bytes of all parts.
func (m MemoryMetrics) Sum() int64 {
	return m.Memtables + m.Filters + m.Indexes + m.RangeDeletes + m.Cache
}

// FileMetrics is the files of tables.
type FileMetrics struct {
	Tables   int `json:"tables"`   // in the tree
	Obsolete int `json:"obsolete"` // no longer in the tree, but still read, or not yet removed
	Open     int `json:"open"`     // of both, those with a descriptor
	MaxOpen  int `json:"max_open"` // Options.MaxOpenFiles, or what all stores share
}

// WriteMetrics counts what writes cost, in operations, bytes and time.
type WriteMetrics struct {
	Operations        uint64       `json:"operations"`          // puts, deletes and range deletes, each one of a batch
	Groups            uint64       `json:"groups"`              // log writes: several waiting writers share one
	LogBytes          uint64       `json:"log_bytes"`           // of the records' payloads, not of what is reserved for them
	LogSyncs          uint64       `json:"log_syncs"`           // that writers waited for
	Flushes           uint64       `json:"flushes"`             // memtables written out
	FlushBytes        uint64       `json:"flush_bytes"`         // written to level 0
	Ingests           uint64       `json:"ingests"`             // that stored something
	IngestBytes       uint64       `json:"ingest_bytes"`        // of their tables
	Compactions       uint64       `json:"compactions"`         // that rewrote tables
	CompactedRead     uint64       `json:"compacted_read"`      // bytes of the inputs, except for those that range deletes dropped as a whole
	CompactedBytes    uint64       `json:"compacted_bytes"`     // bytes of the outputs
	RewrittenBytes    uint64       `json:"rewritten_bytes"`     // of CompactedBytes, those of tables that were written anew by themselves, as for another filter: nothing was merged or dropped
	Moves             uint64       `json:"moves"`               // tables that changed their level without being rewritten
	SlowedByLevel0    StallMetrics `json:"slowed_by_level0"`    // groups delayed a little each, as compaction is behind
	StoppedByLevel0   StallMetrics `json:"stopped_by_level0"`   // groups that waited for compaction
	StoppedByMemtable StallMetrics `json:"stopped_by_memtable"` // groups that waited for a flush
}

// StallMetrics is how often, and for how long in all, writes waited for one reason.
type StallMetrics struct {
	Count    uint64        `json:"count"`
	Duration time.Duration `json:"duration_ns"`
}

// WriteAmplification is the bytes written to logs and tables for each byte that came in by writes and ingests, or 0 while
// nothing did.
func (w WriteMetrics) WriteAmplification() float64 {
	in := w.LogBytes + w.IngestBytes
	return ratio(in+w.FlushBytes+w.CompactedBytes, in)
}

// BacklogMetrics is what compaction has to do, for what is in the tree now.
type BacklogMetrics struct {
	Base  int    `json:"base"`  // the level that level 0 is merged into
	Runs  int    `json:"runs"`  // of level 0, from the number on that starts a compaction
	Bytes uint64 `json:"bytes"` // of level 0, if that has so many runs, and above the targets of the others
}

// ReaderMetrics is who holds on to old data.
type ReaderMetrics struct {
	Iterators      int           `json:"iterators"`          // open
	Snapshots      int           `json:"snapshots"`          // open
	OldestSnapshot time.Duration `json:"oldest_snapshot_ns"` // since it was opened; 0 without any
}

func ratio(part, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return float64(part) / float64(of)
}

// Metrics is a snapshot of the store's figures, each of them exact but for the negatives in FilterAnswers, though not all of the
// same moment. After Close it has the promise, the budget and what lookups and writes had cost, and of levels and memory nothing.
func (db *DB) Metrics() Metrics {
	m := Metrics{
		FilterFPR: db.share.Plans().Now.FPR, Lookups: LookupMetrics(db.read.Lookups()), Prefixes: PrefixMetrics(db.read.Prefixes()), Writes: db.writes.metrics(),
		Resources: resourcesMetrics(db.pool), Uptime: time.Since(db.opened),
	}
	m.Lookups.TailLoads, m.Lookups.TailBytes = db.share.TailLoads()
	m.Memory.Budget, m.Files.MaxOpen = db.pool.Memory, db.pool.Files.Limit
	c := db.tree.Blocks.Stats()
	m.Cache = CacheMetrics{
		Capacity: c.Capacity, Used: c.Used, Blocks: c.Blocks, Inserts: c.Inserts, Evictions: c.Evictions,
		Hits: m.Lookups.Blocks - min(m.Lookups.BlocksRead, m.Lookups.Blocks), Misses: m.Lookups.BlocksRead, // read one after the other
	}
	s, release := db.tree.Acquire()
	if s == nil {
		return m
	}
	defer release()
	m.Warm = db.warm.Load() // first: what it says is in the figures below
	m.Settled = db.settled()
	m.Readers = db.readers()
	m.Memory.Memtables, m.Memory.Cache = s.MemtableBytes(), c.Used
	m.Levels, m.BytesOffPlan = db.levels(s)
	for l := range m.Levels {
		level := &m.Levels[l]
		m.FPRPredicted += float64(level.Runs) * level.FPRPredicted
		m.FPRMeasured += float64(level.Runs) * level.FPRMeasured
		m.Files.Tables += level.Tables
		m.TablesOffPlan += level.TablesOffPlan
	}
	if db.opts.FilterMemory > 0 { // older filters may have been built for more keys than there are now
		m.FilterFPR = max(m.FilterFPR, m.FPRPredicted)
	}
	m.Memory.setTables(db.share.Bytes())
	there, open := db.tree.Files.Count()
	m.Files.Open, m.Files.Obsolete = open, max(there-m.Files.Tables, 0)
	m.Backlog = db.backlog(s, m.Levels)
	return m
}

func (db *DB) readers() ReaderMetrics {
	r := ReaderMetrics{Iterators: db.read.Cursors()}
	var since time.Time
	if r.Snapshots, since = db.tree.OldestPin(); r.Snapshots > 0 {
		r.OldestSnapshot = time.Since(since)
	}
	return r
}

// levels returns the figures of each level except its target, and the bytes of tables that are off the plan.
func (db *DB) levels(s *tree.State) (levels []LevelMetrics, off uint64) {
	levels = make([]LevelMetrics, manifest.NumLevels)
	plans := db.share.Plans()
	for l := range levels {
		levels[l].Level, levels[l].FilterFPR = l, plans.Now.Levels[l].Rate
	}
	for _, r := range s.Runs {
		l := &levels[r.Level]
		var entries, passed float64
		for _, t := range r.Tables {
			l.add(t)
			if db.share.Short(t) {
				l.FilterShed++
			}
			if db.share.OffPlan(r.Level, t, plans.Good) {
				l.TablesOffPlan++
				off += t.Meta.Size
			}
			entries += float64(t.Meta.Entries)
			passed += float64(t.Meta.Entries) * predictedRateOf(t)
		}
		l.Runs++
		if entries > 0 {
			l.FPRPredicted += (passed/entries - l.FPRPredicted) / float64(l.Runs) // the mean so far
		}
	}
	for l := range levels {
		levels[l].FPRMeasured = levels[l].FPR()
	}
	return levels, off
}

func (l *LevelMetrics) add(t *tree.Table) {
	l.Tables++
	if t.Meta.Flags&manifest.SeqOverridden != 0 {
		l.Ingested++
	}
	l.Bytes += t.Meta.Size
	l.Entries += t.Meta.Entries
	l.Deletes += t.Meta.Deletes
	l.RangeDeletes += t.Meta.RangeDeletes
	l.FilterDisk += t.Meta.FilterLen
	l.FilterBytes += t.Reader.FilterBytes() + t.Reader.PrefixBytes()
	l.FilterAnswers.add(t.LoadCounts())
	if t.Reader.FilterState().Damage != nil || t.Reader.PrefixState().Damage != nil {
		l.FilterDamaged++
	}
}

// predictedRate is the part of absent keys, within the bounds of the table, for which it will be searched.
func predictedRateOf(t *tree.Table) float64 {
	if f := t.Reader.Filter(); f != nil {
		return f.FalsePositiveRate()
	}
	return 1
}

// backlog returns the work that compaction has left. It sets the targets of levels.
func (db *DB) backlog(s *tree.State, levels []LevelMetrics) BacklogMetrics {
	b := db.policy.Backlog(s.Version)
	for l := range levels {
		levels[l].Target = b.Targets[l]
	}
	return BacklogMetrics{Base: b.Base, Runs: b.Runs, Bytes: b.Bytes}
}

// Since is what happened between an earlier Metrics of the same DB and m: counters are differences, and so is Uptime, so that
// a counter divided by it is a rate. What says how things are, such as levels, memory, files and backlog, is as in m.
func (m Metrics) Since(earlier Metrics) Metrics {
	m.Uptime -= earlier.Uptime
	subtract(reflect.ValueOf(&m.Lookups).Elem(), reflect.ValueOf(earlier.Lookups))
	subtract(reflect.ValueOf(&m.Prefixes).Elem(), reflect.ValueOf(earlier.Prefixes))
	subtract(reflect.ValueOf(&m.Cache).Elem(), reflect.ValueOf(earlier.Cache))
	subtract(reflect.ValueOf(&m.Writes).Elem(), reflect.ValueOf(earlier.Writes))
	return m
}

// subtract takes the counters of earlier from those of now: numbers of type uint64 and times. Other numbers say how things are.
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
