// Package picture draws charts as SVG, and combines them with text and tables on an HTML page that loads nothing else.
// It imports nothing but the standard library; package save below it also writes charts as PNG.
//
// A chart that cannot be drawn (no points, a NaN, a zero on a logarithmic axis) is an error that names the chart and
// the line; nothing is left out silently. Text may be anything: it is wrapped or cut if it does not fit, escaped, and
// characters that cannot be shown become U+FFFD.
package picture

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Chart consists of lines over two axes, or of a Grid, Spans, Bullets or a Stack.
type Chart struct {
	// Name is the name of its files without extension: letters, digits, '-', '_' and '.', starting with a letter or
	// digit.
	Name string
	// Title describes the chart in one line, Caption how its values were measured.
	Title, Caption string
	// X and Y name the axes, with the unit unless the format prints it.
	X, Y string
	// FormatX and FormatY format the values at the axes. The default is Number.
	FormatX, FormatY func(float64) string
	// LogX and LogY make an axis logarithmic; all its values must be above zero. A linear Y axis includes zero.
	LogX, LogY bool
	// Categories are names for X = 0, 1, 2 and so on, instead of numbers. All X must be one of these.
	Categories []string
	// Lines are drawn in this order, the last one on top.
	Lines []Line
	// One of these, if it is not nil, is drawn instead of lines.
	Grid    *Grid
	Spans   *Spans
	Bullets *Bullets
	Stack   *Stack
	// Wide makes the chart as wide as the page.
	Wide bool
}

// A Line is one series of a chart. Lines of different kinds may share a chart.
type Line struct {
	// Name distinguishes the line from others. It may be empty if there is only one.
	Name string
	// X and Y are the coordinates of the points, in the order in which they are joined.
	X, Y []float64
	// Kind determines how the points are drawn.
	Kind Kind
	// Dashed draws a dashed line, for a limit or a theoretical value.
	Dashed bool
}

// A Kind is a way to draw the points of a line.
type Kind uint8

const (
	Joined Kind = iota // points joined by straight lines; if there are many, only some have a mark
	Curve              // a line without marks
	Points             // marks without a line; over a category next to those of other lines
	Bars               // bars from zero to Y, next to other bars of the same X; not on logarithmic axes
)

const (
	maxLines = len(marks) * numColors // more would not be distinguishable
	// the absolute limit for values; differences and logarithms of values up to it are finite.
	maxValue = 1e100

	maxCategories = 60 // names of more would be unreadable
)

// isName reports whether s is a letter or digit of ASCII, followed by more of them and the given signs.
func isName(s, signs string) bool {
	for i, r := range s {
		if !('a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' || i > 0 && strings.ContainsRune(signs, r)) {
			return false
		}
	}
	return s != ""
}

// A plot is what a chart consists of.
type plot interface {
	check() error                     // why it cannot be drawn
	layOut(d *drawing, space float64) // sets the legend or the key, and the height of the plot
	drawInto(d *drawing, c canvas)
	summary(c *Chart) string // in words, for screen readers
}

// plots returns all plots of a chart, which has one if it can be drawn.
func (c *Chart) plots() (all []plot) {
	if c.Grid != nil {
		all = append(all, c.Grid)
	}
	if c.Spans != nil {
		all = append(all, c.Spans)
	}
	if c.Bullets != nil {
		all = append(all, c.Bullets)
	}
	if c.Stack != nil {
		all = append(all, c.Stack)
	}
	if len(all) == 0 || len(c.Lines) > 0 || len(c.Categories) > 0 || c.LogX || c.LogY {
		all = append(all, lines{c})
	}
	return all
}

