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

// layOut arranges the names of the parts.
func (s *Stack) layOut(d *drawing, space float64) {
	d.arrange(space, len(s.Parts), func(i int) entry {
		p := &s.Parts[i]
		name := clean(p.Name) + " " + d.formatY(p.Value)
		return entry{name: name, sample: Bars.swatch(), draw: func(c *canvas, at Point) {
			box := rect{Min: Point{X: at.X, Y: at.Y - 6}, Max: Point{X: at.X + Bars.swatch(), Y: at.Y + 6}}
			drawBox(c, box, lineRole(i))
		}}
	})
	d.size.plot = d.lineHeight(2)
}

// drawInto draws the bar.
func (s *Stack) drawInto(d *drawing, c canvas) {
	whole := s.sum()
	page := pageOf(&c)
	x := c.Min.X
	for i, p := range s.Parts {
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

func (s *Stack) summary(c *Chart) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Parts of %s, %s in all:", nonEmpty(clean(c.Y), "a whole"), c.formatY(s.sum()))
	separator := " "
	for _, p := range s.Parts {
		b.WriteString(separator + clean(p.Name) + " " + c.formatY(p.Value))
		separator = ", "
	}
	return b.String() + "."
}
