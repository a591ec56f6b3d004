package bloomkv

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bloomkv/bloomkv/internal/words"
)

// String returns the figures as text for people, in lines of at most 80 characters. It leaves out levels without tables
// and most of what is zero.
func (m Metrics) String() string {
	var b strings.Builder
	m.writeLevels(&b)
	for _, l := range []textLine{
		m.wasteText(), m.readsText(), m.filterText(), m.Lookups.text(), m.Lookups.filterText(), m.Lookups.blockText(),
		m.Lookups.tailText(), m.prefixText(), m.Cache.text(), m.Memory.text(), m.Resources.text(), m.Files.text(),
		m.Writes.text(), m.Writes.backgroundText(), m.Writes.stallText(), m.compactionText(), m.Work.flushText(),
		m.Work.compactionText(), m.Readers.text(), m.rateText(),
	} {
		if len(l.parts) > 0 {
			words.Wrapped(&b, l.head+": "+strings.Join(l.parts, ", "))
		}
	}
	return b.String()
}

// A textLine is a line of figures.
type textLine struct {
	head  string
	parts []string
}

// add adds a part if there is something to say.
func (l *textLine) add(there bool, format string, args ...any) {
	if there {
		l.parts = append(l.parts, fmt.Sprintf(format, args...))
	}
}

// writeLevels writes a row for each level with tables.
func (m Metrics) writeLevels(b *strings.Builder) {
	head := []string{"level", "runs", "tables", "bytes", "entries", "filters", "promised", "predicted", "measured"}
	var rows [][]string
	for _, l := range m.Levels {
		if l.Tables == 0 {
			continue
		}
		measured := "-"
		if l.FalsePositives+l.FilterNegatives > 0 {
			measured = fmt.Sprintf("%.3g", l.FPRMeasured)
		}
		rows = append(rows, []string{
			strconv.Itoa(l.Level), strconv.Itoa(l.Runs), strconv.Itoa(l.Tables), words.Size(l.Bytes),
			words.Count(l.Entries), words.Size(l.FilterBytesInMemory), fmt.Sprintf("%.3g", l.FPRPromised),
			fmt.Sprintf("%.3g", l.FPRPredicted), measured,
		})
	}
	if len(rows) > 0 {
		words.Columns(b, head, rows)
	}
}

func (m Metrics) wasteText() (l textLine) {
	l.head = "wasted reads of a lookup of an absent key"
	l.add(true, "%.4g promised", m.FPRPromised)
	short := m.memoryShort()
	l.add(!short && m.FPRPromised > m.FPRAsked, "%.4g asked", m.FPRAsked)
	l.add(short, "%.4g asked, for which memory is too short: all filters need a MemoryBudget of %s", m.FPRAsked,
		words.MiB(m.BudgetNeeded))
	l.add(m.FPRPredicted > 0, "%.4g predicted by the filters in memory if every run covers the key", m.FPRPredicted)
	absent := m.Lookups.Absent()
	l.add(absent > 0, "%.4g measured in %s since Open", m.FPRMeasured, words.Plural(absent, "such lookup"))
	return l
}

// memoryShort reports whether memory is too little for the filters that FPRAsked takes, so that lookups search more
// tables or ask filters in files.
func (m Metrics) memoryShort() bool {
	return m.BudgetNeeded > m.Memory.Budget && (m.FPRPromised > m.FPRAsked || m.ReadsPromised > 2*m.FPRAsked)
}

// readsText shows what lookups of absent keys use outside of memory, if memory is too short for their filters.
func (m Metrics) readsText() (l textLine) {
	l.head = "reads of a lookup of an absent key outside of memory"
	l.add(m.memoryShort(), "%.4g promised", m.ReadsPromised)
	l.add(m.memoryShort() && m.Lookups.Absent() > 0, "%.4g measured since Open", m.Lookups.ReadsPerAbsent())
	return l
}

func (m Metrics) filterText() (l textLine) {
	l.head = "filters"
	shed, damaged := 0, 0
	for _, level := range m.Levels {
		shed += level.FiltersShed
		damaged += level.FiltersDamaged
	}
	l.add(m.TablesOffPlan > 0, "%s, %s, with filters by other options: Compact rewrites them",
		words.Plural(m.TablesOffPlan, "table"), words.Size(m.BytesOffPlan))
	l.add(shed > 0, "%s whose filter is smaller in memory than asked, or not there", words.Plural(shed, "table"))
	l.add(damaged > 0, "%s with a damaged filter", words.Plural(damaged, "table"))
	return l
}

func (m LookupMetrics) text() (l textLine) {
	l.head = "lookups"
	l.add(m.Gets > 0, "%s", words.Count(m.Gets))
	l.add(m.MemtableHits > 0, "%s answered by memtables", words.Count(m.MemtableHits))
	l.add(m.TableHits > 0, "%s answered by tables", words.Count(m.TableHits))
	l.add(m.TableSearches > 0, "%s of tables", words.Plural(m.TableSearches, "search"))
	l.add(m.WastedReads > 0, "%s of them wasted", words.Count(m.WastedReads))
	return l
}

