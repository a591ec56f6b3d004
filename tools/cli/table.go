package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A Table is text in columns, the first aligned to the left and the others to the right.
type Table struct {
	Intro string // printed above the head
	Head  []string
	Rows  [][]string
	Least int // width of all columns but the first, at least, so that a table that is printed as it grows stays aligned

	widths  []int
	printed int // rows
}

// Add adds a row. Cells at its end may be left out.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Print prints the rows that were added since the last call, and before the first the intro and the head. A column is
// as wide as its widest cell until then.
func (t *Table) Print(w io.Writer) error {
	var b strings.Builder
	rows := t.Rows[t.printed:]
	if t.widths == nil {
		b.WriteString(t.Intro)
		rows = append([][]string{t.Head}, rows...)
		t.widths = make([]int, len(t.Head))
		for i := range t.widths[1:] {
			t.widths[i+1] = t.Least
		}
	}
	t.printed = len(t.Rows)
	for _, row := range rows {
		for i, cell := range row {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		fmt.Fprintf(&line, "%-*s", t.widths[0], row[0])
		for i, cell := range row[1:] {
			fmt.Fprintf(&line, "  %*s", t.widths[i+1], cell)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
