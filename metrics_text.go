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

// String returns the figures as text for people, in lines of at most 80 characters: the levels that have tables, and
// then what is not zero of the rest, each figure after its JSON name, with ratios and rates that follow from them.
func (m Metrics) String() string {
	var b strings.Builder
	m.writeLevels(&b)
	var filters struct {
		Shed    int `json:"filters_shed"`
		Damaged int `json:"filters_damaged"`
	}
	for _, l := range m.Levels {
		filters.Shed += l.FiltersShed
		filters.Damaged += l.FiltersDamaged
	}
	writeFigures(&b, "store", figures(m, false), figures(filters, false))
	if m.BudgetNeeded > m.Memory.Budget && (m.FPRPromised > m.FPRAsked || m.ReadsPromised > 2*m.FPRAsked) {
		words.Wrapped(&b, "memory is too short for the rate that is asked: all filters need a MemoryBudget of "+
			words.MiB(m.BudgetNeeded))
	}
	for field, f := range reflect.ValueOf(m).Fields() {
		if f.Kind() != reflect.Struct {
			continue
		}
		var derived any = struct{}{}
		switch f := f.Interface().(type) {
		case LookupMetrics:
			derived = struct {
				Absent         uint64  `json:"absent"`
				FPR            float64 `json:"fpr"`
				ReadsPerAbsent float64 `json:"reads_per_absent"`
			}{f.Absent(), f.FPR(), f.ReadsPerAbsent()}
		case CacheMetrics:
			derived = struct {
				HitRate float64 `json:"hit_rate"`
			}{f.HitRate()}
		case MemoryMetrics:
			derived = struct {
				Sum int64 `json:"sum"`
			}{f.Sum()}
		case WriteMetrics:
			derived = struct {
				WriteAmplification float64 `json:"write_amplification"`
			}{f.WriteAmplification()}
		}
		writeFigures(&b, name(field), figures(f.Interface(), false), figures(derived, false))
	}
	if m.Resources.Stores > 1 {
		writeFigures(&b, "memory of all stores", figures(m.Resources.Memory, false))
	}
	for _, c := range m.Work.Compactions {
		writeFigures(&b, "compaction", figures(c, true))
	}
	perSecond := func(n uint64) uint64 { return uint64(float64(n) / max(m.Uptime.Seconds(), 1e-9)) }
	writeFigures(&b, "per second", figures(struct {
		Gets           uint64 `json:"gets"`
		Operations     uint64 `json:"operations"`
		LogBytes       uint64 `json:"log_bytes"`
		FlushBytes     uint64 `json:"flush_bytes"`
		CompactedBytes uint64 `json:"compacted_bytes"`
	}{
		perSecond(m.Lookups.Gets), perSecond(m.Writes.Operations), perSecond(m.Writes.LogBytes),
		perSecond(m.Writes.FlushBytes), perSecond(m.Writes.CompactedBytes),
	}, false))
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

// figures returns the figures of a struct as text, after their JSON names, without those that are zero unless zeros is
// set, and without structs and slices in it. An int64, and a uint64 that is named so, is a number of bytes.
func figures(of any, zeros bool) (parts []string) {
	for field, f := range reflect.ValueOf(of).Fields() {
		if f.IsZero() && !zeros {
			continue
		}
		text := ""
		switch v := f.Interface().(type) {
		case time.Duration:
			text = " " + v.Round(time.Millisecond).String()
		case int:
			text = " " + words.Count(v)
		case int64:
			text = " " + words.Size(v)
		case uint64:
			if text = " " + words.Count(v); strings.Contains(name(field), "bytes") {
				text = " " + words.Size(v)
			}
		case float64:
			text = fmt.Sprintf(" %.4g", v)
		case StallMetrics:
			text = fmt.Sprintf(" %s for %v", words.Plural(v.Count, "time"), v.Duration.Round(time.Millisecond))
		case bool:
		default:
			continue
		}
		parts = append(parts, name(field)+text)
	}
	return parts
}

// name returns the JSON name of a field in words.
func name(f reflect.StructField) string {
	return strings.ReplaceAll(strings.TrimSuffix(f.Tag.Get("json"), "_ns"), "_", " ")
}
