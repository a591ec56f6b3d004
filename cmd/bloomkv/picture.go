package main

import (
	"fmt"
	"io"
	"math"
	"math/bits"
	"strings"

	"github.com/bloomkv/bloomkv/bloomblock"
)

const (
	lineBytes    = 64  // a block of a unit: one cache line
	lineBits     = 512 // in it
	pictureWidth = 64  // characters, as many as a line has bytes
	mapRows      = 8   // of the map of a unit, at most
	zoomLines    = 4   // drawn bit by bit
)

// shades stand for how full a block is, from the emptiest of the unit to the fullest.
var shades = []rune(" ░▒▓█")

// drawFilter draws a whole filter block: its header in words, then each unit as a map, a cell for each block of 512 bits or
// for several neighbours, as dark as they are full; at last some blocks bit by bit. With color, two blocks share a cell,
// one above the other. A block that is not intact is an error and draws nothing.
func drawFilter(w io.Writer, block []byte, color bool) error {
	f, err := bloomblock.Parse(block)
	if err != nil {
		return err
	}
	h, err := bloomblock.ParseHeader(block)
	if err != nil {
		return err
	}
	r := f.Inspect()
	if len(r.Units) == 0 {
		fmt.Fprintln(w, "no filter: every answer is maybe")
		return nil
	}
	perKey := 8 * float64(f.Bytes()) / float64(max(f.Keys(), 1))
	kind := "blocked Bloom"
	if r.Units[0].Columns > 0 {
		kind = "Ribbon"
	}
	fmt.Fprintf(w, "%s, %s, %s, %s, %.1f bits per key\n", kind, plural(len(r.Units), "unit"), plural(f.Keys(), "key"), plural(len(block), "byte"), perKey)
	fmt.Fprintf(w, "promised rate %.4g, from the bits %.4g", h.Rate(len(h.Units)), r.Rate)
	if r.Keys > 0 {
		fmt.Fprintf(w, "; keys estimated from the bits %.0f", r.Keys)
	}
	fmt.Fprintln(w)
	for i, u := range r.Units {
		lines := block[h.Units[i].Offset:][:h.Units[i].Bytes()]
		fmt.Fprintf(w, "\nunit %d: %s, %s of %d bits, fill %.1f %% (%.1f … %.1f %%), promised rate %.4g, from the bits %.4g\n",
			i, probesOf(u), plural(len(lines)/lineBytes, "block"), lineBits,
			100*u.Fill, 100*float64(u.Min)/lineBits, 100*float64(u.Max)/lineBits, h.Units[i].Rate, u.Rate)
		drawMap(w, lines, u.Min, u.Max, color)
	}
	first := block[h.Units[0].Offset:][:h.Units[0].Bytes()]
	n := min(zoomLines, len(first)/lineBytes)
	fmt.Fprintf(w, "\nthe first %s of unit 0, a dot for each bit that is set, eight bits to a cell:\n", plural(n, "block"))
	for i := range n {
		fmt.Fprintf(w, "  %s\n", dots(first[i*lineBytes:][:lineBytes]))
	}
	return nil
}

// probesOf is what a lookup does in a unit.
func probesOf(u bloomblock.UnitReport) string {
	if u.Columns > 0 {
		return fmt.Sprintf("Ribbon of %d to %d columns", u.Columns, u.Columns+1)
	}
	return plural(u.Probes, "probe")
}

// drawMap draws the fill of a unit's blocks, row by row. low and high are the bits set in the emptiest and fullest block.
func drawMap(w io.Writer, lines []byte, low, high int, color bool) {
	blocks := len(lines) / lineBytes
	rows := mapRows
	if color {
		rows *= 2
	}
	per := (blocks + rows*pictureWidth - 1) / (rows * pictureWidth) // blocks in a cell
	cells := make([]float64, (blocks+per-1)/per)                    // 0 emptiest … 1 fullest
	for i := range cells {
		set, n := 0, min(per, blocks-i*per)
		for _, b := range lines[i*per*lineBytes:][:n*lineBytes] {
			set += bits.OnesCount8(b)
		}
		cells[i] = min(1, max(0, (float64(set)/float64(n)-float64(low))/float64(max(high-low, 1))))
	}
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
	scale := "the lighter the fuller"
	if !color {
		scale = "the darker the fuller"
	}
	fmt.Fprintf(w, "  a cell is %s, %s\n", plural(per, "block"), scale)
}

// shadeOf is the step of n on which a share between 0 and 1 stands.
func shadeOf(share float64, n int) int { return min(n-1, int(share*float64(n))) }

// drawColored draws two rows of cells in one of text: the upper half of each character in its foreground, the lower half in
// its background, in the 24 grays of 256 colors.
func drawColored(w io.Writer, cells []float64) {
	gray := func(i int) int {
		if i >= len(cells) {
			return 16 // black
		}
		return 232 + shadeOf(cells[i], 24)
	}
	width := min(pictureWidth, (len(cells)+1)/2) // few cells make two full rows all the same
	for row := 0; row < len(cells); row += 2 * width {
		fmt.Fprint(w, "  ")
		for col := range min(width, len(cells)-row) {
			fmt.Fprintf(w, "\x1b[38;5;%d;48;5;%dm▀", gray(row+col), gray(row+col+width))
		}
		fmt.Fprint(w, "\x1b[0m\n")
	}
}

// dots draws bytes as Braille, in which each cell is eight dots: one byte a cell.
func dots(b []byte) string {
	cells := make([]rune, len(b))
	for i, c := range b {
		cells[i] = 0x2800 + rune(c)
	}
	return string(cells)
}

// filterBlock cuts the filter block out of a table: it lies before the tail. nil where there is none.
func filterBlock(f io.ReaderAt, size, tailLen, filterLen uint64) ([]byte, error) {
	if filterLen == 0 {
		return nil, nil
	}
	if tailLen > size || filterLen > size-tailLen {
		return nil, fmt.Errorf("filter of %d bytes before a tail of %d in a file of %d", filterLen, tailLen, size)
	}
	if filterLen > math.MaxInt/2 { // where int has 32 bits
		return nil, fmt.Errorf("filter of %d bytes is too large for this machine", filterLen)
	}
	b := make([]byte, filterLen)
	_, err := f.ReadAt(b, int64(size-tailLen-filterLen)) //nolint:gosec // within the size of a file
	return b, err
}
