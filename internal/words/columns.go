package words

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Columns writes rows of cells under a head, aligned to the right. A column other than the first in which no row has a
// figure (all cells are empty, "0" or "-") is left out. The columns are one space apart if they would not fit into
// Width with two.
func Columns(w io.Writer, head []string, rows [][]string) {
	var kept []int
	total := 0
	widths := make([]int, len(head))
	for i, name := range head {
		figure := func(r []string) bool { return r[i] != "" && r[i] != "0" && r[i] != "-" }
		if i > 0 && !slices.ContainsFunc(rows, figure) {
			continue
		}
		widths[i] = utf8.RuneCountInString(name)
		for _, r := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i]))
		}
		kept = append(kept, i)
		total += widths[i]
	}
	gap := "  "
	if total+len(gap)*(len(kept)-1) > Width {
		gap = " "
	}
	for _, r := range slices.Concat([][]string{head}, rows) {
		var cells []string
		for _, i := range kept {
			cells = append(cells, fmt.Sprintf("%*s", widths[i], r[i]))
		}
		fmt.Fprintln(w, strings.Join(cells, gap))
	}
}

// Size formats a number of bytes with three digits and a decimal unit, such as "512 bytes" or "12.3 MB".
func Size[N int | int64 | uint64](n N) string {
	if n < 1000 {
		return Plural(n, "byte")
	}
	const most = 999.5 // from here on, three digits are a thousand
	size, units := float64(n)/1000, []string{"kB", "MB", "GB", "TB", "PB", "EB"}
	for size >= most && len(units) > 1 {
		size, units = size/1000, units[1:]
	}
	return fmt.Sprintf("%.3g %s", size, units[0])
}
