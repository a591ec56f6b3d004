package picture

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	maxEnds = 10            // lines whose names fit beside the plot
	leader  = vg.Length(14) // from a line's end to its name
)

// endNames is the room right of the plot for the names of the lines, each beside its line's end, or 0 where a legend is
// better: on a narrow picture, for one line, for many, for long names, and for lines that do not end at the right.
func (d *drawing) endNames(room vg.Length) vg.Length {
	if len(d.Lines) < 2 || len(d.Lines) > maxEnds || d.width < wide.width {
		return 0
	}
	widest, right := vg.Length(0), math.Inf(-1)
	for i := range d.Lines {
		right = max(right, slices.Max(d.Lines[i].X))
		widest = max(widest, d.style(ink, 1).Width(clean(d.Lines[i].Name)))
	}
	for i := range d.Lines {
		l := &d.Lines[i]
		if l.Kind != Joined && l.Kind != Curve || l.X[len(l.X)-1] != right {
			return 0
		}
	}
	if widest > room/4 {
		return 0
	}
	return widest + leader + 8
}

// nameEnds writes the names beside the plot, where the lines end; names that would lie over each other move apart, and a
// thin line leads to each.
func (d *drawing) nameEnds(p *plot.Plot, c draw.Canvas) {
	data := p.DataCanvas(c)
	x, y := p.Transforms(&data)
	var order []int
	var at []float64 // by line
	for i := range d.Lines {
		l := &d.Lines[i]
		order = append(order, i)
		at = append(at, float64(y(l.Y[len(l.Y)-1])))
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(at[i], at[j]) })
	sorted := make([]float64, 0, len(order))
	for _, i := range order {
		sorted = append(sorted, at[i])
	}
	style := d.style(ink, 1)
	style.YAlign = draw.YCenter
	for k, middle := range moveApart(sorted, float64(d.lineHeight(0.9)), float64(data.Min.Y), float64(data.Max.Y)) {
		i := order[k]
		from := vg.Point{X: x(d.Lines[i].X[len(d.Lines[i].X)-1]), Y: vg.Length(at[i])}
		to := vg.Point{X: c.Max.X + leader, Y: vg.Length(middle)}
		line := lineRole(i).stroke(1)
		c.StrokeLines(line, []vg.Point{{X: from.X + 5, Y: from.Y}, {X: to.X - 3, Y: to.Y}})
		c.FillText(style, vg.Point{X: to.X, Y: to.Y + style.FontExtents().Descent/2}, clean(d.Lines[i].Name))
	}
}

// moveApart moves values, which rise, as little as leaves any two at least so far apart: those that come together share
// what they move. Between low and high there must be room for all.
func moveApart(values []float64, apart, low, high float64) []float64 {
	type group struct{ sum, n float64 } // of the values, each less its distance from the group's first
	var groups []group
	for _, v := range values {
		g := group{v, 1}
		for len(groups) > 0 {
			last := groups[len(groups)-1]
			if last.sum/last.n+last.n*apart <= g.sum/g.n {
				break
			}
			g = group{last.sum + g.sum - g.n*last.n*apart, last.n + g.n}
			groups = groups[:len(groups)-1]
		}
		groups = append(groups, g)
	}
	moved := make([]float64, 0, len(values))
	for _, g := range groups {
		for i := range int(g.n) {
			moved = append(moved, g.sum/g.n+float64(i)*apart)
		}
	}
	for i := range moved {
		moved[i] = max(moved[i], low+float64(i)*apart)
	}
	for i := range moved {
		moved[i] = min(moved[i], high-float64(len(moved)-1-i)*apart)
	}
	return moved
}
