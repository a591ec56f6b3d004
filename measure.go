package bloomkv

import (
	"bytes"
	"time"

	"github.com/bloomkv/bloomkv/internal/commit"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/scheduler"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Metrics returns the current figures of the store. Each is exact, except for the negatives in FilterAnswers, but
// they are not all of the same moment. After Close, Metrics returns the promise, the budget and what lookups and
// writes had cost, but no figures of levels or memory.
func (db *DB) Metrics() Metrics {
	m := Metrics{
		Lookups:  LookupMetrics(db.read.Lookups()),
		Prefixes: PrefixMetrics(db.read.Prefixes()), Writes: writeMetrics(db.writer.Counts(), db.work.Counts()),
		Resources: resourcesMetrics(db.pool), Uptime: time.Since(db.opened),
	}
	// First, so that the promise and the figures below are those of a tree that is loaded or settled, if they say so.
	settled, warm := db.work.Settled(), db.work.Warm()
	asked, kept := db.share.Promise()
	step.At("metrics: promise")
	m.FPRAsked = asked
	for _, p := range kept {
		m.FPRPromised, m.BudgetNeeded = max(m.FPRPromised, p.FPR), max(m.BudgetNeeded, p.Budget)
	}
	m.FPRMeasured = m.Lookups.WastedPerAbsent()
	m.Lookups.TailLoads, m.Lookups.TailBytes = db.share.TailLoads()
	m.Memory, m.Files.MaxOpen = memoryMetrics(db.pool, 0, tree.TableBytes{}, 0, 0, 0), db.pool.Files.Limit
	c := db.tree.Blocks.Stats()
	m.Cache = CacheMetrics{
		Capacity: c.Capacity, Used: c.Used, Blocks: c.Blocks, Inserts: c.Inserts, Evictions: c.Evictions,
		// min, since the two counters are read one after the other.
		Hits: m.Lookups.Blocks - min(m.Lookups.BlocksRead, m.Lookups.Blocks), Misses: m.Lookups.BlocksRead,
	}
	s := db.tree.Hold()
	if s == nil {
		return m
	}
	defer db.tree.Release(s)
	m.Warm, m.Settled = warm, settled
	m.Work = workMetrics(db.work.Running())
	m.Readers.Iterators = db.read.Cursors()
	var opened time.Time
	if m.Readers.Snapshots, opened = db.tree.OldestPin(); m.Readers.Snapshots > 0 {
		m.Readers.OldestSnapshot = time.Since(opened)
	}
	held, parts := db.share.Bytes(), int64(0)
	var missing filterplan.Mean // the share of an index that is not in memory
	s.EachTable(func(_ int, t *tree.Table) {
		parts += t.Reader.IndexBytes() - t.Reader.TopBytes()
		lacks := 1.0
		if loaded, all := t.Reader.Parts(); all > 0 { // else nothing of the index was loaded yet
			lacks -= float64(loaded) / float64(all)
		}
		missing.Add(t.Meta.Entries, lacks)
	})
	m.Memory = memoryMetrics(db.pool, s.MemtableBytes(), held, parts, c.Used, db.tree.Files.Mapped())
	m.Levels, m.FPRPredicted, m.BytesOffPlan = db.levels(s)
	b := db.work.Policy.Backlog(s.Version)
	m.Backlog = BacklogMetrics{Base: b.Base, Runs: b.Runs, Bytes: b.Bytes}
	for l := range m.Levels {
		level := &m.Levels[l]
		level.Target = b.Targets[l]
		m.Files.Tables += level.Tables
		m.TablesOffPlan += level.TablesOffPlan
	}
	m.FPRPromised = filterplan.Promised(m.FPRPromised, m.FPRPredicted)
	for _, p := range kept {
		if p.Pages > 0 { // filters that are still larger than planned are not asked in their files yet
			m.FPRPromised = max(m.FPRPromised, m.FPRPredicted)
		}
		searched := 1 + missing.Value() // a data block, and parts of the index, for a table that is searched
		m.ReadsPromised = max(m.ReadsPromised, p.ReadsNow(asked, m.FPRPredicted, searched))
	}
	there, open := db.tree.Files.Count()
	m.Files.Open, m.Files.Obsolete = open, max(there-m.Files.Tables, 0)
	return m
}

// writeMetrics returns the figures of writers and of background work.
func writeMetrics(c commit.Counts, w scheduler.Counts) WriteMetrics {
	stalls := func(r commit.Reason) StallMetrics { return StallMetrics{c.Stalls[r].Writes, c.Stalls[r].Duration} }
	return WriteMetrics{
		Operations: c.Operations, Groups: c.Groups, LogBytes: c.LogBytes, LogSyncs: c.LogSyncs,
		Updates: c.Attempts, Conflicts: c.Conflicts,
		Flushes: w.Flushes, FlushBytes: w.FlushBytes, Ingests: w.Ingests, IngestBytes: w.IngestBytes,
		Compactions: w.Compactions, CompactedBytesRead: w.CompactedBytesRead, CompactedBytes: w.CompactedBytes,
		RewrittenBytes: w.RewrittenBytes, Moves: w.Moves,
		SlowedByLevel0:    stalls(commit.SlowedByLevel0),
		StoppedByLevel0:   stalls(commit.StoppedByLevel0),
		StoppedByMemtable: stalls(commit.StoppedByMemtable),
		SlowedByMemtable:  stalls(commit.SlowedByMemtable),
	}
}

// workMetrics returns the figures of work in progress.
func workMetrics(r scheduler.Running) WorkMetrics {
	w := WorkMetrics{Memtables: r.Memtables, Versions: r.Versions, VersionsFlushed: r.Flushed}
	for _, c := range r.Compactions {
		w.Compactions = append(w.Compactions, CompactionMetrics(c))
	}
	return w
}

// levels returns the figures of each level except its target, what all runs waste by the filters in memory, and the
// bytes of tables that are off the plan.
func (db *DB) levels(s *tree.State) (levels []LevelMetrics, predicted float64, off uint64) {
	levels = make([]LevelMetrics, manifest.NumLevels)
	plans := db.share.Plans()
	for l := range levels {
		levels[l].Level, levels[l].FPRPromised = l, plans.Now.Levels[l].Rate
	}
	for _, r := range s.Runs {
		l := &levels[r.Level]
		var waste filterplan.Mean
		for _, t := range r.Tables {
			m := db.measure(r.Level, t, plans)
			l.add(&m)
			if t.Meta.Flags&manifest.SeqOverridden != 0 {
				l.Ingested++
			}
			if m.OffPlan {
				off += m.Bytes
			}
			waste.Add(m.Entries, m.FPRPredicted)
		}
		l.Runs++
		l.FPRPredicted += waste.Value() // of all runs of the level
	}
	for l := range levels {
		predicted += levels[l].FPRPredicted
		levels[l].FPRMeasured = levels[l].FPR()
		if n := levels[l].Runs; n > 0 {
			levels[l].FPRPredicted /= float64(n)
		}
	}
	return levels, predicted, off
}

// add adds a table to its level.
func (l *LevelMetrics) add(t *TableMetrics) {
	one := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	l.Tables++
	l.Bytes += t.Bytes
	l.Entries += t.Entries
	l.Deletes += t.Deletes
	l.RangeDeletes += t.RangeDeletes
	l.FilterBytes += t.FilterBytes
	l.FilterBytesInMemory += t.FilterBytesInMemory
	l.FilterNegatives += t.FilterNegatives
	l.TruePositives += t.TruePositives
	l.FalsePositives += t.FalsePositives
	l.Unfiltered += t.Unfiltered
	l.FiltersShed += one(t.FilterShed)
	l.TablesOffPlan += one(t.OffPlan)
	l.FiltersDamaged += one(t.FilterDamaged)
}

// Tables returns the figures of each table of the tree, newest data first, and in ascending key order within each
// run; nil after Close. It takes time and memory in proportion to the number of tables. The caller owns the slices.
func (db *DB) Tables() []TableMetrics {
	s := db.tree.Hold()
	if s == nil {
		return nil
	}
	defer db.tree.Release(s)
	plans, all := db.share.Plans(), []TableMetrics{}
	for _, r := range s.Runs {
		for _, t := range r.Tables {
			m := db.measure(r.Level, t, plans)
			m.Run, m.Smallest, m.Largest = r.ID, bytes.Clone(m.Smallest), bytes.Clone(m.Largest)
			all = append(all, m)
		}
	}
	return all
}

// measure returns the figures of a table except its run. The bounds are not copied.
func (db *DB) measure(level int, t *tree.Table, plans *filterplan.Plans) TableMetrics {
	filter, counts := t.Keys.State(), t.LoadCounts()
	m := TableMetrics{
		File: t.File.Name, Level: level, Smallest: t.Meta.Smallest, Largest: t.Meta.Upper(),
		LargestExclusive: t.Meta.Flags&manifest.LargestExclusive != 0,
		Entries:          t.Meta.Entries, Deletes: t.Meta.Deletes, RangeDeletes: t.Meta.RangeDeletes,
		Bytes:       t.Meta.Size,
		FilterBytes: t.Meta.FilterLen, FilterBytesInMemory: filter.Form.Bytes + t.Prefixes.Bytes(),
		FilterUnits: filter.Units, FilterUnitsInFile: filter.AllUnits,
		FilterShed: db.share.Short(t), OffPlan: db.share.OffPlan(level, t, plans.Good),
		FilterDamaged: filter.Damage != nil || t.Prefixes.State().Damage != nil,
		FPRPromised:   plans.Now.Levels[level].Rate, FPRPredicted: 1,
		FilterAnswers: FilterAnswers{
			FilterNegatives: counts.Negatives, TruePositives: counts.TruePositives,
			FalsePositives: counts.FalsePositives, Unfiltered: counts.Unfiltered,
		},
	}
	m.FPRPredicted = t.Reader.FalsePositiveRate()
	m.FPRMeasured = m.FPR()
	return m
}
