package picture

import (
	"math"
	"slices"
	"strings"
)

// An axis is the range of the values of an axis with its ticks.
type axis struct {
	extent

	log   bool
	ticks []tick
	// where the range is drawn
	from, to float64
}

// at returns the place of a value.
func (a *axis) at(v float64) float64 {
	low, high := a.min, a.max
	if a.log {
		low, high, v = math.Log(low), math.Log(high), math.Log(v)
	}
	return a.from + (a.to-a.from)*(v-low)/(high-low)
}

const (
	tickLength = 6.0 // with space between the labels of both axes at the corner
	markMargin = 4.0 // so that marks at the ends of an axis are whole
)

// drawInto draws the axes, the grid lines and the lines.
func (lines) drawInto(d *drawing, c canvas) {
	x, y := d.axes()
	style := d.style(muted, 1)
	left, right := 0.0, 0.0
	for _, t := range y.ticks {
		left = max(left, style.width(t.label)+tickLength)
	}
	label, below := style, d.lineHeight(0.85)
	label.xAlign = alignCenter
	if len(d.Categories) > 0 {
		label, below = d.fitCategories(x.ticks, c.Max.X-c.Min.X-left)
	} else if n := len(x.ticks); n > 0 {
		right = style.width(x.ticks[n-1].label) / 2 // as if it were at the end
	}
	name := wrap(style, clean(d.X), (c.Max.X-c.Min.X)*0.8, 2)
	low := c.Min.Y + float64(len(name))*d.lineHeight(1) + below + tickLength
	x.from, x.to = c.Min.X+left+markMargin, c.Max.X-max(right, markMargin)
	y.from, y.to = low+markMargin, c.Max.Y-d.lineHeight(0.5)

	line, end := grid.stroke(0.75), Point{x.to + markMargin, y.to}
	style.xAlign, style.yAlign = alignRight, alignMiddle
	for _, t := range y.ticks {
		c.line(line, x.from-markMargin, y.at(t.value), end.X, y.at(t.value))
		c.write(style, Point{x.from - markMargin - tickLength, y.at(t.value)}, t.label)
	}
	c.line(muted.stroke(1), x.from-markMargin, low, end.X, low)
	for _, t := range x.ticks {
		at := x.at(t.value)
		if len(d.Categories) == 0 {
			c.line(line, at, low, at, end.Y)
		}
		c.line(muted.stroke(1), at, low, at, low-tickLength)
		c.write(label, Point{at, low - tickLength - 1}, t.label)
	}
	style.xAlign, style.yAlign = alignCenter, alignTop
	for i, text := range name {
		c.write(style, Point{(x.from + x.to) / 2, c.Min.Y + float64(len(name)-i)*d.lineHeight(1)}, text)
	}

	width, count := d.bars()
	bar := 0
	offsets := d.markOffsets()
	for i := range d.Lines {
		l := &d.Lines[i]
		if l.Kind == Bars {
			d.drawBars(&c, i, x, y, (float64(bar)-float64(count)/2)*width, width)
			bar++
			continue
		}
		points := make([]Point, len(l.X))
		for j := range points {
			points[j] = Point{x.at(l.X[j] + offsets[i]), y.at(l.Y[j])}
		}
		if l.Kind != Points {
			c.lines(d.lineStyle(i), points)
		}
		if l.Kind == Joined || l.Kind == Points || len(points) == 1 {
			for _, at := range d.marked(points, l.Kind) {
				c.mark(glyphStyle(i), at)
			}
		}
	}
}

// drawBars draws the bars of line i, which begin at an offset from their X.
func (d *drawing) drawBars(c *canvas, i int, x, y *axis, offset, width float64) {
	var all []Path
	for j, v := range d.Lines[i].Y {
		from := d.Lines[i].X[j] + offset
		box := rect{Point{x.at(from), y.at(min(v, 0))}, Point{x.at(from + width), y.at(max(v, 0))}}
		if box.size().X > 4 {
			box = box.inside(thread, 0) // a thin gap between neighbors
		}
		all = append(all, box.path())
	}
	c.Fill(lineRole(i).color(), all...)
}

// marked returns the points that get a mark: all of them, or some if all would overlap.
func (d *drawing) marked(points []Point, kind Kind) []Point {
	most := int(d.width / 12)
	if kind == Points || len(points) <= most {
		return points
	}
	var some []Point
	for i := 0; i < len(points); i += (len(points)-1)/most + 1 {
		some = append(some, points[i])
	}
	return some
}

