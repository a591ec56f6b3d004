package picture

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Grid is a table of values, drawn as cells in the colors of a scale. The chart's Y names the values, its X the
// columns.
type Grid struct {
	// Values are rows from the top. All have the same length, except that the last may be shorter.
	Values [][]float64
	Scale  Scale
	// Rows and Columns are the names of all rows and columns, or nil. If there is not enough space, some names are
	// omitted.
	Rows, Columns []string
	// Labels writes each value into its cell, by FormatY, if it fits.
	Labels bool
	// A cell stands for Each of what Of names, such as 16 blocks, one cell after the other. A pointer shows them on a
	// page.
	Of   string
	Each uint64
}

const (
	maxCells = 4096 // maximum number of cells of a grid, and of rectangles of spans

	tallest = float64(30) // maximum height of a cell
	thread  = float64(0.75)
)

func (g *Grid) check() error {
	if len(g.Values) == 0 || len(g.Values[0]) == 0 {
		return errors.New("the grid has no cells")
	}
	rows, columns := len(g.Values), len(g.Values[0])
	for i, row := range g.Values {
		if len(row) != columns && (i < rows-1 || len(row) > columns || len(row) == 0) {
			return fmt.Errorf("row %d of the grid has %d cells, want %d", i, len(row), columns)
		}
	}
	switch {
	case rows*columns > maxCells:
		return fmt.Errorf("the grid has %d × %d cells, want at most %d", rows, columns, maxCells)
	case len(g.Rows) > 0 && len(g.Rows) != rows:
		return fmt.Errorf("%d names for %d rows", len(g.Rows), rows)
	case len(g.Columns) > 0 && len(g.Columns) != columns:
		return fmt.Errorf("%d names for %d columns", len(g.Columns), columns)
	}
	_, err := newRamp(g.Scale, slices.Concat(g.Values...))
	return err
}

// layOut sets a height by which cells are at most as high as wide, but high enough for the names of their rows.
func (g *Grid) layOut(d *drawing, space float64) {
	d.setKey(g.Scale, slices.Concat(g.Values...), grid, "")
	row := min(d.gridNames(space).cell, tallest)
	if len(g.Rows) > 0 {
		row = max(row, d.lineHeight(1))
	}
	height := row * float64(len(g.Values))
	if len(g.Columns) > 0 {
		height += d.gridNames(space).below + 6
	}
	d.size.plot = height + float64(len(d.axisName(space)))*d.lineHeight(1) + 4
}

// gridNames returns the space for the names of rows and columns, and the width of a cell.
func (d *drawing) gridNames(space float64) (n struct{ left, below, cell float64 }) {
	n.left = d.leftNames(d.Grid.Rows, space)
	style := d.style(muted, 1)
	for _, name := range d.Grid.Columns {
		n.below = max(n.below, min(style.width(clean(name)), d.width/5))
	}
	n.cell = (space - n.left) / float64(len(d.Grid.Values[0]))
	return n
}

// drawInto draws the cells, their names, and the name of the X axis.
func (g *Grid) drawInto(d *drawing, c canvas) {
	space := c.Max.X - c.Min.X
	names := d.gridNames(space)
	low := c.Min.Y + float64(len(d.axisName(space)))*d.lineHeight(1) + 4
	if len(g.Columns) > 0 {
		low += names.below + 6
	}
	height := (c.Max.Y - low) / float64(len(g.Values))
	for i, name := range g.Rows {
		d.drawLeftName(&c, name, names.left, c.Max.Y-(float64(i)+0.5)*height)
	}
	all := rect{Point{c.Min.X + names.left, low}, Point{c.Max.X, c.Max.Y}}
	if page := pageOf(&c); page != nil && g.Of != "" && !g.Labels && len(g.Columns) == 0 {
		d.gridImage(page, all)
	} else {
		d.gridCells(&c, all, names.cell, height)
	}

	style := d.style(muted, 1)
	style.rotation, style.xAlign, style.yAlign = 1.5707963267948966, alignRight, alignMiddle
	every := 1
	for float64(every)*names.cell < d.lineHeight(0.8) {
		every++
	}
	for j := 0; j < len(g.Columns); j += every {
		x := c.Min.X + names.left + (float64(j)+0.5)*names.cell
		c.write(style, Point{X: x, Y: low - 4},
			strings.Join(wrap(d.style(muted, 1), clean(g.Columns[j]), names.below+1, 1), ""))
	}
	d.drawAxisName(&c, space)
}

// gridCells draws the cells, each by itself, with their values.
func (d *drawing) gridCells(c *canvas, all rect, width, height float64) {
	inside := float64(0) // a thin gap between cells, unless they are small
	if width > 6 {
		inside = thread / 2
	}
	var cells []cell
	for i, row := range d.Grid.Values {
		top := all.Max.Y - float64(i)*height
		for j, v := range row {
			x := all.Min.X + float64(j)*width
			b := cell{value: v, box: rect{Point{x, top - height}, Point{x + width, top}}.inside(inside, inside)}
			if d.Grid.Labels && v != NoValue {
				b.label = d.formatY(v)
			}
			cells = append(cells, b)
		}
	}
	d.key.drawCells(c, d, cells)
}

// gridImage draws the cells as the pixels of an image, which takes a tenth of the bytes. A narrow chart has no values
// for a pointer.
func (d *drawing) gridImage(page *svgCanvas, all rect) {
	g := d.Grid
	steps := make([][]int, len(g.Values))
	var values []string
	for i, row := range g.Values {
		for _, v := range row {
			step, text := -1, d.key.noValue
			if v != NoValue {
				step, text = d.key.step(v), d.formatY(v)
			}
			steps[i], values = append(steps[i], step), append(values, text)
		}
	}
	if d.size.width < wide.width {
		values = nil
	}
	page.cells(all, steps, values, g)
}

func (g *Grid) summary(c *Chart) string {
	name := func(names []string, i int, what string) string {
		if len(names) > 0 {
			return nonEmpty(clean(names[i]), what)
		}
		return fmt.Sprintf("%s %d", what, i+1)
	}
	type place struct {
		row, column int
		value       float64
	}
	var known []place
	for i, row := range g.Values {
		for j, v := range row {
			if v != NoValue {
				known = append(known, place{i, j, v})
			}
		}
	}
	s := fmt.Sprintf("Map of %s in %d rows and %d columns.",
		nonEmpty(clean(c.Y), "values"), len(g.Values), len(g.Values[0]))
	if len(known) == 0 {
		return s + " No value is known."
	}
	at := func(p place) string {
		return fmt.Sprintf("%s at %s, %s", c.formatY(p.value), name(g.Rows, p.row, "row"),
			name(g.Columns, p.column, "column"))
	}
	byValue := func(a, b place) int { return cmp.Compare(a.value, b.value) }
	return fmt.Sprintf("%s Lowest %s; highest %s; %d values.", s, at(slices.MinFunc(known, byValue)),
		at(slices.MaxFunc(known, byValue)), len(known))
}
