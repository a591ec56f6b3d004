package bloomkv

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bloomkv/bloomkv/internal/words"
)

// String returns the figures as text for people, in lines of at most 80 characters: the promise, the levels that have
// tables, and then what is not zero of the rest, each figure after its JSON name, with ratios and rates that follow.
func (m Metrics) String() string {
	var b strings.Builder
	shed, damaged := 0, 0
	for _, l := range m.Levels {
		shed, damaged = shed+l.FiltersShed, damaged+l.FiltersDamaged
	}
	words.Figures(&b, "store", words.FiguresOf(m), words.Figure("filters shed", shed),
		words.Figure("filters damaged", damaged))
	if m.BudgetNeeded > m.Memory.Budget && (m.FPRPromised > m.FPRAsked || m.ReadsPromised > 2*m.FPRAsked) {
		words.Wrapped(&b, "memory is too short for the rate that is asked: all filters need a MemoryBudget of "+
			words.MiB(m.BudgetNeeded))
	}
	m.writeLevels(&b)
	l, w := m.Lookups, m.Writes
	words.Figures(&b, "lookups", words.FiguresOf(l), words.Figure("absent", l.Absent()), words.Figure("fpr", l.FPR()),
		words.Figure("reads per absent", l.ReadsPerAbsent()))
	words.Figures(&b, "prefixes", words.FiguresOf(m.Prefixes))
	words.Figures(&b, "cache", words.FiguresOf(m.Cache), words.Figure("hit rate", m.Cache.HitRate()))
	words.Figures(&b, "memory", words.FiguresOf(m.Memory), words.Figure("sum", m.Memory.Sum()))
	words.Figures(&b, "resources", words.FiguresOf(m.Resources))
	if m.Resources.Stores > 1 {
		words.Figures(&b, "memory of all stores", words.FiguresOf(m.Resources.Memory))
	}
	words.Figures(&b, "files", words.FiguresOf(m.Files))
	words.Figures(&b, "writes", words.FiguresOf(w), words.Figure("write amplification", w.WriteAmplification()))
	words.Figures(&b, "work", words.FiguresOf(m.Work))
	for _, c := range m.Work.Compactions {
		from := fmt.Sprintf("from %d", c.From) // also 0
		c.From = 0
		words.Figures(&b, "compaction", []string{from}, words.FiguresOf(c))
	}
	words.Figures(&b, "backlog", words.FiguresOf(m.Backlog))
	words.Figures(&b, "readers", words.FiguresOf(m.Readers))
	perSecond := func(name string, n uint64) []string {
		return words.Figure(name, uint64(float64(n)/max(m.Uptime.Seconds(), 1e-9)))
	}
	words.Figures(&b, "per second", perSecond("gets", l.Gets), perSecond("operations", w.Operations),
		perSecond("log bytes", w.LogBytes), perSecond("flush bytes", w.FlushBytes),
		perSecond("compacted bytes", w.CompactedBytes))
	return b.String()
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
