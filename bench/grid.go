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
