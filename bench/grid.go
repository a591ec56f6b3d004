package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// A grid is a table.
type grid struct {
	head []string
	rows [][]string
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

// print prints the columns aligned, the first one to the left.
func (g *grid) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	width := 0
	for _, row := range append([][]string{g.head}, g.rows...) {
		width = max(width, len(row[0]))
	}
	for _, row := range append([][]string{g.head}, g.rows...) {
		fmt.Fprintf(t, "%-*s\t%s\t\n", width, row[0], strings.Join(row[1:], "\t"))
	}
	return t.Flush()
}

// cellWidth is the least width of a column of rows that are printed as they come.
const cellWidth = 8

// printFrom prints the rows from one on, for a table whose rows are printed as they come. Before the first one it
// prints the head. Cells that are wider than those before move the rest of their row.
func (g *grid) printFrom(w io.Writer, row int) (err error) {
	widths := make([]int, len(g.head))
	for i, name := range g.head {
		widths[i] = max(len(name), cellWidth)
	}
	rows := g.rows[row:]
	if row == 0 {
		rows = append([][]string{g.head}, rows...)
	}
	for _, cells := range rows {
		line := []string{fmt.Sprintf("%-*s", widths[0]+1, cells[0])}
		for i, cell := range cells[1:] {
			line = append(line, fmt.Sprintf("%*s", widths[i+1], cell))
		}
		if _, err = fmt.Fprintln(w, strings.Join(line, "  ")); err != nil {
			return err
		}
	}
	return nil
}

// perLookup formats a number per lookup with enough digits to distinguish a thousandth from zero.
func perLookup(x float64) string {
	if x >= 1 {
		return fmt.Sprintf("%.3f", x)
	}
	return fmt.Sprintf("%.5f", x)
}

func ns(x float64) string    { return fmt.Sprintf("%.1f", x) }
func ratio(x float64) string { return fmt.Sprintf("%.2f", x) }
func share(x float64) string { return fmt.Sprintf("%.3f", x) }

// met returns in words whether a target is met.
func met(yes bool) string {
	if yes {
		return "met"
	}
	return "not met"
}