// axes returns the axes with ranges that contain all points, and their ticks.
func (d *drawing) axes() (x, y *axis) {
	x, y = &axis{extent: newExtent(), log: d.LogX}, &axis{extent: newExtent(), log: d.LogY}
	width, count := d.bars()
	for i := range d.Lines {
		l := &d.Lines[i]
		x.add(l.X...)
		y.add(l.Y...)
		if l.Kind == Bars {
			x.add(slices.Min(l.X)-width*float64(count)/1.6, slices.Max(l.X)+width*float64(count)/1.6)
		}
	}
	if n := len(d.Categories); n > 0 {
		x.extent = extent{-0.5, float64(n) - 0.5}
		for i := range n {
			x.ticks = append(x.ticks, tick{float64(i), nonEmpty(d.formatX(float64(i)), " ")})
		}
	} else {
		x.setTicks(d.xTicks, d.formatX, false)
	}
	y.setTicks(d.yTicks, d.formatY, true)
	if d.FormatX == nil && len(d.Categories) == 0 {
		makeDistinct(x.ticks)
	}
	if d.FormatY == nil {
		makeDistinct(y.ticks)
	}
	return x, y
}

// setTicks widens the range where it would be hard to read, and sets about n ticks.
func (a *axis) setTicks(n int, label func(float64) string, isY bool) {
	if a.log {
		if a.max < a.min*1.5 {
			a.min, a.max = a.min/1.5, a.max*1.5
		}
		if isY {
			a.min, a.max = a.min/1.08, a.max*1.08
		}
		a.ticks = logTicks(a.extent, n, label)
		return
	}
	if isY {
		a.add(0)
	}
	if a.max-a.min <= 1e-12*max(math.Abs(a.min), math.Abs(a.max)) {
		grow := max(math.Abs(a.max)/2, 1)
		a.min, a.max = a.min-grow, a.max+grow
		if isY {
			a.min = 0
		}
	}
	var step float64
	a.ticks, step = linearTicks(a.extent, n, label)
	if isY { // extend the range to the next label
		a.extent = extent{math.Floor(a.min/step+1e-9) * step, math.Ceil(a.max/step-1e-9) * step}
		a.ticks, _ = linearTicks(a.extent, n+2, label)
	}
}

// fitCategories returns the style of the names below the axis, and the height that they take: it turns them if they
// would overlap, and then cuts long ones.
func (d *drawing) fitCategories(ticks []tick, space float64) (style textStyle, height float64) {
	style = d.style(muted, 1)
	style.xAlign = alignCenter
	widest := 0.0
	for _, t := range ticks {
		widest = max(widest, style.width(t.label))
	}
	if widest+8 <= space/float64(len(ticks)) {
		return style, d.lineHeight(0.85)
	}
	widest = 0
	for i := range ticks {
		ticks[i].label = strings.Join(wrap(style, ticks[i].label, d.size.plot*0.35, 1), "")
		widest = max(widest, style.width(ticks[i].label))
	}
	style.rotation, style.xAlign, style.yAlign = math.Pi/4, alignRight, alignTop
	return style, (widest + style.size) * math.Sqrt2 / 2
}

// bars returns the width of a bar, in units of X, and the number of bars side by side.
func (d *drawing) bars() (width float64, count int) {
	var at []float64
	for i := range d.Lines {
		if d.Lines[i].Kind == Bars {
			at = append(at, d.Lines[i].X...)
			count++
		}
	}
	slices.Sort(at)
	closest := math.Inf(1)
	for i := 1; i < len(at); i++ {
		if between := at[i] - at[i-1]; between > 0 {
			closest = min(closest, between)
		}
	}
	if math.IsInf(closest, 1) || len(d.Categories) > 0 {
		closest = 1
	}
	return closest * 0.8 / float64(max(count, 1)), count
}

// markOffsets returns the distance by which the points of each line are moved, in units of X. The marks of several
// lines over one category are put side by side, so that equal values do not hide each other.
func (d *drawing) markOffsets() []float64 {
	moved := make([]float64, len(d.Lines))
	var marks []int
	for i := range d.Lines {
		if d.Lines[i].Kind == Points && len(d.Categories) > 0 {
			marks = append(marks, i)
		}
	}
	for k, i := range marks {
		moved[i] = (float64(k) - float64(len(marks)-1)/2) * min(0.12, 0.7/float64(len(marks)))
	}
	return moved
}
