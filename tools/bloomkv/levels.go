package main

import (
	"fmt"
	"strconv"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
)

// levelStats is one level in JSON.
type levelStats struct {
	bloomkv.LevelMetrics

	BitsPerKey float64 `json:"bits_per_key"` // of filters on disk, per entry
}

// levelsOf returns the levels that have tables.
func levelsOf(m *bloomkv.Metrics) []levelStats {
	levels := []levelStats{} // in JSON no levels are [] and not null
	for _, l := range m.Levels {
		if l.Tables > 0 {
			levels = append(levels, levelStats{l, 8 * float64(l.FilterBytes) / float64(max(l.Entries, 1))})
		}
	}
	return levels
}

// printLevels prints a row for each level: what it holds, and then the rates of its filters.
func (a *app) printLevels(levels []levelStats) {
	var holds, rates [][]string
	for i := range levels {
		l := &levels[i]
		level := strconv.Itoa(l.Level)
		holds = append(holds, []string{
			level, strconv.Itoa(l.Runs), strconv.Itoa(l.Tables), words.Count(l.Entries - l.Deletes),
			words.Count(l.Deletes), words.Count(l.RangeDeletes), words.Size(l.Bytes), words.Size(l.FilterBytes),
			fmt.Sprintf("%.1f", l.BitsPerKey),
		})
		rates = append(rates, append([]string{level}, rateCells(l.FPRPromised, l.FPRPredicted, &l.FilterAnswers)...))
	}
	words.Columns(a.Out, []string{
		"level", "runs", "tables", "keys", "deletes", "range deletes", "bytes", "filters", "bits/key",
	}, holds)
	fmt.Fprintln(a.Out)
	words.Columns(a.Out, append([]string{"level"}, rateHead...), rates)
}

// rateHead are the columns of rateCells: rates, and how many answers of filters to lookups were false yes, no and true
// yes. The last column counts searches without an answer.
var rateHead = []string{"promised", "predicted", "measured", "false yes", "no", "true yes", "not asked"}

// rateCells returns the rates of a filter or of several, and the counts behind the measured rate, which is "-" without
// any.
func rateCells(promised, predicted float64, f *bloomkv.FilterAnswers) []string {
	measured := "-"
	if f.FalsePositives+f.FilterNegatives > 0 {
		measured = fmt.Sprintf("%.3g", f.FPR())
	}
	return []string{
		fmt.Sprintf("%.3g", promised), fmt.Sprintf("%.3g", predicted), measured, words.Count(f.FalsePositives),
		words.Count(f.FilterNegatives), words.Count(f.TruePositives), words.Count(f.Unfiltered),
	}
}
