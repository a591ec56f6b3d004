package bloomkv

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/sstable"
)

// Metrics is what a store has done since it was opened, and what it holds now. Lookups are Get, AppendGet and Has.
//
// A filter answers negative (the table is skipped), true positive (the table holds some version of the key) or false
// positive (it does not). A wasted read is a search of a table that holds no version of the key, let through by a false
// positive or by a missing filter.
type Metrics struct {
	FilterFPR float64        // promised: wasted reads for a lookup of an absent key, over the whole tree
	Levels    []LevelMetrics // all of them, empty ones too, from level 0 on; none after Close
	Lookups   LookupMetrics
	Memory    MemoryMetrics
	Writes    WriteMetrics
	Settled   bool // nothing waits to be flushed or compacted
	Warm      bool // Open's reading ahead has ended: indexes and filters are in memory as far as the budget allows
}

// LevelMetrics is one level; level 0 is the newest, the last level the oldest. Searches are counted by table, and are
// those of the tables that are in the level now.
type LevelMetrics struct {
	Level          int     // 0 is the level that flushes write
	Runs           int     // what a lookup may have to ask, each one table of it
	Tables         int     // in all runs
	Bytes          uint64  // on disk
	Entries        uint64  // versions, tombstones included
	Deletes        uint64  // tombstones among them
	FilterDisk     uint64  // bytes of filter blocks on disk
	FilterBytes    int64   // bytes of filters in memory
	FilterFPR      float64 // the share of the promised rate that each run of this level has
	TruePositives  uint64  // searches, let through by a filter, that found a version of the key
	FalsePositives uint64  // searches, let through by a filter, that found none
	Unfiltered     uint64  // searches for which no filter was asked: none built, none loaded, or damaged
	FilterDamaged  int     // tables whose filter block is damaged: they answer "maybe"
}

// LookupMetrics counts what lookups cost. Loads of indexes and filters are apart: they happen once for each table, and again
// after the memory budget made one go.
type LookupMetrics struct {
	Gets            uint64 // lookups
	MemtableHits    uint64 // answered by a memtable
	TablesInRange   uint64 // runs that have a table whose bounds hold the key
	FilterProbes    uint64 // filters asked
	FilterNegatives uint64 // of these, said no: the table was skipped
	TruePositives   uint64 // said maybe, and the table held a version of the key
	FalsePositives  uint64 // said maybe, and the table held none
	TableSearches   uint64 // tables searched, with or without a filter
	WastedReads     uint64 // searches that found no version of the key
	Blocks          uint64 // data blocks touched
	BlocksRead      uint64 // of these, read from files; the others were cached
	BytesRead       uint64 // bytes of these reads
	TailLoads       uint64 // indexes and filters read
	TailBytes       uint64 // bytes of these reads
}

// FPR is the measured rate of the filters: false positives among the probes of tables that hold no version of the key; 0
// without any.
func (l LookupMetrics) FPR() float64 {
	if n := l.FalsePositives + l.FilterNegatives; n > 0 {
		return float64(l.FalsePositives) / float64(n)
	}
	return 0
}

// MemoryMetrics are bytes in memory, by part.
type MemoryMetrics struct {
	Budget    int64 // Options.MemoryBudget, for all the parts together
	Memtables int64 // the one that fills and those that wait to be written out
	Filters   int64 // of tables
	Indexes   int64 // of tables
	Cache     int64 // data blocks
}

// WriteMetrics counts what writes cost, in operations, bytes and time.
type WriteMetrics struct {
	Operations     uint64        // puts and deletes, each one of a batch
	Groups         uint64        // log writes: several waiting writers share one
	LogBytes       uint64        // of the records' payloads
	LogSyncs       uint64        // that writers waited for
	Flushes        uint64        // memtables written out
	FlushBytes     uint64        // written to level 0
	Compactions    uint64        // that rewrote tables
	CompactedRead  uint64        // bytes of the inputs
	CompactedBytes uint64        // bytes of the outputs
	Moves          uint64        // tables that changed their level without being rewritten
	Slowed         time.Duration // for which writes were delayed while compaction was behind
	Stopped        time.Duration // for which writes waited for a flush or a compaction
}

// WriteAmplification is the bytes written to logs and tables for each byte of the logs, or 0 while nothing was written.
func (w WriteMetrics) WriteAmplification() float64 {
	if w.LogBytes == 0 {
		return 0
	}
	return float64(w.LogBytes+w.FlushBytes+w.CompactedBytes) / float64(w.LogBytes)
}

// String is a page for people.
func (m Metrics) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "level  runs  tables        bytes     entries  filter disk  filter mem   promised   true pos  false pos\n")
	for _, l := range m.Levels {
		fmt.Fprintf(&b, "%5d %5d %7d %12d %11d %12d %11d %10.3g %10d %10d\n",
			l.Level, l.Runs, l.Tables, l.Bytes, l.Entries, l.FilterDisk, l.FilterBytes, l.FilterFPR, l.TruePositives, l.FalsePositives)
	}
	l, w, y := m.Lookups, m.Writes, m.Memory
	fmt.Fprintf(&b, "filters: promised %.4g for the tree; %d probes, %d negative, %d false positive: measured %.4g a probe\n",
		m.FilterFPR, l.FilterProbes, l.FilterNegatives, l.FalsePositives, l.FPR())
	fmt.Fprintf(&b, "lookups: %d, %d from memtables, %d table searches (%d wasted), %d blocks (%d read, %d bytes); tails: %d, %d bytes\n",
		l.Gets, l.MemtableHits, l.TableSearches, l.WastedReads, l.Blocks, l.BlocksRead, l.BytesRead, l.TailLoads, l.TailBytes)
	fmt.Fprintf(&b, "memory: budget %d; memtables %d, filters %d, indexes %d, cache %d\n",
		y.Budget, y.Memtables, y.Filters, y.Indexes, y.Cache)
	fmt.Fprintf(&b, "writes: %d in %d groups, log %d bytes, %d syncs; %d flushes, %d bytes; %d compactions, %d bytes in, %d out, %d moves; amplification %.2f; slowed %v, stopped %v\n",
		w.Operations, w.Groups, w.LogBytes, w.LogSyncs, w.Flushes, w.FlushBytes,
		w.Compactions, w.CompactedRead, w.CompactedBytes, w.Moves, w.WriteAmplification(), w.Slowed, w.Stopped)
	return b.String()
}

