package picture

import (
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A size is a layout for a width; the height follows from what stands above and below the plot.
type size struct {
	width, plot vg.Length // of the picture; of the plot with its axes
	text        float64   // of labels, in points
	xTicks      int       // how many labels fit below the plot, about
	yTicks      int
	swatch      vg.Length // of each color of a scale
}

var (
	wide   = size{width: 720, plot: 350, text: 14, xTicks: 8, yTicks: 6, swatch: 18}
	narrow = size{width: 330, plot: 260, text: 13, xTicks: 4, yTicks: 6, swatch: 11}
)

func (s size) style(r role, scale float64) text.Style {
	return text.Style{
		Color:   r.color(),
		Font:    font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, vg.Points(s.text*scale)),
		XAlign:  draw.XLeft,
		YAlign:  draw.YTop,
		Handler: plot.DefaultTextHandler,
	}
}

// A drawing is a chart laid out: the blocks of text above and below the plot, and how high all that is.
type drawing struct {
	*Chart
	size
	margin              vg.Length
	title, above, below []string // title; name of the Y axis; caption
	legend              [][]entry
	key                 *key      // of colors, instead of a legend
	ends                vg.Length // room for names at the lines' ends, which need no legend then
	height              vg.Length
}

// An entry is a line's place in the legend.
type entry struct {
	line  int
	name  string
	x     vg.Length
	width vg.Length
}

const (
	gap      = vg.Length(20) // between entries of the legend
	blockGap = vg.Length(6)  // between a picture's parts
)

// layOut places everything. The words around the picture (title and caption) are part of it, or the page's business.
func (c *Chart) layOut(s size, words bool) *drawing {
	d := &drawing{Chart: c, size: s, margin: 4}
	if words {
		d.margin = 14
	}
	room := s.width - 2*d.margin
	if words {
		d.title = wrap(d.style(ink, 1.2), clean(c.Title), room, 3)
		d.below = wrap(d.style(muted, 0.9), clean(c.Caption), room, 6)
	}
	d.above = wrap(d.style(muted, 1), clean(c.Y), room, 2)
	switch {
	case c.Grid != nil:
		d.setKey(c.Grid.Scale, c.Grid.all(), "")
		d.size.plot = d.gridHeight(room)
	case c.Spans != nil:
		marked := ""
		if c.Spans.marked() {
			marked = nonEmpty(c.Spans.Marked, "marked")
		}
		d.setKey(c.Spans.Scale, c.Spans.all(), marked)
		d.size.plot = d.spansHeight(room)
	default:
		d.setLegend(room)
	}
	legend := len(d.legend)
	if d.key != nil {
		legend = d.key.rows()
	}
	d.height = 2*d.margin + d.plot()
	d.height += vg.Length(len(d.title)) * d.lineHeight(1.2)
	d.height += vg.Length(legend+len(d.above)) * d.lineHeight(1)
	d.height += vg.Length(len(d.below)) * d.lineHeight(0.9)
	for _, block := range []int{len(d.title), legend, len(d.above), len(d.below)} {
		if block > 0 {
			d.height += blockGap
		}
	}
	d.height = vg.Length(math.Ceil(float64(d.height)))
	return d
}

// setLegend puts the names of the lines in rows, where they do not stand at the lines' ends.
func (d *drawing) setLegend(room vg.Length) {
	c := d.Chart
	d.ends = d.endNames(room)
	if d.ends == 0 && (len(c.Lines) > 1 || c.Lines[0].Name != "") {
		style := d.style(ink, 1)
		x := vg.Length(0)
		for i := range c.Lines {
			swatch := c.Lines[i].Kind.swatch() + 6
			name := strings.Join(wrap(style, clean(c.Lines[i].Name), room-swatch, 1), "")
			e := entry{line: i, name: name, width: swatch + style.Width(name)}
			if x > 0 && x+e.width > room {
				x = 0
			}
			if x == 0 {
				d.legend = append(d.legend, nil)
			}
			e.x = x
			d.legend[len(d.legend)-1] = append(d.legend[len(d.legend)-1], e)
			x += e.width + gap
		}
	}
}

