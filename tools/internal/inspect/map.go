package inspect

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/tools/internal/filterexam"
)

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