// Metrics is a snapshot of the store's figures, each of them exact, though not all of the same moment. After Close it has the
// promise, the budget and what lookups and writes had cost, and of levels and memory nothing.
func (db *DB) Metrics() Metrics {
	m := Metrics{FilterFPR: db.opts.FilterFPR, Lookups: db.lookups.sum()}
	m.Lookups.TailLoads, m.Lookups.TailBytes = db.tails.loads.Load(), db.tails.bytes.Load()
	m.Memory.Budget = db.opts.MemoryBudget
	w := &db.writes
	m.Writes = WriteMetrics{
		Operations: w.operations.Load(), Groups: w.groups.Load(), LogBytes: w.logBytes.Load(), LogSyncs: w.logSyncs.Load(),
		Flushes: w.flushes.Load(), FlushBytes: w.flushBytes.Load(), Compactions: w.compactions.Load(),
		CompactedRead: w.compactedRead.Load(), CompactedBytes: w.compactedBytes.Load(), Moves: w.moves.Load(),
		Slowed: time.Duration(w.slowed.Load()), Stopped: time.Duration(w.stopped.Load()),
	}
	s, release := db.acquire()
	if s == nil {
		return m
	}
	defer release()
	m.Warm = db.warm.Load() // first: what it says is in the figures below
	db.mu.Lock()
	m.Settled = db.settled()
	db.mu.Unlock()
	m.Memory.Memtables = s.mem.Bytes()
	for _, f := range s.frozen {
		m.Memory.Memtables += f.Bytes()
	}
	m.Memory.Cache = db.cache.Stats().Used
	m.Levels = make([]LevelMetrics, manifest.NumLevels)
	for l := range m.Levels {
		m.Levels[l].Level, m.Levels[l].FilterFPR = l, db.plan[l].rate
		m.Levels[l].Runs = len(s.version.Levels[l])
	}
	s.tables(func(level int, t *table) {
		l := &m.Levels[level]
		l.Tables++
		l.Bytes += t.meta.Size
		l.Entries += t.meta.Entries
		l.Deletes += t.meta.Deletes
		l.FilterDisk += t.meta.FilterLen
		l.FilterBytes += t.reader.FilterBytes()
		l.TruePositives += t.truePositives.Load()
		l.FalsePositives += t.falsePositives.Load()
		l.Unfiltered += t.unfiltered.Load()
		if t.reader.FilterState().Damage != nil {
			l.FilterDamaged++
		}
		m.Memory.Filters += t.reader.FilterBytes()
		m.Memory.Indexes += t.reader.IndexBytes()
	})
	return m
}

// lookupCounts are the counters of lookups, striped so that goroutines on different processors do not share a cache line.
type lookupCounts [lookupStripes]struct {
	gets, memtableHits, inRange, probes, passed, searches, wasted, falsePositives, truePositives atomic.Uint64

	blocks, blocksRead, bytesRead atomic.Uint64
	_                             [32]byte // two cache lines of 64 bytes
}

const lookupStripes = 16

// stripe picks a stripe by the address of the caller's stack.
func stripe() int {
	var here byte
	return int(uint64(uintptr(unsafe.Pointer(&here))>>11) * 0x9e3779b97f4a7c15 >> (64 - 4))
}

// lookupCost is what one lookup touched, kept by its caller.
type lookupCost struct {
	inRange, probes, passed, searches, found, falsePositives, truePositives uint64

	memtableHit bool
	reads       sstable.Stats
}

func (c *lookupCounts) add(l *lookupCost) {
	s := &c[stripe()]
	s.gets.Add(1)
	if l.memtableHit {
		s.memtableHits.Add(1)
		return
	}
	if l.inRange > 0 {
		s.inRange.Add(l.inRange)
		s.probes.Add(l.probes)
	}
	if l.passed > 0 {
		s.passed.Add(l.passed)
	}
	if l.searches == 0 {
		return
	}
	s.searches.Add(l.searches)
	s.wasted.Add(l.searches - l.found)
	s.falsePositives.Add(l.falsePositives)
	s.truePositives.Add(l.truePositives)
	s.blocks.Add(l.reads.Blocks)
	s.blocksRead.Add(l.reads.FileReads)
	s.bytesRead.Add(l.reads.FileBytes)
}

// sum adds the stripes up.
func (c *lookupCounts) sum() (l LookupMetrics) {
	var passed uint64
	for i := range c {
		s := &c[i]
		l.Gets += s.gets.Load()
		l.MemtableHits += s.memtableHits.Load()
		l.TablesInRange += s.inRange.Load()
		l.FilterProbes += s.probes.Load()
		passed += s.passed.Load()
		l.TableSearches += s.searches.Load()
		l.WastedReads += s.wasted.Load()
		l.FalsePositives += s.falsePositives.Load()
		l.TruePositives += s.truePositives.Load()
		l.Blocks += s.blocks.Load()
		l.BlocksRead += s.blocksRead.Load()
		l.BytesRead += s.bytesRead.Load()
	}
	l.FilterNegatives = l.FilterProbes - min(l.FilterProbes, passed) // counters are read one after the other
	return l
}
