package inspect

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/words"
)

func trimRight(s string) string { return strings.TrimRight(s, " ") }

// WriteText writes a filter as text: what it is, what is off, its header, its rates, and each unit with its figures, its
// histogram and its map; name says which filter it is. With color, flags are red and two regions of the map share a cell, one
// above the other.
func (r *Filter) WriteText(w io.Writer, name string, color bool) {
	words.Wrapped(w, r.line(name))
	for _, f := range r.Flags {
		text := fmt.Sprintf("! %s: %s", f.Name, meaning(f))
		if color {
			fmt.Fprint(w, "\x1b[1;31m")
		}
		words.Wrapped(w, text)
		if color {
			fmt.Fprint(w, "\x1b[0m")
		}
	}
	fmt.Fprintln(w, "\nheader:")
	r.headerRows().write(w, "  ", 2, 0)
	if r.Measured == nil {
		return
	}
	drawRates(w, r)
	for i := range r.Units {
		drawUnit(w, i, r, color)
	}
}

// kind is what the filter is, in words.
func (r *Filter) kind() string {
	switch r.Kind {
	case "blocked bloom":
		return "blocked Bloom"
	case "ribbon":
		return "Ribbon"
	}
	return r.Kind
}

// line is the filter in a line.
func (r *Filter) line(name string) string {
	return fmt.Sprintf("%s: %s, %s, %s, %s at offset %d, %.1f bits per key",
		name, r.kind(), words.Plural(len(r.Units), "unit"), words.Plural(r.Keys, "key"), words.Plural(r.Bytes, "byte"), r.Offset, r.BitsPerKey)
}

// meaning is what a flag means, with nothing in it that could drive a terminal.
func meaning(f bloomblock.Flag) string { return string(words.AppendPrintable(nil, []byte(f.Meaning))) }

func drawRates(w io.Writer, r *Filter) {
	fmt.Fprintln(w, "\nfalse positive rate:")
	r.rateRows().write(w, "", 1, tabwriter.AlignRight)
}

// unitLine is unit i in a line.
func (r *Filter) unitLine(i int) string {
	u := &r.Units[i]
	what := words.Plural(u.Probes, "probe")
	if u.Columns > 0 {
		what = fmt.Sprintf("Ribbon, %s, %d %% overhead, %s in %s of 64, %d with a column more",
			words.Plural(u.Columns, "column"), u.Overhead, words.Plural(u.Slots, "slot"), words.Plural(u.Segments, "segment"), u.Wide)
	}
	return fmt.Sprintf("%s: %s, %s of 64 bytes, %d bytes at offset %d, %.1f bits per key, crc32c %s",
		unitName(i), what, words.Plural(u.Blocks, "block"), u.Bytes, r.Offset+u.Offset, u.PerKey, u.CRC)
}

// extremes are the emptiest and the fullest block of a unit.
func extremes(u *bloomblock.UnitExam) string {
	return fmt.Sprintf("the emptiest block has %d bits set, the fullest %d", u.Min, u.Max)
}

// worstLine is the worst block of a unit, if it has one.
func (r *Filter) worstLine(u *bloomblock.UnitExam) string {
	b := u.Worst
	if b == nil {
		return ""
	}
	return fmt.Sprintf("worst block: %d at offset %d, rate %.3g; one so full by chance: %.2g", b.Index, r.Offset+b.Offset, b.Rate, b.Chance)
}

// mapScale says what the cells of a unit's map are.
func mapScale(u *bloomblock.UnitExam, scale string) string {
	return fmt.Sprintf("a cell is %s, the %s the fuller: %s to %s of the bits set",
		words.Plural(u.RegionBlocks, "block"), scale, percent(slices.Min(u.Regions)), percent(slices.Max(u.Regions)))
}

func drawUnit(w io.Writer, i int, r *Filter, color bool) {
	u := &r.Units[i]
	fmt.Fprintln(w)
	words.Wrapped(w, r.unitLine(i))
	statRows(u).write(w, "", 2, tabwriter.AlignRight)
	fmt.Fprintln(w, extremes(u))
	if worst := r.worstLine(u); worst != "" {
		words.Wrapped(w, worst)
	}
	if u.Blocks < drawnBlocks {
		return
	}
	drawHistogram(w, u.Histogram)
	drawMap(w, u, color)
}

const (
	barWidth    = 40
	drawnBlocks = 8 // fewer make no picture
)

// drawHistogram draws a bar for each bin, and where it should end.
func drawHistogram(w io.Writer, bins []bloomblock.Bin) {
	most := 0.0
	for _, b := range bins {
		most = max(most, float64(b.Blocks), b.Want)
	}
	if most == 0 {
		return
	}
	fmt.Fprintf(w, "\n  %9s %9s %9s   │ is where theory ends the bar\n", "set bits", "blocks", "want")
	for i, row := range binRows(bins).rows {
		b := bins[i]
		bar := []rune(strings.Repeat(" ", barWidth+1))
		for i := range int(math.Round(float64(b.Blocks) / most * barWidth)) {
			bar[i] = '█'
		}
		bar[int(math.Round(b.Want/most*barWidth))] = '│'
		fmt.Fprintln(w, trimRight(fmt.Sprintf("  %9s %9s %9s   %s", row[0], row[1], row[2], string(bar))))
	}
}