func (s size) lineHeight(scale float64) vg.Length { return vg.Points(s.text * scale * 1.35) }

// wrap breaks a text into lines of a width, between words where it can. What does not fit in the last line is cut.
func wrap(style text.Style, s string, width vg.Length, most int) []string {
	var lines []string
	for rest := []rune(s); len(rest) > 0; {
		// As many characters as fit, or one.
		n := 1
		for n < len(rest) && n < 1000 && style.Width(string(rest[:n+1])) <= width {
			n++
		}
		if n < len(rest) {
			if len(lines) == most-1 {
				for n > 1 && style.Width(string(rest[:n])+"…") > width {
					n--
				}
				return append(lines, strings.TrimSpace(string(rest[:n]))+"…")
			}
			if rest[n] != ' ' {
				if space := lastSpace(rest[:n]); space > 0 {
					n = space
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

func lastSpace(s []rune) int {
	for i := len(s) - 1; i > 0; i-- {
		if s[i] == ' ' {
			return i
		}
	}
	return 0
}

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
			d.drawSwatch(&c, e.line, left+e.x, y-d.lineHeight(1)/2)
			c.FillText(d.style(ink, 1), vg.Point{X: left + e.x + d.Lines[e.line].Kind.swatch() + 6, Y: y}, e.name)
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
	y -= d.plot()
	into := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: left, Y: y}, Max: vg.Point{X: right, Y: top}}}
	switch {
	case d.Grid != nil:
		d.gridInto(into)
	case d.Spans != nil:
		d.spansInto(into)
	default:
		d.plotInto(into)
	}
	y -= blockGap
	block(d.below, d.style(muted, 0.9), 0.9)
}

func (d *drawing) plot() vg.Length { return d.size.plot }

// lineStyle and glyphStyle are how line i looks, in the legend as in the plot.
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

// swatch is the width of what stands in front of a name in the legend.
func (k Kind) swatch() vg.Length {
	switch k {
	case Points:
		return 9
	case Bars:
		return 14
	default:
		return 28
	}
}

func (d *drawing) drawSwatch(c *draw.Canvas, i int, x, y vg.Length) {
	kind := d.Lines[i].Kind
	width := kind.swatch()
	if kind == Bars {
		box := vg.Rectangle{Min: vg.Point{X: x, Y: y - 6}, Max: vg.Point{X: x + width, Y: y + 6}}
		drawBar(c, box, d.lineStyle(i), d.Lines[i].Dashed)
		return
	}
	if kind != Points {
		c.StrokeLine2(d.lineStyle(i), x, y, x+width, y)
	}
	if kind == Joined || kind == Points {
		c.DrawGlyphNoClip(glyphStyle(i), vg.Point{X: x + width/2, Y: y})
	}
}

// plotInto has the axes, the grid and the lines drawn.
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
	for i := range d.Lines {
		l := &d.Lines[i]
		points := make(plotter.XYs, len(l.X))
		for j := range points {
			points[j] = plotter.XY{X: l.X[j], Y: l.Y[j]}
		}
		if l.Kind == Bars {
			offset := (float64(bar) - float64(count)/2) * width
			p.Add(bars{points, offset, width, d.lineStyle(i), l.Dashed})
			bar++
			continue
		}
		if l.Kind != Points {
			line := &plotter.Line{XYs: points, LineStyle: d.lineStyle(i)}
			if l.Kind == Steps {
				line.StepStyle = plotter.PostStep
			}
			p.Add(line)
		}
		if l.Kind == Joined || l.Kind == Points || len(points) == 1 {
			p.Add(&plotter.Scatter{XYs: d.marked(points, l.Kind), GlyphStyle: glyphStyle(i)})
		}
	}
	c = draw.Crop(c, 0, -d.ends, 0, 0) // less on the right
	p.Draw(c)
	if d.ends > 0 {
		d.nameEnds(p, c)
	}
}

