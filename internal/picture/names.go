package picture

import (
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// leftNames is the room for names on the left, a third of all at most.
func (d *drawing) leftNames(names []string, room vg.Length) (widest vg.Length) {
	style := d.style(muted, 1)
	for _, name := range names {
		widest = max(widest, style.Width(clean(name))+8)
	}
	return min(widest, room/3)
}

// drawLeftName writes a name beside the middle of a row.
func (d *drawing) drawLeftName(c *draw.Canvas, name string, left, middle vg.Length) {
	style := d.style(muted, 1)
	style.XAlign, style.YAlign = draw.XRight, draw.YCenter
	c.FillText(style, vg.Point{X: c.Min.X + left - 8, Y: middle + style.FontExtents().Descent/2}, strings.Join(wrap(style, clean(name), left-7, 1), ""))
}

// axisName is the name of the X axis below a grid or spans.
func (d *drawing) axisName(room vg.Length) []string {
	return wrap(d.style(muted, 1), clean(d.X), room, 3)
}

// drawAxisName writes the name of the X axis at the lower end.
func (d *drawing) drawAxisName(c *draw.Canvas, room vg.Length) {
	style := d.style(muted, 1)
	style.XAlign = draw.XCenter
	lines := d.axisName(room)
	for i, line := range lines {
		c.FillText(style, vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: c.Min.Y + vg.Length(len(lines)-i)*d.lineHeight(1)}, line)
	}
}
