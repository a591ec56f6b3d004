package inspect

import (
	"fmt"
	"io"
	"math"
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
	kind := r.Kind
	switch kind {
	case "blocked bloom":
		kind = "blocked Bloom"
	case "ribbon":
		kind = "Ribbon"
	}
	words.Wrapped(w, fmt.Sprintf("%s: %s, %s, %s, %s at offset %d, %.1f bits per key",
		name, kind, words.Plural(len(r.Units), "unit"), words.Plural(r.Keys, "key"), words.Plural(r.Bytes, "byte"), r.Offset, r.BitsPerKey))
	for _, f := range r.Flags {
		text := fmt.Sprintf("! %s: %s", f.Name, words.AppendPrintable(nil, []byte(f.Meaning)))
		if color {
			fmt.Fprint(w, "\x1b[1;31m")
		}
		words.Wrapped(w, text)
		if color {
			fmt.Fprint(w, "\x1b[0m")
		}
	}
	drawHeader(w, r)
	if r.Measured == nil {
		return
	}
	drawRates(w, r)
	for i := range r.Units {
		drawUnit(w, i, r, color)
	}
}

// drawHeader lists the fields, as they are in the file.
func drawHeader(w io.Writer, r *Filter) {
	fmt.Fprintln(w, "\nheader:")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  offset\tbytes\tfield\tvalue")
	for _, f := range r.Header {
		fmt.Fprintf(t, "  %d\t%d\t%s\t%s\n", r.Offset+uint64(f.Offset), f.Bytes, f.Name, words.Cut(f.Value, 40)) //nolint:gosec // an index
	}
	t.Flush()
}

// figure prints a number in some five digits, and a large one whole.
func figure(v float64) string {
	switch size := math.Abs(v); {
	case size >= 1000:
		return fmt.Sprintf("%.0f", v)
	case size < 0.001 && v != 0:
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.5g", v)
}

// errorFigure prints a standard error in some two digits.
func errorFigure(v float64) string {
	if v >= 10 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

// deviations prints a number of standard errors.
func deviations(z float64) string {
	if math.Abs(z) < 0.05 {
		z = 0 // without a sign
	}
	return fmt.Sprintf("%.1f", z)
}

func drawRates(w io.Writer, r *Filter) {
	fmt.Fprintln(w, "\nfalse positive rate:")
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tpromised\tby table\tfrom bits\tmeasured\t± error\tz\tmaybe\tof probes\t")
	row := func(name string, promised, table, bits float64, m *bloomblock.Measured) {
		fmt.Fprintf(t, "%s\t%.3g\t%.3g\t%.3g\t%.3g\t%.2g\t%s\t%d\t%d\t\n", name, promised, table, bits, m.Rate, m.Err, deviations(m.Z), m.Maybe, m.Probes)
	}
	for i, u := range r.Units {
		row(fmt.Sprintf("unit %d", i), u.Promised, u.ByTable, u.FromBits, u.Measured)
	}
	if len(r.Units) > 1 {
		row("all", r.Promised, r.ByTable, r.FromBits, r.Measured)
	}
	t.Flush()
}

func drawUnit(w io.Writer, i int, r *Filter, color bool) {
	u := &r.Units[i]
	what := words.Plural(u.Probes, "probe")
	if u.Columns > 0 {
		what = fmt.Sprintf("Ribbon, %s, %d %% overhead, %s in %s of 64, %d with a column more",
			words.Plural(u.Columns, "column"), u.Overhead, words.Plural(u.Slots, "slot"), words.Plural(u.Segments, "segment"), u.Wide)
	}
	fmt.Fprintln(w)
	words.Wrapped(w, fmt.Sprintf("unit %d: %s, %s of 64 bytes, %d bytes at offset %d, %.1f bits per key, crc32c %s",
		i, what, words.Plural(u.Blocks, "block"), u.Bytes, r.Offset+u.Offset, u.PerKey, u.CRC))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tis\tshould be\t± error\tz\t")
	row := func(name string, s *bloomblock.Stat) {
		if s != nil {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t\n", name, figure(s.Got), figure(s.Want), errorFigure(s.Err), deviations(s.Z))
		}
	}
	row("set bits of a block, of 512", u.SetBits)
	row("their standard deviation", u.Spread)
	row("keys by the bits", u.NumKeys)
	row("chi-square over positions", u.Positions)
	row("chi-square over regions", u.Evenness)
	row("share of bits set", u.Density)
	t.Flush()
	fmt.Fprintf(w, "the emptiest block has %d bits set, the fullest %d\n", u.Min, u.Max)
	if b := u.Worst; b != nil {
		words.Wrapped(w, fmt.Sprintf("worst block: %d at offset %d, rate %.3g; one so full by chance: %.2g", b.Index, r.Offset+b.Offset, b.Rate, b.Chance))
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
	for _, b := range bins {
		bar := []rune(strings.Repeat(" ", barWidth+1))
		for i := range int(math.Round(float64(b.Blocks) / most * barWidth)) {
			bar[i] = '█'
		}
		bar[int(math.Round(b.Want/most*barWidth))] = '│'
		fmt.Fprintln(w, trimRight(fmt.Sprintf("  %9s %9d %9.1f   %s", fmt.Sprintf("%d–%d", b.From, b.To), b.Blocks, b.Want, string(bar))))
	}
}
