package picture

import (
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

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
