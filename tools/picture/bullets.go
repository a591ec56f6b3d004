package picture

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Bullets are rows that compare a value with others of its kind, on one logarithmic axis (Few, "Bullet Graph Design
// Specification", 2013). The chart's Y names the values.
type Bullets struct {
	// Bar, Tick and Marks name what is drawn: a bar, a line across it, and up to three marks.
	Bar, Tick string
	Marks     []string
	Rows      []Bullet // from the top
}

// A Bullet is one row. A value below 0 is not known. Only values above 0 are drawn.
type Bullet struct {
	Name      string
	Bar, Tick float64
	Marks     []float64 // one for each of Bullets.Marks
}

const (
	maxBullets = 60
	maxMarks   = 3
)

func (b *Bullets) check() error {
	if len(b.Rows) == 0 || len(b.Rows) > maxBullets || len(b.Marks) > maxMarks {
		return fmt.Errorf("%d bullets with %d marks, want 1 to %d with at most %d", len(b.Rows), len(b.Marks),
			maxBullets, maxMarks)
	}
	for i, r := range b.Rows {
		if len(r.Marks) != len(b.Marks) {
			return fmt.Errorf("bullet %d, %q: %d marks, want %d", i+1, r.Name, len(r.Marks), len(b.Marks))
		}
		for _, v := range r.values() {
			if math.IsNaN(v) || v > maxValue || v > 0 && v < 1/maxValue {
				return fmt.Errorf("bullet %d, %q: %v, want a number up to %g", i+1, r.Name, v, maxValue)
			}
		}
	}
	if e := b.extent(); e.min > e.max {
		return errors.New("the bullets have no values")
	}
	return nil
}

// names returns the names of the values of a row, in the order of Bullet.values.
func (b *Bullets) names() []string { return append([]string{b.Bar, b.Tick}, b.Marks...) }

func (r *Bullet) values() []float64 { return append([]float64{r.Bar, r.Tick}, r.Marks...) }

// extent returns the range of the axis. Bars begin to the left of the lowest value, so that it has a bar too.
func (b *Bullets) extent() extent {
	e := newExtent()
	for i := range b.Rows {
		for _, v := range b.Rows[i].values() {
			if v > 0 {
				e.add(v)
			}
		}
	}
	return extent{e.min / 2, e.max * 1.1}
}

// layOut arranges the legend: the bar, the tick and the marks.
func (b *Bullets) layOut(d *drawing, space float64) {
	names := b.names()
	d.arrange(space, len(names), func(i int) entry {
		return entry{name: names[i], sample: markWidth, draw: func(c *canvas, at Point) { drawMark(c, i, at) }}
	})
	d.size.plot = float64(len(b.Rows))*d.lineHeight(1.8) + d.lineHeight(1) + 14 +
		float64(len(d.axisName(space)))*d.lineHeight(1)
}

const markWidth = 14

// drawMark draws the sample of what is named i in the legend.
func drawMark(c *canvas, i int, at Point) {
	switch i {
	case 0:
		box := rect{Min: Point{X: at.X, Y: at.Y - 5}, Max: Point{X: at.X + markWidth, Y: at.Y + 5}}
		drawBox(c, box, series0)
	case 1:
		c.line(ink.stroke(3), at.X+markWidth/2, at.Y-7, at.X+markWidth/2, at.Y+7)
	default:
		c.mark(markStyle(i-2), Point{X: at.X + markWidth/2, Y: at.Y})
	}
}

// markStyle returns the style of mark i. Marks lie on bars, so they have none of their colors.
func markStyle(i int) glyph {
	return glyph{Color: lineRole(i + 1).color(), Radius: 4, Shape: marks[(i+1)%len(marks)]}
}

// drawInto draws the rows and the axis below them.
func (b *Bullets) drawInto(d *drawing, c canvas) {
	space := c.Max.X - c.Min.X
	names := make([]string, len(b.Rows))
	for i := range b.Rows {
		names[i] = b.Rows[i].Name
	}
	left := d.leftNames(names, space)
	from, wide, high := c.Min.X+left, space-left-8, d.lineHeight(1.8)
	e := b.extent()
	place := func(v float64) float64 {
		return from + wide*float64(math.Log(v/e.min)/math.Log(e.max/e.min))
	}
	low := c.Max.Y - float64(len(b.Rows))*high - 2
	style := d.style(muted, 1)
	style.xAlign = alignCenter
	end := c.Min.X
	for _, t := range logTicks(e, d.xTicks, d.formatY) {
		x := place(t.value)
		c.line(grid.stroke(0.75), x, low, x, c.Max.Y)
		if width := style.width(t.label); x-width/2 > end && x+width/2 <= c.Max.X {
			c.write(style, Point{X: x, Y: low - 4}, t.label)
			end = x + width/2 + 8
		}
	}
	for i := range b.Rows {
		r := &b.Rows[i]
		middle := c.Max.Y - (float64(i)+0.5)*high
		d.drawLeftName(&c, r.Name, left, middle)
		if r.Bar > 0 {
			drawBox(&c, rect{
				Min: Point{X: from, Y: middle - high/4},
				Max: Point{X: max(place(r.Bar), from+1), Y: middle + high/4},
			}, series0)
		}
		if r.Tick > 0 {
			x := place(r.Tick)
			c.line(background.stroke(5), x, middle-high*0.4, x, middle+high*0.4)
			c.line(ink.stroke(3), x, middle-high*0.4, x, middle+high*0.4)
		}
		for k, v := range r.Marks {
			if v > 0 {
				back := markStyle(k)
				back.Color, back.Radius = background.color(), back.Radius+1.5
				c.mark(back, Point{X: place(v), Y: middle})
				c.mark(markStyle(k), Point{X: place(v), Y: middle})
			}
		}
	}
	c.line(muted.stroke(1), from, low, from+wide, low)
	d.drawAxisName(&c, space)
}

func (b *Bullets) summary(c *Chart) string {
	var s strings.Builder
	fmt.Fprintf(&s, "Rows of %s.", nonEmpty(clean(c.Y), "values"))
	names := b.names()
	for i := range b.Rows {
		r := &b.Rows[i]
		fmt.Fprintf(&s, " %s:", nonEmpty(clean(r.Name), fmt.Sprintf("row %d", i+1)))
		separator := " "
		for k, v := range r.values() {
			if v >= 0 {
				s.WriteString(separator + clean(names[k]) + " " + c.formatY(v))
				separator = ", "
			}
		}
		s.WriteByte('.')
	}
	return s.String()
}
