package picture

import (
	"errors"
	"fmt"
	"strings"
)

// A Stack is one bar of parts, which add up to the whole. The chart's Y names the values.
type Stack struct {
	Parts []Part
}

// A Part is a part of the bar. The legend has its name and its value.
type Part struct {
	Name  string
	Value float64 // 0 or more
}

func (s *Stack) check() error {
	if len(s.Parts) == 0 || len(s.Parts) > numColors {
		return fmt.Errorf("%d parts, want 1 to %d", len(s.Parts), numColors)
	}
	for _, p := range s.Parts {
		if !(p.Value >= 0 && p.Value <= maxValue) {
			return fmt.Errorf("part %q is %v, want 0 to %g", p.Name, p.Value, maxValue)
		}
	}
	if s.sum() == 0 {
		return errors.New("the parts are all zero")
	}
	return nil
}

func (s *Stack) sum() (sum float64) {
	for _, p := range s.Parts {
		sum += p.Value
	}
	return sum
}

// setShares arranges the names of the parts.
func (d *drawing) setShares(space float64) {
	d.arrange(space, len(d.Stack.Parts), func(i int) (string, float64) {
		p := &d.Stack.Parts[i]
		return clean(p.Name) + " " + d.formatY(p.Value), Bars.swatch()
	})
}

// drawShare draws the sample of part i in the legend, and returns its width.
func drawShare(c *canvas, i int, at Point) float64 {
	width := Bars.swatch()
	box := rect{Min: Point{X: at.X, Y: at.Y - 6}, Max: Point{X: at.X + width, Y: at.Y + 6}}
	drawBox(c, box, lineRole(i))
	return width
}

// stackInto draws the bar.
func (d *drawing) stackInto(c canvas) {
	whole := d.Stack.sum()
	page := pageOf(&c)
	x := c.Min.X
	for i, p := range d.Stack.Parts {
		width := (c.Max.X - c.Min.X) * float64(p.Value/whole)
		box := rect{Min: Point{X: x, Y: c.Min.Y + 4}, Max: Point{X: x + width, Y: c.Max.Y - 4}}
		x += width
		if width > 4 {
			box.Max.X -= 2 * thread // a thin gap between neighbors
		}
		if width == 0 {
			continue
		}
		if page != nil {
			page.tagged(tag{title: clean(p.Name) + ": " + d.formatY(p.Value)}, lineRole(i).color(), box)
			continue
		}
		drawBox(&c, box, lineRole(i))
	}
}

// stackSummary describes the parts in words, for screen readers.
func (c *Chart) stackSummary() string {
	var s strings.Builder
	fmt.Fprintf(&s, "Parts of %s, %s in all:", nonEmpty(clean(c.Y), "a whole"), c.formatY(c.Stack.sum()))
	separator := " "
	for _, p := range c.Stack.Parts {
		s.WriteString(separator + clean(p.Name) + " " + c.formatY(p.Value))
		separator = ", "
	}
	return s.String() + "."
}
