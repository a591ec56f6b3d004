// Package picture draws charts as SVG and PNG, and puts them with text and tables on one HTML page that needs nothing else.
//
// What cannot be drawn as it is (no points, a NaN, a zero on a logarithmic axis) is an error that names chart and line;
// nothing is left out silently. Text may be anything: it is cut or wrapped where it does not fit, escaped, and characters
// that cannot be shown become U+FFFD.
package picture

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// A Chart is some lines over two axes, or a Grid, or Spans.
type Chart struct {
	// Name is the name of its files without extension: letters, digits, '-', '_' and '.', beginning with a letter or digit.
	Name string
	// Title says what is to be seen, in one line. Caption says in a few how it was measured.
	Title, Caption string
	// X and Y say what the axes count, with the unit if their format does not print it.
	X, Y string
	// FormatX and FormatY print the values at the axes; nil is Number.
	FormatX, FormatY func(float64) string
	// LogX and LogY make an axis logarithmic; all its values must be above zero. A Y axis that is not shows zero.
	LogX, LogY bool
	// Categories, if any, are names for X = 0, 1, 2 and so on, instead of numbers: all X must be one of these.
	Categories []string
	// Lines are drawn in this order, the last on top.
	Lines []Line
	// Grid and Spans are what is drawn instead of lines, if one is not nil.
	Grid  *Grid
	Spans *Spans
}

// A Line is one series of a chart. Lines of different kinds may share a chart.
type Line struct {
	// Name tells the line from the others. A single line needs none.
	Name string
	// X and Y are the points, as many of one as of the other, in the order in which they are joined.
	X, Y []float64
	// Kind says how they are drawn.
	Kind Kind
	// Dashed sets a line apart, as a limit or a theory: a broken line.
	Dashed bool
}

// A Kind is a way to draw a line's points.
type Kind uint8

const (
	Joined Kind = iota // points, joined by straight lines; where there are many, only some have a mark
	Curve              // a line without marks
	Points             // marks alone; over a category side by side with those of other lines
	Bars               // from zero up to Y, side by side with the other bars of the same X; the axes must not be logarithmic
)

const (
	maxLines = len(marks) * numColors // more would look alike
	maxValue = 1e100                  // between this and its inverse, either sign, differences and logarithms are numbers

	maxCategories = 60 // names of more could not be read
)

var fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// check reports the first reason why the chart cannot be drawn.
func (c *Chart) check() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("chart %q: %w", c.Name, fmt.Errorf(format, args...))
	}
	if !fileName.MatchString(c.Name) || len(c.Name) > 100 {
		return fail("a name that is not the name of a file: want 1 to 100 letters, digits, '-', '_' and '.'")
	}
	if c.Grid != nil || c.Spans != nil {
		if err := c.checkColored(); err != nil {
			return fail("%w", err)
		}
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

// checkColored checks a chart without lines.
func (c *Chart) checkColored() error {
	if len(c.Lines) > 0 || len(c.Categories) > 0 || c.LogX || c.LogY || c.Grid != nil && c.Spans != nil {
		return errors.New("one of lines, a grid and spans is wanted; only lines have axes that are logarithmic or of categories")
	}
	if c.Grid != nil {
		return c.Grid.check()
	}
	return c.Spans.check()
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
		return errors.New("bars begin at zero, which a logarithmic axis has not: draw points")
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
				return fmt.Errorf("point %d: %s is %v, want 0 or a number between %g and %g, either sign", i, v.axis, v.value, 1/maxValue, maxValue)
			case v.log && v.value <= 0:
				return fmt.Errorf("point %d: %s is %v, want more than zero on a logarithmic axis", i, v.axis, v.value)
			}
		}
		if n := len(c.Categories); n > 0 && (x != math.Trunc(x) || x < 0 || x >= float64(n)) {
			return fmt.Errorf("point %d: X is %v, want the number of one of %d categories", i, x, n)
		}
	}
	return nil
}

// summary is the chart for who cannot see it.
func (c *Chart) summary() string {
	switch {
	case c.Grid != nil:
		return c.gridSummary()
	case c.Spans != nil:
		return c.spansSummary()
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
			fmt.Fprintf(&b, "; lowest %s, highest %s of %d points", c.formatY(slices.Min(l.Y)), c.formatY(slices.Max(l.Y)), len(l.X))
		}
		b.WriteByte('.')
	}
	return b.String()
}