// check reports the first reason why the chart cannot be drawn.
func (c *Chart) check() (err error) {
	switch plots := c.plots(); {
	case !isName(c.Name, "._-") || len(c.Name) > 100:
		err = errors.New("a name that is not the name of a file: want 1 to 100 letters, digits, '-', '_' and '.'")
	case len(plots) > 1:
		err = errors.New("want one of lines, a grid, spans, bullets and a stack; logarithmic axes and categories are " +
			"for lines alone")
	default:
		err = plots[0].check()
	}
	if err != nil {
		return fmt.Errorf("chart %q: %w", c.Name, err)
	}
	return nil
}

// lines are the plot of a chart without another one.
type lines struct{ *Chart }

func (c lines) check() error {
	if len(c.Lines) == 0 || len(c.Lines) > maxLines {
		return fmt.Errorf("%d lines, want 1 to %d", len(c.Lines), maxLines)
	}
	if c.LogX && len(c.Categories) > 0 {
		return errors.New("categories on a logarithmic axis")
	}
	if len(c.Categories) > maxCategories {
		return fmt.Errorf("%d categories, want %d at most", len(c.Categories), maxCategories)
	}
	names := make(map[string]bool)
	for i := range c.Lines {
		l := &c.Lines[i]
		if err := c.checkLine(l); err != nil {
			return fmt.Errorf("line %d, %q: %w", i+1, l.Name, err)
		}
		if len(c.Lines) > 1 && (l.Name == "" || names[l.Name]) {
			return fmt.Errorf("line %d, %q: a name of its own is wanted", i+1, l.Name)
		}
		names[l.Name] = true
	}
	return nil
}

func (c *Chart) checkLine(l *Line) error {
	switch {
	case len(l.X) != len(l.Y):
		return fmt.Errorf("%d values of X and %d of Y", len(l.X), len(l.Y))
	case len(l.X) == 0:
		return errors.New("no points")
	case l.Kind > Bars:
		return fmt.Errorf("kind %d, want 0 to %d", l.Kind, Bars)
	case l.Kind == Bars && (c.LogX || c.LogY):
		return errors.New("bars begin at zero, which is not on a logarithmic axis: draw points")
	}
	for i, x := range l.X {
		for _, v := range []struct {
			axis  string
			value float64
			log   bool
		}{{"X", x, c.LogX}, {"Y", l.Y[i], c.LogY}} {
			size := math.Abs(v.value)
			switch {
			case math.IsNaN(size) || size > maxValue || size > 0 && size < 1/maxValue:
				return fmt.Errorf("point %d: %s is %v, want 0 or a number between %g and %g, either sign",
					i, v.axis, v.value, 1/maxValue, maxValue)
			case v.log && v.value <= 0:
				return fmt.Errorf("point %d: %s is %v, want more than zero on a logarithmic axis", i, v.axis, v.value)
			}
		}
		if n := len(c.Categories); n > 0 && (x != math.Trunc(x) || x < 0 || x >= float64(n)) {
			return fmt.Errorf("point %d: X is %v, want the index of one of %d categories", i, x, n)
		}
	}
	return nil
}

func (c *Chart) summary() string { return c.plots()[0].summary(c) }

func (lines) summary(c *Chart) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Chart of %s", nonEmpty(clean(c.Y), "Y"))
	fmt.Fprintf(&b, " against %s.", nonEmpty(clean(c.X), "X"))
	for i := range c.Lines {
		l := &c.Lines[i]
		b.WriteByte(' ')
		if name := clean(l.Name); name != "" {
			fmt.Fprintf(&b, "%s: ", name)
		}
		last := len(l.X) - 1
		fmt.Fprintf(&b, "%s at %s", c.formatY(l.Y[0]), c.formatX(l.X[0]))
		if last > 0 {
			fmt.Fprintf(&b, ", %s at %s", c.formatY(l.Y[last]), c.formatX(l.X[last]))
			fmt.Fprintf(&b, "; lowest %s, highest %s of %d points",
				c.formatY(slices.Min(l.Y)), c.formatY(slices.Max(l.Y)), len(l.X))
		}
		b.WriteByte('.')
	}
	return b.String()
}
