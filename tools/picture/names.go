package picture

import (
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// leftNames returns the space for names on the left, at most a third of the width.
func (d *drawing) leftNames(names []string, space vg.Length) (widest vg.Length) {
	style := d.style(muted, 1)
	for _, name := range names {
		widest = max(widest, style.Width(clean(name))+8)
	}
	return min(widest, space/3)
}

// drawLeftName writes the name of a row to the left of it.
func (d *drawing) drawLeftName(c *draw.Canvas, name string, left, middle vg.Length) {
	style := d.style(muted, 1)
	style.XAlign, style.YAlign = draw.XRight, draw.YCenter
	c.FillText(style, vg.Point{X: c.Min.X + left - 8, Y: middle + style.FontExtents().Descent/2},
		strings.Join(wrap(style, clean(name), left-7, 1), ""))
}

// axisName returns the name of the X axis below a grid or spans, in lines.
func (d *drawing) axisName(space vg.Length) []string {
	return wrap(d.style(muted, 1), clean(d.X), space, 3)
}

// drawAxisName writes the name of the X axis at the lower end.
func (d *drawing) drawAxisName(c *draw.Canvas, space vg.Length) {
	style := d.style(muted, 1)
	style.XAlign = draw.XCenter
	lines := d.axisName(space)
	for i, line := range lines {
		c.FillText(style, vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: c.Min.Y + vg.Length(len(lines)-i)*d.lineHeight(1)},
			line)
	}
}
