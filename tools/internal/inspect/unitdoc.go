package inspect

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/internal/filterexam"
)

func unitName(i int) string { return fmt.Sprintf("unit %d", i) }

// A namedStat is a figure of a unit with its name, and a short name for charts.
type namedStat struct {
	name, short string
	*filterexam.Stat
}

// statsOf returns the figures that a unit has.
func statsOf(u *filterexam.UnitExam) (all []namedStat) {
	for _, s := range []namedStat{
		{"set bits of a block, of 512", "fill", u.SetBits},
		{"their standard deviation", "spread", u.Spread},
		{"keys by the bits", "keys", u.NumKeys},
		{"chi-square over positions", "positions", u.Positions},
		{"chi-square over regions", "regions", u.Evenness},
		{"share of bits set", "density", u.Density},
	} {
		if s.Stat != nil {
			all = append(all, s)
		}
	}
	return all
}

// unitLine describes unit i.
func (r *Filter) unitLine(i int) string {
	u := &r.Units[i]
	what := words.Plural(u.Probes, "probe")
	if u.Columns > 0 {
		what = fmt.Sprintf("Ribbon, %s, %d %% overhead, %s in %s of 64, %d with a column more",
			words.Plural(u.Columns, "column"), u.Overhead, words.Plural(u.Slots, "slot"), words.Plural(u.Segments,
				"segment"), u.Wide)
	}
	where := "at"
	if r.Parts > 0 {
		where = fmt.Sprintf("in %d parts from", r.Parts)
	}
	return fmt.Sprintf("%s: %s, %s of 64 bytes, %d bytes %s offset %d, %.1f bits per key, crc32c %s",
		unitName(i), what, words.Plural(u.Blocks, "block"), u.Bytes, where, r.Offset+u.Offset, u.PerKey, u.CRC)
}

// extremes describes the emptiest and the fullest block of a unit.
func extremes(u *filterexam.UnitExam) string {
	return fmt.Sprintf("the emptiest block has %d bits set, the fullest %d", u.Min, u.Max)
}

// worstLine describes the worst block of a unit, if it has one.
func (r *Filter) worstLine(u *filterexam.UnitExam) string {
	b := u.Worst
	if b == nil {
		return ""
	}
	return fmt.Sprintf("worst block: %d at offset %d, rate %.3g; probability of one this full: %.2g", b.Index,
		r.Offset+b.Offset, b.Rate, b.Chance)
}

// mapScale describes the cells of a unit's map.
func mapScale(u *filterexam.UnitExam, scale string) string {
	return fmt.Sprintf("a cell is %s, the %s the fuller: %s to %s of the bits set",
		words.Plural(u.RegionBlocks, "block"), scale, percent(slices.Min(u.Regions)), percent(slices.Max(u.Regions)))
}

const (
	lineBytes    = 64  // a block of a unit: one cache line
	lineBits     = 512 // in it
	pictureWidth = 64  // characters
)

// shades show how full a block is, from the emptiest of the unit to the fullest.
var shades = []rune(" ░▒▓█")

// drawMap draws how full the regions of a unit are.
func drawMap(w io.Writer, u *filterexam.UnitExam, color bool) {
	low, high := slices.Min(u.Regions), slices.Max(u.Regions)
	cells := make([]float64, len(u.Regions)) // 0 is the emptiest, 1 the fullest
	for i, fill := range u.Regions {
		if high > low {
			cells[i] = (fill - low) / (high - low)
		}
	}
	fmt.Fprintln(w)
	if color {
		drawColored(w, cells)
	} else {
		for len(cells) > 0 {
			n := min(pictureWidth, len(cells))
			row := make([]rune, n)
			for i, c := range cells[:n] {
				row[i] = shades[shadeOf(c, len(shades))]
			}
			fmt.Fprintf(w, "  %s\n", strings.TrimRight(string(row), " "))
			cells = cells[n:]
		}
	}
	scale := "lighter"
	if !color {
		scale = "darker"
	}
	fmt.Fprintf(w, "  %s\n", mapScale(u, scale))
}

// shadeOf returns the index among n shades for a share between 0 and 1.
func shadeOf(share float64, n int) int { return min(n-1, int(share*float64(n))) }

// drawColored draws two rows of cells in one line of text: the upper half of each character in its foreground, the
// lower half in its background, in the 24 grays of 256 colors.
func drawColored(w io.Writer, cells []float64) {
	gray := func(i int) int {
		if i >= len(cells) {
			return 16 // black
		}
		return 232 + shadeOf(cells[i], 24)
	}
	width := min(pictureWidth, (len(cells)+1)/2) // so that few cells also make two full rows
	for row := 0; row < len(cells); row += 2 * width {
		fmt.Fprint(w, "  ")
		for col := range min(width, len(cells)-row) {
			fmt.Fprintf(w, "\x1b[38;5;%d;48;5;%dm▀", gray(row+col), gray(row+col+width))
		}
		fmt.Fprint(w, "\x1b[0m\n")
	}
}
