package picture

// draw draws the chart on a canvas of its width and height.
func (d *drawing) draw(on Canvas) {
	c := canvas{on, rect{Max: Point{d.width, d.height}}}
	left, right, y := c.Min.X+d.margin, c.Max.X-d.margin, c.Max.Y-d.margin

	block := func(lines []string, style textStyle, scale float64) {
		for _, s := range lines {
			c.write(style, Point{X: left, Y: y}, s)
			y -= d.lineHeight(scale)
		}
		if len(lines) > 0 {
			y -= blockGap
		}
	}
	block(d.title, d.style(ink, 1.2), 1.2)
	for _, row := range d.legend {
		for _, e := range row {
			at := Point{X: left + e.x, Y: y - d.lineHeight(1)/2}
			e.draw(&c, at)
			c.write(d.style(ink, 1), Point{X: at.X + e.sample + 6, Y: y}, e.name)
		}
		y -= d.lineHeight(1)
	}
	if d.key != nil {
		d.key.draw(&c, d, left, y)
		y -= float64(d.key.rows()) * d.lineHeight(1)
	}
	if len(d.legend) > 0 || d.key != nil {
		y -= blockGap
	}
	block(d.above, d.style(muted, 1), 1)

	top := y
	y -= d.size.plot
	d.plots()[0].drawInto(d, canvas{on, rect{Point{left, y}, Point{right, top}}})
	y -= blockGap
	block(d.below, d.style(muted, 0.9), 0.9)
}

// lineStyle and glyphStyle return the style of line i, in the legend and in the plot.
func (d *drawing) lineStyle(i int) Stroke {
	style := lineRole(i).stroke(2)
	if d.Lines[i].Dashed {
		style.Dashes = []float64{6, 4}
	}
	return style
}

func glyphStyle(i int) glyph {
	return glyph{Color: lineRole(i).color(), Radius: 3.5, Shape: marks[i%len(marks)]}
}

func (d *drawing) drawSwatch(c *canvas, i int, x, y float64) {
	kind := d.Lines[i].Kind
	width := kind.swatch()
	if kind == Bars {
		box := rect{Min: Point{X: x, Y: y - 6}, Max: Point{X: x + width, Y: y + 6}}
		c.Fill(d.lineStyle(i).Color, box.path())
		return
	}
	if kind != Points {
		c.line(d.lineStyle(i), x, y, x+width, y)
	}
	if kind == Joined || kind == Points {
		c.mark(glyphStyle(i), Point{X: x + width/2, Y: y})
	}
}
