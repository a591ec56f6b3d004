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

// check reports the first reason why the chart cannot be drawn.
func (c *Chart) check() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("chart %q: %w", c.Name, fmt.Errorf(format, args...))
	}
	if !isName(c.Name, "._-") || len(c.Name) > 100 {
		return fail("a name that is not the name of a file: want 1 to 100 letters, digits, '-', '_' and '.'")
	}
	if other, err := c.checkOther(); err != nil {
		return fail("%w", err)
	} else if other {
		return nil
	}
	if len(c.Lines) == 0 || len(c.Lines) > maxLines {
		return fail("%d lines, want 1 to %d", len(c.Lines), maxLines)
	}
	if c.LogX && len(c.Categories) > 0 {
		return fail("categories on a logarithmic axis")
	}
	if len(c.Categories) > maxCategories {
		return fail("%d categories, want %d at most", len(c.Categories), maxCategories)
	}
	names := make(map[string]bool)
	for i := range c.Lines {
		l := &c.Lines[i]
		if err := c.checkLine(l); err != nil {
			return fail("line %d, %q: %w", i+1, l.Name, err)
		}
		if len(c.Lines) > 1 && (l.Name == "" || names[l.Name]) {
			return fail("line %d, %q: a name of its own is wanted", i+1, l.Name)
		}
		names[l.Name] = true
	}
	return nil
}

// checkOther checks a chart of something other than lines, and reports whether it is one.
func (c *Chart) checkOther() (other bool, err error) {
	count := 0
	check := func(there bool, f func() error) {
		if there {
			count++
			err = f()
		}
	}
	check(c.Grid != nil, c.Grid.check)
	check(c.Spans != nil, c.Spans.check)
	check(c.Bullets != nil, c.Bullets.check)
	check(c.Stack != nil, c.Stack.check)
	if count > 1 || count > 0 && (len(c.Lines) > 0 || len(c.Categories) > 0 || c.LogX || c.LogY) {
		return true, errors.New("want one of lines, a grid, spans, bullets and a stack; logarithmic axes and " +
			"categories are for lines alone")
	}
	return count > 0, err
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

// summary describes the chart in words, for screen readers.
func (c *Chart) summary() string {
	switch {
	case c.Grid != nil:
		return c.gridSummary()
	case c.Spans != nil:
		return c.spansSummary()
	case c.Bullets != nil:
		return c.bulletsSummary()
	case c.Stack != nil:
		return c.stackSummary()
	}
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
