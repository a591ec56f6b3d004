package picture

import (
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// draw draws the chart on a canvas of its width and height.
func (d *drawing) draw(canvas vg.CanvasSizer) {
	c := draw.New(canvas)
	left, right, y := c.Min.X+d.margin, c.Max.X-d.margin, c.Max.Y-d.margin

	block := func(lines []string, style text.Style, scale float64) {
		for _, s := range lines {
			c.FillText(style, vg.Point{X: left, Y: y}, s)
			y -= d.lineHeight(scale)
		}
		if len(lines) > 0 {
			y -= blockGap
		}
	}
	block(d.title, d.style(ink, 1.2), 1.2)
	for _, row := range d.legend {
		for _, e := range row {
			at := vg.Point{X: left + e.x, Y: y - d.lineHeight(1)/2}
			var swatch vg.Length
			switch {
			case d.Bullets != nil:
				swatch = d.drawMark(&c, e.line, at)
			case d.Stack != nil:
				swatch = drawShare(&c, e.line, at)
			default:
				swatch = d.Lines[e.line].Kind.swatch()
				d.drawSwatch(&c, e.line, at.X, at.Y)
			}
			c.FillText(d.style(ink, 1), vg.Point{X: at.X + swatch + 6, Y: y}, e.name)
		}
		y -= d.lineHeight(1)
	}
	if d.key != nil {
		d.key.draw(&c, d, left, y)
		y -= vg.Length(d.key.rows()) * d.lineHeight(1)
	}
	if len(d.legend) > 0 || d.key != nil {
		y -= blockGap
	}
	block(d.above, d.style(muted, 1), 1)

	top := y
	y -= d.size.plot
	into := draw.Canvas{
		Canvas:    c.Canvas,
		Rectangle: vg.Rectangle{Min: vg.Point{X: left, Y: y}, Max: vg.Point{X: right, Y: top}},
	}
	switch {
	case d.Grid != nil:
		d.gridInto(into)
	case d.Spans != nil:
		d.spansInto(into)
	case d.Bullets != nil:
		d.bulletsInto(into)
	case d.Stack != nil:
		d.stackInto(into)
	default:
		d.plotInto(into)
	}
	y -= blockGap
	block(d.below, d.style(muted, 0.9), 0.9)
}

// lineStyle and glyphStyle return the style of line i, in the legend and in the plot.
func (d *drawing) lineStyle(i int) draw.LineStyle {
	style := lineRole(i).stroke(2)
	if d.Lines[i].Dashed {
		style.Dashes = []vg.Length{6, 4}
	}
	return style
}

func glyphStyle(i int) draw.GlyphStyle {
	return draw.GlyphStyle{Color: lineRole(i).color(), Radius: 3.5, Shape: marks[i%len(marks)]}
}

func (d *drawing) drawSwatch(c *draw.Canvas, i int, x, y vg.Length) {
	kind := d.Lines[i].Kind
	width := kind.swatch()
	if kind == Bars {
		box := vg.Rectangle{Min: vg.Point{X: x, Y: y - 6}, Max: vg.Point{X: x + width, Y: y + 6}}
		drawBar(c, box, d.lineStyle(i))
		return
	}
	if kind != Points {
		c.StrokeLine2(d.lineStyle(i), x, y, x+width, y)
	}
	if kind == Joined || kind == Points {
		c.DrawGlyphNoClip(glyphStyle(i), vg.Point{X: x + width/2, Y: y})
	}
}

// plotInto draws the axes, the grid lines and the lines.
func (d *drawing) plotInto(c draw.Canvas) {
	p := plot.New()
	p.BackgroundColor = nil
	d.setAxes(p, c.Max.X-c.Min.X)
	lines := plotter.NewGrid()
	lines.Vertical, lines.Horizontal = grid.stroke(0.75), grid.stroke(0.75)
	if len(d.Categories) > 0 {
		lines.Vertical.Color = nil
	}
	p.Add(lines)

	width, count := d.bars()
	bar := 0
	offsets := d.markOffsets()
	for i := range d.Lines {
		l := &d.Lines[i]
		points := make(plotter.XYs, len(l.X))
		for j := range points {
			points[j] = plotter.XY{X: l.X[j] + offsets[i], Y: l.Y[j]}
		}
		if l.Kind == Bars {
			offset := (float64(bar) - float64(count)/2) * width
			p.Add(bars{points, offset, width, d.lineStyle(i)})
			bar++
			continue
		}
		if l.Kind != Points {
			line := &plotter.Line{XYs: points, LineStyle: d.lineStyle(i)}
			p.Add(line)
		}
		if l.Kind == Joined || l.Kind == Points || len(points) == 1 {
			p.Add(&plotter.Scatter{XYs: d.marked(points, l.Kind), GlyphStyle: glyphStyle(i)})
		}
	}
	p.Draw(c)
}

// marked returns the points that get a mark: all of them, or some if all would overlap.
func (d *drawing) marked(points plotter.XYs, kind Kind) plotter.XYs {
	most := int(d.width / 12)
	if kind == Points || len(points) <= most {
		return points
	}
	var some plotter.XYs
	for i := 0; i < len(points); i += (len(points)-1)/most + 1 {
		some = append(some, points[i])
	}
	return some
}

// setAxes sets the ranges of the axes so that they contain all points, and their ticks and styles.
func (d *drawing) setAxes(p *plot.Plot, space vg.Length) {
	x, y := newExtent(), newExtent()
	width, count := d.bars()
	for i := range d.Lines {
		l := &d.Lines[i]
		x.add(l.X...)
		y.add(l.Y...)
		if l.Kind == Bars {
			x.add(slices.Min(l.X)-width*float64(count)/1.6, slices.Max(l.X)+width*float64(count)/1.6)
		}
	}
	for _, a := range []struct {
		axis   *plot.Axis
		e      extent
		log    bool
		ticks  int
		label  func(float64) string
		plain  bool // no format is set
		isY    bool
		labels []string
	}{
		{&p.X, x, d.LogX, d.xTicks, d.formatX, d.FormatX == nil && len(d.Categories) == 0, false, d.Categories},
		{&p.Y, y, d.LogY, d.yTicks, d.formatY, d.FormatY == nil, true, nil},
	} {
		e := a.e
		var ticks []plot.Tick
		switch {
		case len(a.labels) > 0:
			e = extent{-0.5, float64(len(a.labels)) - 0.5}
			for i := range a.labels {
				ticks = append(ticks, plot.Tick{Value: float64(i), Label: nonEmpty(d.formatX(float64(i)), " ")})
			}
		case a.log:
			if e.max < e.min*1.5 {
				e.min, e.max = e.min/1.5, e.max*1.5
			}
			if a.isY {
				e.min, e.max = e.min/1.08, e.max*1.08
			}
			ticks = logTicks(e, a.ticks, a.label)
		default:
			if a.isY {
				e.add(0)
			}
			if e.max-e.min <= 1e-12*max(math.Abs(e.min), math.Abs(e.max)) {
				grow := max(math.Abs(e.max)/2, 1)
				e.min, e.max = e.min-grow, e.max+grow
				if a.isY {
					e.min = 0
				}
			}
			var step float64
			ticks, step = linearTicks(e, a.ticks, a.label)
			if a.isY { // extend the range to the next label
				e = extent{math.Floor(e.min/step+1e-9) * step, math.Ceil(e.max/step-1e-9) * step}
				ticks, _ = linearTicks(e, a.ticks+2, a.label)
			}
		}
		if a.plain {
			makeDistinct(ticks)
		}
		a.axis.Min, a.axis.Max = e.min, e.max
		if a.log {
			a.axis.Scale = plot.LogScale{}
		}
		a.axis.Tick.Marker = plot.ConstantTicks(ticks)
		a.axis.Tick.LineStyle, a.axis.Tick.Length = muted.stroke(1), 6 // space for labels of both axes at the corner
		label := d.style(muted, 1)
		label.XAlign, label.YAlign = a.axis.Tick.Label.XAlign, a.axis.Tick.Label.YAlign
		a.axis.Tick.Label = label
		a.axis.LineStyle = muted.stroke(1)
		a.axis.Padding = 0
		if a.isY { // grid lines replace the axis line
			a.axis.Padding = 4
			a.axis.LineStyle.Width, a.axis.Tick.LineStyle.Width = 0, 0
			a.axis.Tick.Label.YAlign -= 0.08 // digits have no descenders
		}
	}
	name := d.style(muted, 1)
	name.XAlign, name.YAlign = draw.XCenter, draw.YBottom
	p.X.Label.TextStyle = name
	p.X.Label.Padding = 4
	p.X.Label.Text = strings.Join(wrap(name, clean(d.X), space*0.8, 2), "\n")
	if len(d.Categories) > 0 {
		d.fitCategories(p, space)
	}
}

// fitCategories rotates the names below the axis if they would overlap, and cuts long ones.
func (d *drawing) fitCategories(p *plot.Plot, space vg.Length) {
	ticks, ok := p.X.Tick.Marker.(plot.ConstantTicks)
	if !ok {
		return
	}
	style := &p.X.Tick.Label
	widest := vg.Length(0)
	for _, t := range ticks {
		widest = max(widest, style.Width(t.Label))
	}
	if widest+8 <= space*0.85/vg.Length(len(ticks)) {
		return
	}
	for i := range ticks {
		ticks[i].Label = strings.Join(wrap(*style, ticks[i].Label, d.size.plot*0.35, 1), "")
	}
	style.Rotation = math.Pi / 4
	style.XAlign, style.YAlign = draw.XRight, draw.YTop
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

// bars implements plot.Plotter. It draws rectangles from zero.
type bars struct {
	plotter.XYs
	offset, width float64 // from X to the left edge, in units of X
	style         draw.LineStyle
}

func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, at := range b.XYs {
		left, right := x(at.X+b.offset), x(at.X+b.offset+b.width)
		box := vg.Rectangle{Min: vg.Point{X: left, Y: y(min(at.Y, 0))}, Max: vg.Point{X: right, Y: y(max(at.Y, 0))}}
		if wide := right - left; wide > 4 {
			box.Min.X, box.Max.X = left+0.75, right-0.75 // a thin gap between neighbors
		}
		drawBar(&c, box, b.style)
	}
}

func drawBar(c *draw.Canvas, box vg.Rectangle, style draw.LineStyle) {
	c.FillPolygon(style.Color, []vg.Point{box.Min, {X: box.Max.X, Y: box.Min.Y}, box.Max, {X: box.Min.X, Y: box.Max.Y}})
}
