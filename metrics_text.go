package bloomkv

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// String returns the figures as text for people. Without levels there is no table of them.
func (m Metrics) String() string {
	var b strings.Builder
	if len(m.Levels) > 0 {
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "level\truns\ttables\tingested\tbytes\ttarget\tentries\tdeletes\trange deletes\t"+
			"filter disk\tfilter mem\tpromised\tpredicted\tmeasured\tnegative\ttrue pos\tfalse pos\t")
		for _, l := range m.Levels {
			fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.3g\t%.3g\t%.3g\t%d\t%d\t%d\t\n",
				l.Level, l.Runs, l.Tables, l.Ingested, l.Bytes, l.Target, l.Entries, l.Deletes, l.RangeDeletes,
				l.FilterBytes, l.FilterBytesInMemory, l.FPRPromised, l.FPRPredicted, l.FPRMeasured,
				l.FilterNegatives, l.TruePositives, l.FalsePositives)
		}
		_ = t.Flush() // into memory
	}
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	l := m.Lookups
	line("filters: promised %.4g wasted reads for an absent key, predicted %.4g, by the tables' counts %.4g, "+
		"measured %.4g of %d", m.FPRPromised, m.FPRPredicted, m.FPRMeasured, l.WastedPerAbsent(), l.Absent())
	line("probes: %d, %d negative, %d true positive, %d false positive: %.4g a probe",
		l.FilterProbes, l.FilterNegatives, l.TruePositives, l.FalsePositives, l.FPR())
	if m.TablesOffPlan > 0 {
		line("filters off the plan: those of %d tables, %d bytes, differ from what the options ask for; "+
			"compaction of the store rewrites them", m.TablesOffPlan, m.BytesOffPlan)
	}
	shed, damaged := 0, 0
	for _, level := range m.Levels {
		shed += level.FiltersShed
		damaged += level.FiltersDamaged
	}
	if shed > 0 || damaged > 0 {
		line("filters not wholly in use: %d do not fit the memory budget, %d damaged", shed, damaged)
	}
	line("lookups: %d, %d from memtables, %d from tables; %d table searches (%d wasted), "+
		"%d blocks (%d not cached, %d of them mapped, %d bytes read); %d tails, %d bytes",
		l.Gets, l.MemtableHits, l.TableHits, l.TableSearches,
		l.WastedReads, l.Blocks, l.BlocksRead, l.BlocksMapped, l.BytesRead, l.TailLoads, l.TailBytes)
	if p := m.Prefixes; p != (PrefixMetrics{}) {
		line("prefix filters: %d probes, %d negative; %d tables opened without; %d bytes",
			p.Probes, p.Negatives, p.Unasked, m.Memory.PrefixFilters)
	}
	c := m.Cache
	line("cache: %d blocks of %d bytes, capacity %d; %d hits (%.3g), %d misses, %d inserts, %d evictions",
		c.Blocks, c.Used, c.Capacity, c.Hits, c.HitRate(), c.Misses, c.Inserts, c.Evictions)
	line("memory: %v", m.Memory)
	r := m.Resources
	if r.Stores > 1 {
		line("resources: of %d stores: %v; %d reserved for memtables; %d of %d files open",
			r.Stores, r.Memory, r.MemtablesReserved, r.OpenFiles, r.MaxOpenFiles)
	}
	if r.OverBudget > 0 {
		line("over budget: %d bytes", r.OverBudget)
	}
	f := m.Files
	line("files: %d tables, %d obsolete; %d of %d open", f.Tables, f.Obsolete, f.Open, f.MaxOpen)
	w := m.Writes
	line("writes: %d in %d groups, log %d bytes, %d syncs; %d ingests, %d bytes",
		w.Operations, w.Groups, w.LogBytes, w.LogSyncs, w.Ingests, w.IngestBytes)
	line("background: %d flushes, %d bytes; %d compactions, %d bytes in, %d out, %d of them only rewritten; "+
		"%d moves; write amplification %.2f", w.Flushes, w.FlushBytes, w.Compactions, w.CompactedRead,
		w.CompactedBytes, w.RewrittenBytes, w.Moves, w.WriteAmplification())
	line("stalls: level 0 slowed writes %v, and stopped them %v; a memtable stopped them %v",
		w.SlowedByLevel0, w.StoppedByLevel0, w.StoppedByMemtable)
	if m.Settled && m.Backlog.Bytes == 0 { // a read-only store is settled even with a backlog
		line("compaction: settled, base level %d", m.Backlog.Base)
	} else {
		line("compaction: %d bytes to do, %d runs too many in level 0, base level %d",
			m.Backlog.Bytes, m.Backlog.Runs, m.Backlog.Base)
	}
	line("readers: %d iterators, %d snapshots, the oldest %v",
		m.Readers.Iterators, m.Readers.Snapshots, m.Readers.OldestSnapshot.Round(time.Millisecond))
	s := max(m.Uptime.Seconds(), 1e-9)
	line("in %v, a second: %.1f lookups, %.1f writes, %.0f bytes of logs, %.0f of flushes, %.0f of compactions",
		m.Uptime.Round(time.Millisecond), float64(l.Gets)/s, float64(w.Operations)/s, float64(w.LogBytes)/s,
		float64(w.FlushBytes)/s, float64(w.CompactedBytes)/s)
	return b.String()
}

// String returns the sum, the budget and the bytes of each part.
func (m MemoryMetrics) String() string {
	return fmt.Sprintf("%d bytes of a budget of %d: memtables %d, filters %d, indexes %d, range deletes %d, cache %d",
		m.Sum(), m.Budget, m.Memtables, m.Filters, m.Indexes, m.RangeDeletes, m.Cache)
}

// String returns text like "3 times, 1.5s".
func (s StallMetrics) String() string { return fmt.Sprintf("%d times, %v", s.Count, s.Duration) }
