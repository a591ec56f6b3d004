package picture

import (
	"math"
	"strconv"
	"strings"
	"unicode"
)

// A size is the layout for one width. The height depends on the text above and below the plot.
type size struct {
	width, plot float64 // of the chart; height of the plot with its axes
	text        float64 // size of labels, in points
	xTicks      int     // approximate number of labels that fit below the plot
	yTicks      int
	swatch      float64 // of each color of a scale
}

var (
	wide   = size{width: 720, plot: 350, text: 14, xTicks: 8, yTicks: 6, swatch: 18}
	full   = size{width: 1200, plot: 350, text: 14, xTicks: 12, yTicks: 6, swatch: 24}
	narrow = size{width: 330, plot: 260, text: 13, xTicks: 4, yTicks: 6, swatch: 11}
)

// size returns the size of the chart where it is not narrow.
func (c *Chart) size() size {
	if c.Wide {
		return full
	}
	return wide
}

func (s size) style(r role, scale float64) textStyle {
	return textStyle{color: r.color(), size: s.text * scale, xAlign: alignLeft, yAlign: alignTop}
}

func (s size) lineHeight(scale float64) float64 { return s.text * scale * 1.35 }

// wrap breaks a text into at most most lines of the given width, between words if possible. It cuts the rest.
func wrap(style textStyle, s string, width float64, most int) []string {
	var lines []string
	for rest := []rune(s); len(rest) > 0; {
		// As many characters as fit, but at least one.
		n := 1
		for n < len(rest) && n < 1000 && style.width(string(rest[:n+1])) <= width {
			n++
		}
		if n < len(rest) {
			if len(lines) == most-1 {
				for n > 1 && style.width(string(rest[:n])+"…") > width {
					n--
				}
				return append(lines, strings.TrimSpace(string(rest[:n]))+"…")
			}
			for space := n; space > 0; space-- {
				if rest[space] == ' ' {
					n = space
					break
				}
			}
		}
		lines = append(lines, strings.TrimSpace(string(rest[:n])))
		for n < len(rest) && rest[n] == ' ' {
			n++
		}
		rest = rest[n:]
	}
	return lines
}

func nonEmpty(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// cleanLines returns s as clean does, but keeps its lines.
func cleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

// clean returns s as one line of printable characters. It replaces characters that HTML and XML forbid and those that
// change the direction of text.
func clean(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsGraphic(r):
			return unicode.ReplacementChar
		}
		return r
	}, s))
}

// leftNames returns the space for names on the left, at most a third of the width.
func (d *drawing) leftNames(names []string, space float64) (widest float64) {
	style := d.style(muted, 1)
	for _, name := range names {
		widest = max(widest, style.width(clean(name))+8)
	}
	return min(widest, space/3)
}

// drawLeftName writes the name of a row to the left of it.
func (d *drawing) drawLeftName(c *canvas, name string, left, middle float64) {
	style := d.style(muted, 1)
	style.xAlign, style.yAlign = alignRight, alignMiddle
	c.write(style, Point{X: c.Min.X + left - 8, Y: middle},
		strings.Join(wrap(style, clean(name), left-7, 1), ""))
}

// axisName returns the name of the X axis below a grid or spans, in lines.
func (d *drawing) axisName(space float64) []string {
	return wrap(d.style(muted, 1), clean(d.X), space, 3)
}

// drawAxisName writes the name of the X axis at the lower end.
func (d *drawing) drawAxisName(c *canvas, space float64) {
	style := d.style(muted, 1)
	style.xAlign = alignCenter
	lines := d.axisName(space)
	for i, line := range lines {
		c.write(style, Point{X: (c.Min.X + c.Max.X) / 2, Y: c.Min.Y + float64(len(lines)-i)*d.lineHeight(1)},
			line)
	}
}

// Number formats a value with three digits, or with all its digits if that is no longer: 0.05, 1.5, 250, 20k, 5M,
// 1e-05.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a < 1e-4 || a >= 1e15:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case a >= 9_999.5:
		for _, unit := range []struct {
			size float64
			name string
		}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
			if a >= unit.size*0.9995 {
				return digits(v/unit.size) + unit.name
			}
		}
	case a >= 999.5:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return digits(v)
}

// Bytes formats a size given in bytes, in powers of a thousand: 512 B, 4 kB, 1.5 GB.
func Bytes(n float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	i := 0
	for ; math.Abs(n) >= 999.5 && i < len(units)-1; i++ {
		n /= 1000
	}
	return Number(n) + " " + units[i]
}

// digits formats a value other than 0 with three digits, without zeros at the end of a fraction.
func digits(v float64) string {
	return number(v, max(2-int(math.Floor(math.Log10(math.Abs(v)))), 0))
}

// number formats a value with at most the given number of decimals, and zero without a sign.
func number(v float64, decimals int) string {
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		return "0"
	}
	return s
}

func (c *Chart) formatX(v float64) string {
	if i := int(v); len(c.Categories) > 0 && v == math.Trunc(v) && i >= 0 && i < len(c.Categories) {
		return clean(c.Categories[i])
	}
	return format(c.FormatX, v)
}

func (c *Chart) formatY(v float64) string { return format(c.FormatY, v) }

func format(f func(float64) string, v float64) string {
	if f == nil {
		f = Number
	}
	return clean(f(v))
}
