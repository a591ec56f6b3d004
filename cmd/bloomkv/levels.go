package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/bloomkv/bloomkv"
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

// printLevels prints a row for each level.
func (a *app) printLevels(levels []levelStats) {
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "level\truns\ttables\tkeys\tdeletes\tbytes\tfilter bytes\tbits/key\t")
	for _, l := range levels {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t\n", l.Level, l.Runs, l.Tables, l.Entries-l.Deletes,
			l.Deletes, l.Bytes, l.FilterBytes, l.BitsPerKey)
	}
	w.Flush()
	fmt.Fprintln(a.Out)
	fmt.Fprintln(w, "level\tpromised\tpredicted\tmeasured\tfalse pos\tnegative\ttrue pos\tnot asked\t")
	for _, l := range levels {
		fmt.Fprintf(w, "%d\t%.3g\t%.3g\t%s\t%d\t%d\t\n", l.Level, l.FPRPromised, l.FPRPredicted,
			measured(l.FilterAnswers), l.TruePositives, l.Unfiltered)
	}
	w.Flush()
}

// measured returns the columns of a measured rate, "-" if nothing was counted, and of the counts behind it.
func measured(f bloomkv.FilterAnswers) string {
	rate := "-"
	if f.FalsePositives+f.FilterNegatives > 0 {
		rate = fmt.Sprintf("%.3g", f.FPR())
	}
	return fmt.Sprintf("%s\t%d\t%d", rate, f.FalsePositives, f.FilterNegatives)
}