func (m LookupMetrics) filterText() (l textLine) {
	l.head = "filters asked by lookups"
	l.add(m.FilterProbes > 0, "%s", words.Count(m.FilterProbes))
	l.add(m.FilterNegatives > 0, "%s excluded the key", words.Count(m.FilterNegatives))
	l.add(m.TruePositives > 0, "%s let it through rightly", words.Count(m.TruePositives))
	l.add(m.FalsePositives > 0, "%s let it through wrongly (a rate of %.3g)", words.Count(m.FalsePositives), m.FPR())
	return l
}

func (m LookupMetrics) blockText() (l textLine) {
	l.head = "blocks searched by lookups"
	l.add(m.Blocks > 0, "%s", words.Count(m.Blocks))
	l.add(m.BlocksRead > 0, "%s not in the cache", words.Count(m.BlocksRead))
	l.add(m.BlocksMapped > 0, "%s of these in mapped files", words.Count(m.BlocksMapped))
	l.add(m.BytesRead > 0, "%s read from files", words.Size(m.BytesRead))
	return l
}

func (m LookupMetrics) tailText() (l textLine) {
	l.head = "loaded from tables"
	l.add(m.TailLoads > 0, "%s", words.Plural(m.TailLoads, "index"))
	l.add(m.TailBytes > 0, "%s with the filters", words.Size(m.TailBytes))
	return l
}

func (m Metrics) prefixText() (l textLine) {
	l.head = "prefix filters"
	l.add(m.Prefixes.Probes > 0, "asked %s times", words.Count(m.Prefixes.Probes))
	l.add(m.Prefixes.Negatives > 0, "%s excluded the prefix", words.Count(m.Prefixes.Negatives))
	l.add(m.Prefixes.Unasked > 0, "%s opened without", words.Plural(m.Prefixes.Unasked, "table"))
	l.add(m.Memory.PrefixFilters > 0, "%s in memory", words.Size(m.Memory.PrefixFilters))
	return l
}

func (c CacheMetrics) text() (l textLine) {
	l.head = "block cache"
	l.add(c.Blocks > 0, "%s with %s of at most %s", words.Plural(c.Blocks, "block"), words.Size(c.Used),
		words.Size(c.Capacity))
	l.add(c.Hits+c.Misses > 0, "%.3g %% of %s found", 100*c.HitRate(), words.Plural(c.Hits+c.Misses, "block"))
	l.add(c.Inserts > 0, "%s added", words.Count(c.Inserts))
	l.add(c.Evictions > 0, "%s evicted", words.Count(c.Evictions))
	return l
}

func (m MemoryMetrics) text() textLine { return textLine{"memory", []string{m.String()}} }

func (r ResourcesMetrics) text() (l textLine) {
	l.head = "resources"
	if r.Stores > 1 {
		l.add(true, "shared by %s", words.Plural(r.Stores, "store"))
		l.add(true, "in all %v", r.Memory)
		l.add(true, "%s reserved for memtables", words.Size(r.MemtablesReserved))
		l.add(true, "%s of %s open", words.Count(r.OpenFiles), words.Plural(r.MaxOpenFiles, "file"))
	}
	l.add(r.OverBudget > 0, "over budget by %s", words.Size(r.OverBudget))
	return l
}

func (f FileMetrics) text() (l textLine) {
	l.head = "files"
	l.add(f.Tables > 0, "%s", words.Plural(f.Tables, "table"))
	l.add(f.Obsolete > 0, "%s obsolete but not yet removed", words.Count(f.Obsolete))
	l.add(f.Open > 0, "%s open of at most %s", words.Count(f.Open), words.Count(f.MaxOpen))
	return l
}

func (w WriteMetrics) text() (l textLine) {
	l.head = "writes"
	l.add(w.Operations > 0, "%s", words.Count(w.Operations))
	l.add(w.Groups > 0, "written to the log in %s", words.Plural(w.Groups, "group"))
	l.add(w.LogBytes > 0, "%s", words.Size(w.LogBytes))
	l.add(w.Updates > 0, "%s", words.Plural(w.Updates, "update"))
	l.add(w.Conflicts > 0, "%s", words.Plural(w.Conflicts, "conflict"))
	l.add(w.LogSyncs > 0, "%s waited for", words.Plural(w.LogSyncs, "sync"))
	l.add(w.Ingests > 0, "%s of %s", words.Plural(w.Ingests, "ingest"), words.Size(w.IngestBytes))
	return l
}

