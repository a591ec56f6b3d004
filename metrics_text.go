package bloomkv

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

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
	writeFigures(&b, "store", figures(m), figure("filters shed", shed), figure("filters damaged", damaged))
	if m.BudgetNeeded > m.Memory.Budget && (m.FPRPromised > m.FPRAsked || m.ReadsPromised > 2*m.FPRAsked) {
		words.Wrapped(&b, "memory is too short for the rate that is asked: all filters need a MemoryBudget of "+
			words.MiB(m.BudgetNeeded))
	}
	m.writeLevels(&b)
	l, w := m.Lookups, m.Writes
	writeFigures(&b, "lookups", figures(l), figure("absent", l.Absent()), figure("fpr", l.FPR()),
		figure("reads per absent", l.ReadsPerAbsent()))
	writeFigures(&b, "prefixes", figures(m.Prefixes))
	writeFigures(&b, "cache", figures(m.Cache), figure("hit rate", m.Cache.HitRate()))
	writeFigures(&b, "memory", figures(m.Memory), figure("sum", m.Memory.Sum()))
	writeFigures(&b, "resources", figures(m.Resources))
	if m.Resources.Stores > 1 {
		writeFigures(&b, "memory of all stores", figures(m.Resources.Memory))
	}
	writeFigures(&b, "files", figures(m.Files))
	writeFigures(&b, "writes", figures(w), figure("write amplification", w.WriteAmplification()))
	writeFigures(&b, "work", figures(m.Work))
	for _, c := range m.Work.Compactions {
		from := fmt.Sprintf("from %d", c.From) // also 0
		c.From = 0
		writeFigures(&b, "compaction", []string{from}, figures(c))
	}
	writeFigures(&b, "backlog", figures(m.Backlog))
	writeFigures(&b, "readers", figures(m.Readers))
	perSecond := func(name string, n uint64) []string {
		return figure(name, uint64(float64(n)/max(m.Uptime.Seconds(), 1e-9)))
	}
	writeFigures(&b, "per second", perSecond("gets", l.Gets), perSecond("operations", w.Operations),
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

// writeFigures writes figures after a head, in lines that end between two figures, unless there are none.
func writeFigures(b *strings.Builder, head string, parts ...[]string) {
	line := head + ":"
	for i, part := range slices.Concat(parts...) {
		if i > 0 {
			line += ","
		}
		if len(line)+len(" ,")+len(part) > words.Width {
			fmt.Fprintln(b, line)
			line = " "
		}
		line += " " + part
	}
	if line != head+":" {
		fmt.Fprintln(b, line)
	}
}

// figures returns the figures of a struct, after their JSON names, without structs and slices in it.
func figures(of any) (parts []string) {
	for field, f := range reflect.ValueOf(of).Fields() {
		name := strings.ReplaceAll(strings.TrimSuffix(field.Tag.Get("json"), "_ns"), "_", " ")
		parts = append(parts, figure(name, f.Interface())...)
	}
	return parts
}

// figure returns a figure as text, after its name, or nothing if it is zero. An int64, and a uint64 that is named so,
// is a number of bytes.
func figure(name string, of any) []string {
	text := ""
	switch v := of.(type) {
	case time.Duration:
		text = v.Round(time.Millisecond).String()
	case int:
		text = words.Count(v)
	case int64:
		text = words.Size(v)
	case uint64:
		if text = words.Count(v); strings.Contains(name, "bytes") {
			text = words.Size(v)
		}
	case float64:
		text = fmt.Sprintf("%.4g", v)
	case StallMetrics:
		text = fmt.Sprintf("%s for %v", words.Plural(v.Count, "time"), v.Duration.Round(time.Millisecond))
	case bool:
	default:
		return nil
	}
	if reflect.ValueOf(of).IsZero() {
		return nil
	}
	return []string{strings.TrimSpace(name + " " + text)}
}