// marked are the points that have a mark: all, or some where they would run together.
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

// bars are how wide one is, in units of X, and how many stand side by side.
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

// setAxes gives the axes ranges that hold all points, ticks, and their looks.
func (d *drawing) setAxes(p *plot.Plot, room vg.Length) {
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
		plain  bool // no format was given
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
			if a.isY { // up to the next label
				e = extent{math.Floor(e.min/step+1e-9) * step, math.Ceil(e.max/step-1e-9) * step}
				ticks, _ = linearTicks(e, a.ticks+2, a.label)
			}
		}
		if a.plain {
			tellApart(ticks)
		}
		a.axis.Min, a.axis.Max = e.min, e.max
		if a.log {
			a.axis.Scale = plot.LogScale{}
		}
		a.axis.Tick.Marker = plot.ConstantTicks(ticks)
		a.axis.Tick.LineStyle, a.axis.Tick.Length = muted.stroke(1), 4
		label := d.style(muted, 1)
		label.XAlign, label.YAlign = a.axis.Tick.Label.XAlign, a.axis.Tick.Label.YAlign
		a.axis.Tick.Label = label
		a.axis.LineStyle = muted.stroke(1)
		a.axis.Padding = 0
		if a.isY { // its grid is enough
			a.axis.Padding = 4
			a.axis.LineStyle.Width, a.axis.Tick.LineStyle.Width = 0, 0
			a.axis.Tick.Label.YAlign -= 0.08 // digits have no descenders
		}
	}
	name := d.style(muted, 1)
	name.XAlign, name.YAlign = draw.XCenter, draw.YBottom
	p.X.Label.TextStyle = name
	p.X.Label.Padding = 4
	p.X.Label.Text = strings.Join(wrap(name, clean(d.X), room*0.8, 2), "\n")
	if len(d.Categories) > 0 {
		d.fitCategories(p, room)
	}
}

// fitCategories turns the names below the axis where they would run into each other, and cuts what is too long.
func (d *drawing) fitCategories(p *plot.Plot, room vg.Length) {
	ticks, ok := p.X.Tick.Marker.(plot.ConstantTicks)
	if !ok {
		return
	}
	style := &p.X.Tick.Label
	widest := vg.Length(0)
	for _, t := range ticks {
		widest = max(widest, style.Width(t.Label))
	}
	if widest+8 <= room*0.85/vg.Length(len(ticks)) {
		return
	}
	for i := range ticks {
		ticks[i].Label = strings.Join(wrap(*style, ticks[i].Label, d.plot()*0.35, 1), "")
	}
	style.Rotation = math.Pi / 4
	style.XAlign, style.YAlign = draw.XRight, draw.YTop
}

// bars are a plot.Plotter: rectangles from zero.
type bars struct {
	plotter.XYs
	offset, width float64 // from X to the left side, in units of X
	style         draw.LineStyle
	hollow        bool
}

func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, at := range b.XYs {
		left, right := x(at.X+b.offset), x(at.X+b.offset+b.width)
		box := vg.Rectangle{Min: vg.Point{X: left, Y: y(min(at.Y, 0))}, Max: vg.Point{X: right, Y: y(max(at.Y, 0))}}
		if wide := right - left; wide > 4 {
			box.Min.X, box.Max.X = left+0.75, right-0.75 // a thread of light between neighbours
		}
		drawBar(&c, box, b.style, b.hollow)
	}
}

func drawBar(c *draw.Canvas, box vg.Rectangle, style draw.LineStyle, hollow bool) {
	corners := []vg.Point{box.Min, {X: box.Max.X, Y: box.Min.Y}, box.Max, {X: box.Min.X, Y: box.Max.Y}}
	if !hollow {
		c.FillPolygon(style.Color, corners)
		return
	}
	style.Dashes, style.Width = nil, 1.5
	c.StrokeLines(style, append(corners, box.Min))
}
