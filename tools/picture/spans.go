package picture

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Spans are rows of rectangles between 0 and 1, in the colors of a scale. The chart's Y names the values, its X the
// direction.
type Spans struct {
	Rows  []SpanRow // from the top
	Scale Scale
	// Ticks are labels below the rows, in rising order. If there is not enough space, some are omitted.
	Ticks []SpanTick
	// Marked is the meaning of the outline of a marked span.
	Marked string
}

// A SpanTick is a label at a place from 0 to 1.
type SpanTick struct {
	At   float64
	Name string
}

// A SpanRow is a row of rectangles, which may overlap; later ones are on top.
type SpanRow struct {
	Name  string
	Spans []Span
}

// A Span is one rectangle. It is drawn at least one point wide.
type Span struct {
	From, To float64 // 0 to 1, From ≤ To
	Value    float64
	Name     string // written into it if it fits
	Marked   bool
	// ID names the span for scripts of a page, as data-id; several names have spaces between them.
	ID string
	// On a page, a pointer shows the title, which may have several lines, and a click goes to the section with the ID
	// of the link. A reader may choose the spans of a group. All may be empty.
	Title, Link, Group string
}

const (
	maxSpanRows = 60
	narrowest   = float64(1)
)

// all returns the spans of all rows.
func (s *Spans) all() (spans []Span) {
	for _, row := range s.Rows {
		spans = append(spans, row.Spans...)
	}
	return spans
}

func (s *Spans) values() (values []float64) {
	for _, span := range s.all() {
		values = append(values, span.Value)
	}
	return values
}

func (s *Spans) check() error {
	if len(s.Rows) == 0 || len(s.Rows) > maxSpanRows {
		return fmt.Errorf("the spans have %d rows, want 1 to %d", len(s.Rows), maxSpanRows)
	}
	for i, row := range s.Rows {
		for j, span := range row.Spans {
			if !(0 <= span.From && span.From <= span.To && span.To <= 1) {
				return fmt.Errorf("row %d, span %d: from %v to %v, want 0 to 1, rising", i, j, span.From, span.To)
			}
		}
	}
	for i, t := range s.Ticks {
		if !(0 <= t.At && t.At <= 1) || i > 0 && t.At < s.Ticks[i-1].At {
			return fmt.Errorf("tick %d at %v, want 0 to 1, rising", i, t.At)
		}
	}
	values := s.values()
	switch {
	case len(values) == 0:
		return errors.New("the rows have no spans")
	case len(values) > maxCells:
		return fmt.Errorf("%d spans, want at most %d", len(values), maxCells)
	}
	_, err := newRamp(s.Scale, values)
	return err
}

func (d *drawing) spanRowHeight() float64 {
	switch n := len(d.Spans.Rows); {
	case n > 12:
		return d.lineHeight(1.2)
	case n > 6 || !d.Wide:
		return d.lineHeight(1.8)
	default:
		return d.lineHeight(3)
	}
}

func (s *Spans) layOut(d *drawing, space float64) {
	marked := ""
	if slices.ContainsFunc(s.all(), func(span Span) bool { return span.Marked }) {
		marked = nonEmpty(s.Marked, "marked")
	}
	d.setKey(s.Scale, s.values(), amber, marked)
	if d.size == full {
		d.key.name = clean(d.Y)
	}
	height := float64(len(s.Rows)) * d.spanRowHeight()
	d.size.plot = height + d.lineHeight(1) + float64(len(d.axisName(space)))*d.lineHeight(1) + 14
}