func (w WriteMetrics) backgroundText() (l textLine) {
	l.head = "background work"
	l.add(w.Flushes > 0, "%s of %s", words.Plural(w.Flushes, "flush"), words.Size(w.FlushBytes))
	l.add(w.Compactions > 0, "%s of %s into %s", words.Plural(w.Compactions, "compaction"), words.Size(w.CompactedRead),
		words.Size(w.CompactedBytes))
	l.add(w.RewrittenBytes > 0, "%s of these only to rewrite tables", words.Size(w.RewrittenBytes))
	l.add(w.Moves > 0, "%s moved to another level", words.Plural(w.Moves, "table"))
	l.add(w.WriteAmplification() > 0, "write amplification %.2f", w.WriteAmplification())
	return l
}

func (w WriteMetrics) stallText() (l textLine) {
	l.head = "writes that waited"
	l.add(w.SlowedByLevel0.Count > 0, "level 0 slowed them %v", w.SlowedByLevel0)
	l.add(w.StoppedByLevel0.Count > 0, "level 0 stopped them %v", w.StoppedByLevel0)
	l.add(w.StoppedByMemtable.Count > 0, "a memtable stopped them %v", w.StoppedByMemtable)
	return l
}

func (m Metrics) compactionText() (l textLine) {
	l.head = "compaction"
	switch b := m.Backlog; {
	case b.Bytes > 0 || b.Runs > 0: // a read-only store is settled even then
		l.add(true, "%s to do", words.Size(b.Bytes))
		l.add(b.Runs > 0, "%s too many in level 0", words.Plural(b.Runs, "run"))
	case m.Settled:
		l.add(true, "settled")
	default: // a flush, or filters to load; or the store is closed
		l.add(m.Levels != nil, "not settled yet")
	}
	l.add(m.Backlog.Base > 0, "level 0 is merged into level %d", m.Backlog.Base)
	return l
}

func (w WorkMetrics) flushText() (l textLine) {
	l.head = "flushing"
	l.add(w.Memtables > 0, "%s", words.Plural(w.Memtables, "memtable"))
	l.add(w.Memtables > 0, "%s of %s read", words.Count(w.VersionsFlushed), words.Plural(w.Versions, "version"))
	return l
}

func (w WorkMetrics) compactionText() (l textLine) {
	l.head = "compacting"
	for _, c := range w.Compactions {
		l.add(true, "level %d into %d (%s of %s, %s of %s read in %v)", c.From, c.To, words.Plural(c.Tables, "table"),
			words.Size(c.Bytes), words.Count(c.VersionsRead), words.Plural(c.Versions, "version"),
			c.Duration.Round(time.Millisecond))
	}
	return l
}

func (r ReaderMetrics) text() (l textLine) {
	l.head = "readers"
	l.add(r.Iterators > 0, "%s", words.Plural(r.Iterators, "iterator"))
	l.add(r.Snapshots > 0, "%s", words.Plural(r.Snapshots, "snapshot"))
	l.add(r.Snapshots > 0, "the oldest open for %v", r.OldestSnapshot.Round(time.Millisecond))
	return l
}

func (m Metrics) rateText() (l textLine) {
	l.head = fmt.Sprintf("per second, over %v", m.Uptime.Round(time.Millisecond))
	s := max(m.Uptime.Seconds(), 1e-9)
	size := func(n uint64, what string) {
		l.add(n > 0, "%s of %s", words.Size(uint64(float64(n)/s)), what)
	}
	l.add(m.Lookups.Gets > 0, "%.1f lookups", float64(m.Lookups.Gets)/s)
	l.add(m.Writes.Operations > 0, "%.1f writes", float64(m.Writes.Operations)/s)
	size(m.Writes.LogBytes, "logs")
	size(m.Writes.FlushBytes, "flushes")
	size(m.Writes.CompactedBytes, "compactions")
	return l
}

// String returns the sum, the budget, and the size of each part that is not empty; then what is mapped, if there is
// anything.
func (m MemoryMetrics) String() string {
	text := words.Size(m.Sum()) + " of a budget of " + words.Size(m.Budget)
	var parts []string
	for _, part := range []struct {
		name  string
		bytes int64
	}{
		{"memtables", m.Memtables},
		{"filters", m.Filters},
		{"indexes", m.Indexes},
		{"range deletes", m.RangeDeletes},
		{"tables", m.Tables},
		{"block cache", m.Cache},
	} {
		if part.bytes > 0 {
			parts = append(parts, part.name+" "+words.Size(part.bytes))
		}
	}
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	if m.Mapped > 0 {
		text += "; beside it " + words.Size(m.Mapped) + " of files mapped, of at most " + words.Size(m.MaxMapped)
	}
	return text
}

// String returns text like "3 times, 1.5s".
func (s StallMetrics) String() string {
	return fmt.Sprintf("%s, %v", words.Plural(s.Count, "time"), s.Duration)
}
