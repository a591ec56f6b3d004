package inspect

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/picture"
)

const (
	wideOverlap = 16 // members up to which shares are printed in percent, above in tenths
	mostOverlap = 64 // rows and columns
	pagePairs   = 60 // rows of the table

	worthDrawing = 0.01 // the largest share from which there is a chart of shares
)

// section shows how many keys parts of the tree have in common.
func (o *Overlap) section() section {
	n := min(len(o.Members), mostOverlap)
	g := &picture.Grid{Labels: true, Scale: picture.Scale{High: 1, Unknown: "nothing to compare"}}
	for i := range n {
		row := make([]float64, n)
		for j := range row {
			row[j] = picture.NoValue
		}
		g.Values = append(g.Values, row)
		g.Rows = append(g.Rows, o.Members[i].name())
	}
	g.Columns = g.Rows
	for _, p := range o.Pairs {
		if p.A < n && p.B < n {
			g.Values[p.A][p.B] = p.Share
		}
	}
	s := section{
		id: "overlap", heading: "What " + o.Of + " have in common", label: "overlap of " + o.Of,
		lines: []string{o.line()}, draw: func(w io.Writer, _ bool) { o.draw(w, g.Values) },
	}
	largest := 0.0
	for _, p := range o.Pairs {
		largest = max(largest, p.Share)
	}
	if len(o.Pairs) > 0 && largest < worthDrawing {
		s.lines = append(s.lines, fmt.Sprintf("no two %s share more than %s of their keys", o.Of, percent(largest)))
	}
	if largest >= worthDrawing {
		chart := picture.Chart{
			Name: "overlap", Title: "Share of the keys of a row that are in a column too",
			X: "are in", Y: "share of the keys", FormatY: percent, Grid: g,
			Caption: "Where the shares are large, a compaction writes much less than it reads, since it drops old " +
				"versions. The shares are estimated from samples of keys and from filters.",
		}
		if n < len(o.Members) {
			chart.Caption += fmt.Sprintf(" The first %d of %d %s are drawn.", n, len(o.Members), o.Of)
		}
		s.charts = []picture.Chart{chart}
		s.parts = []section{o.pairSection()}
	}
	return s
}

// pairSection returns the largest overlaps in numbers.
func (o *Overlap) pairSection() section {
	pairs := newTable("", "of", "keys", "are in", "share", "± error")
	largest := slices.Clone(o.Pairs)
	slices.SortStableFunc(largest, func(a, b OverlapPair) int { return cmp.Compare(b.Share, a.Share) })
	for _, p := range largest[:min(pagePairs, len(largest))] {
		a := &o.Members[p.A]
		addRow(pairs, a.name(), count(a.Keys), o.Members[p.B].name(), percent(p.Share), percent(p.Err))
	}
	pairs.Caption = fmt.Sprintf("The largest %d of %d", len(pairs.Rows), len(o.Pairs))
	return section{id: "overlap-pairs", heading: "The overlaps in numbers", table: pairs, pageOnly: true}
}

// name returns the name of a member.
func (m *OverlapMember) name() string {
	if m.File != "" {
		return strings.TrimSuffix(m.File, ".sst")
	}
	return fmt.Sprintf("level %d, run %d", m.Level, m.Run)
}

// draw draws a matrix of shares.
func (o *Overlap) draw(w io.Writer, shares [][]float64) {
	n := len(o.Members)
	shown := min(n, mostOverlap)
	unit, of, width := "tenths", 10.0, 1
	if n <= wideOverlap {
		unit, of, width = "percent", 100, 4
	}
	fmt.Fprintf(w, "%s of a row's keys that a column has too:\n", unit)
	if n <= wideOverlap {
		fmt.Fprint(w, strings.Repeat(" ", 14))
		for i := range shown {
			fmt.Fprintf(w, "%*d", width, i)
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
		for k, share := range shares[i][:shown] {
			fmt.Fprintf(&row, "%*s", width, overlapCell(share, i == k, of))
		}
		fmt.Fprintf(w, "%2d %-10s %s\n", i, cut(name, 10), trimRight(row.String()))
	}
	text := "a dot is a pair whose ranges do not overlap or whose overlap is not known"
	if shown < n {
		text += fmt.Sprintf("; the first %d of %d %s are shown, --json has all", shown, n, o.Of)
	}
	worst := 0.0
	for _, p := range o.Pairs {
		worst = max(worst, p.Err)
	}
	if len(o.Pairs) > 0 {
		text += fmt.Sprintf(". Shares are estimates, with standard errors of up to %.2g %%", 100*worst)
	}
	words.Wrapped(w, text)
}

// round returns a number of keys, 0 or more, as text.
func round(keys float64) string { return count(uint64(math.Round(max(0, keys)))) }

// line describes what a compaction of everything would write.
func (o *Overlap) line() string {
	if !o.Known {
		return "what a compaction of everything would write is not known: a filter or a sample is missing or too " +
			"large, or there are range deletes"
	}
	return fmt.Sprintf("a compaction of everything would write about %s keys (standard error %s), and drop %s "+
		"entries", round(o.Written), round(o.Err), round(o.Garbage))
}

// overlapCell returns a share in hundredths, or in tenths.
func overlapCell(share float64, self bool, of float64) string {
	switch {
	case self:
		return "-"
	case share < 0:
		return "."
	case of == 10 && share >= 0.95:
		return "*" // ten
	}
	return fmt.Sprintf("%.0f", of*share)
}
