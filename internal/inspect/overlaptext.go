package inspect

import (
	"fmt"
	"io"
	"strings"

	"github.com/bloomkv/bloomkv/internal/words"
)

const (
	wideOverlap = 16 // members of an overlap whose shares are printed in percent; of more in tenths
	mostOverlap = 64 // rows and columns
)

// writeText writes a matrix.
func (o *Overlap) writeText(w io.Writer) {
	n := len(o.Members)
	shown := min(n, mostOverlap)
	shares := make([][]float64, shown)
	for i := range shares {
		shares[i] = make([]float64, shown)
		for k := range shares[i] {
			shares[i][k] = -1
		}
	}
	worst := 0.0
	for _, p := range o.Pairs {
		if worst = max(worst, p.Err); p.A < shown && p.B < shown {
			shares[p.A][p.B] = p.Share
		}
	}
	percent := n <= wideOverlap
	unit := "tenths"
	if percent {
		unit = "percent"
	}
	fmt.Fprintf(w, "\noverlap of %s: %s of a row's keys that are in a column's\n", o.Of, unit)
	if percent {
		fmt.Fprint(w, strings.Repeat(" ", 14))
		for i := range shown {
			fmt.Fprintf(w, "%4d", i)
		}
		fmt.Fprintln(w)
	}
	for i := range shown {
		m := &o.Members[i]
		name := m.File
		if name == "" {
			name = fmt.Sprintf("%d/%d", m.Level, m.Run)
		}
		var row strings.Builder
		for k, share := range shares[i] {
			row.WriteString(overlapCell(share, i == k, percent))
		}
		fmt.Fprintf(w, "%2d %-10s %s\n", i, words.Cut(name, 10), strings.TrimRight(row.String(), " "))
	}
	text := "a dot is a pair whose ranges are apart, or of which nothing is known"
	if shown < n {
		text += fmt.Sprintf("; of %d %s the first %d are here, --json has all", n, o.Of, shown)
	}
	if len(o.Pairs) > 0 {
		text += fmt.Sprintf(". Shares are estimates, with standard errors of up to %.2g %%", 100*worst)
	}
	words.Wrapped(w, text)
	words.Wrapped(w, o.line())
}

// line is what a compaction of all would write.
func (o *Overlap) line() string {
	if !o.Known {
		return "what a compaction of all would write is not known: a filter or a sample is missing, or there are range deletes"
	}
	return fmt.Sprintf("a compaction of all would write about %.0f keys (standard error %.0f), and drop %.0f entries", o.Written, o.Err, o.Garbage)
}

func overlapCell(share float64, self, percent bool) string {
	switch {
	case self && percent:
		return "   -"
	case self:
		return "-"
	case share < 0 && percent:
		return "   ."
	case share < 0:
		return "."
	case percent:
		return fmt.Sprintf("%4.0f", 100*share)
	case share >= 0.95:
		return "*" // ten
	default:
		return fmt.Sprintf("%.0f", 10*share)
	}
}