// drawInto draws the rows, their names, and the text below.
func (s *Spans) drawInto(d *drawing, c canvas) {
	space := c.Max.X - c.Min.X
	var names []string
	for _, row := range s.Rows {
		names = append(names, row.Name)
	}
	left := d.leftNames(names, space)
	from, wide, high := c.Min.X+left, space-left, d.spanRowHeight()
	for i, row := range s.Rows {
		top := c.Max.Y - float64(i)*high
		d.drawLeftName(&c, row.Name, left, top-high/2)
		c.line(grid.stroke(0.75), from, top-high/2, c.Max.X, top-high/2)
	}
	page := pageOf(&c)
	if page != nil {
		page.beginZoom(rect{Min: Point{X: from, Y: c.Min.Y}, Max: Point{X: c.Max.X, Y: c.Max.Y}})
	}
	var cells []cell
	for i, row := range s.Rows {
		top := c.Max.Y - float64(i)*high
		for _, span := range row.Spans {
			box := rect{
				Min: Point{X: from + float64(span.From)*wide, Y: top - high + 2},
				Max: Point{X: from + float64(span.To)*wide, Y: top - 2},
			}
			if wide := box.Max.X - box.Min.X; wide > 4 {
				box.Min.X, box.Max.X = box.Min.X+thread/2, box.Max.X-thread/2 // a thin gap between neighbors
			} else if wide < narrowest {
				box.Min.X = min(box.Min.X, c.Max.X-narrowest)
				box.Max.X = box.Min.X + narrowest
			}
			cells = append(cells, cell{
				box: box, value: span.Value, label: clean(span.Name), marked: span.Marked,
				tag: tag{cleanLines(span.Title), span.Link, clean(span.Group), clean(span.ID)},
			})
		}
	}
	d.key.drawCells(&c, d, cells)

	y := c.Max.Y - float64(len(s.Rows))*high - 2
	c.line(muted.stroke(1), from, y, c.Max.X, y)
	d.drawSpanTicks(&c, from, y, wide)
	if page != nil {
		page.endZoom()
	}
	d.drawAxisName(&c, space)
}

// drawSpanTicks writes the labels below the rows, the first and the last one if any: those between only where they have
// space.
func (d *drawing) drawSpanTicks(c *canvas, from, y, wide float64) {
	ticks, style := d.Spans.Ticks, d.style(muted, 1)
	type place struct{ from, to float64 }
	var taken []place
	write := func(t SpanTick) {
		name := strings.Join(wrap(style, clean(t.Name), wide/2-6, 1), "")
		x, width := from+float64(t.At)*wide, style.width(name)
		at := place{x - width/2, x + width/2}
		style.xAlign = alignCenter
		if t.At < 0.02 {
			style.xAlign, at = alignLeft, place{x, x + width}
		} else if t.At > 0.98 {
			style.xAlign, at = alignRight, place{x - width, x}
		}
		for _, p := range taken {
			if at.from < p.to+10 && p.from < at.to+10 {
				return
			}
		}
		if at.from < from || at.to > from+wide+1 {
			return
		}
		taken = append(taken, at)
		c.line(muted.stroke(1), x, y, x, y-4)
		c.write(style, Point{X: x, Y: y - 5}, name)
	}
	if n := len(ticks); n > 0 {
		write(ticks[0])
		if n > 1 {
			write(ticks[n-1])
		}
		for i := 1; i < n-1; i++ {
			write(ticks[i])
		}
	}
}

// summary has the number of spans in each row and their extremes.
func (s *Spans) summary(c *Chart) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Picture of %s over %s.", nonEmpty(clean(c.Y), "values"), nonEmpty(clean(c.X), "a stretch"))
	for i, row := range s.Rows {
		low, high, known, marked := math.Inf(1), math.Inf(-1), 0, 0
		for _, s := range row.Spans {
			if s.Value != NoValue {
				low, high, known = min(low, s.Value), max(high, s.Value), known+1
			}
			if s.Marked {
				marked++
			}
		}
		fmt.Fprintf(&b, " %s: %d", nonEmpty(clean(row.Name), fmt.Sprintf("row %d", i+1)), len(row.Spans))
		switch {
		case known == 0:
		case c.formatY(low) == c.formatY(high):
			fmt.Fprintf(&b, ", %s", c.formatY(low))
		default:
			fmt.Fprintf(&b, ", %s to %s", c.formatY(low), c.formatY(high))
		}
		if marked > 0 {
			fmt.Fprintf(&b, ", %d marked", marked)
		}
		b.WriteByte('.')
	}
	return b.String()
}
