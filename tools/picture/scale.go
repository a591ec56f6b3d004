package picture

import (
	"fmt"
	"math"
	"strings"
)

// A Scale maps values to a ramp of colors. Higher values are darker, or lighter in dark mode.
type Scale struct {
	// Low and High are the ends. Values beyond an end get its color. If both are zero, the lowest and the highest value
	// are used.
	Low, High float64
	// Log makes each step the same factor. Values must not be negative; zero gets the color of the lowest value.
	Log bool
	// Unknown is the meaning of NoValue in the key, by default "not known".
	Unknown string
}

// NoValue marks an unknown value. It is drawn as an outline, and among spans as an amber box.
const NoValue = -math.MaxFloat64

// A ramp is a scale with known ends.
type ramp struct {
	Scale

	below, above bool // some values lie beyond an end
	unknown      bool // there is a NoValue
	known        int  // number of values
}

// newRamp checks all values and reports the first that is not on the scale.
func newRamp(s Scale, values []float64) (*ramp, error) {
	r := &ramp{Scale: s}
	lowest, highest := math.Inf(1), math.Inf(-1)
	for i, v := range values {
		size := math.Abs(v)
		switch {
		case v == NoValue:
			r.unknown = true
			continue
		case math.IsNaN(size) || size > maxValue || size > 0 && size < 1/maxValue:
			return nil, fmt.Errorf("value %d is %v, want 0 or a number between %g and %g, either sign",
				i, v, 1/maxValue, maxValue)
		case s.Log && v < 0:
			return nil, fmt.Errorf("value %d is %v, want 0 or more on a logarithmic scale", i, v)
		}
		r.known++
		if v > 0 || !s.Log {
			lowest = min(lowest, v)
		}
		highest = max(highest, v)
	}
	if s.Low == 0 && s.High == 0 {
		if r.Low, r.High = lowest, highest; lowest > highest { // no values, or only zeros on a logarithmic scale
			r.Low, r.High = 1, 1
		}
	}
	if !(r.Low <= r.High && math.Abs(r.Low) <= maxValue && math.Abs(r.High) <= maxValue &&
		(!s.Log || r.Low >= 1/maxValue)) {
		return nil, fmt.Errorf("the scale is from %v to %v, want rising numbers, above zero if it is logarithmic",
			s.Low, s.High)
	}
	for _, v := range values {
		if v != NoValue {
			r.below, r.above = r.below || v < r.Low, r.above || v > r.High
		}
	}
	return r, nil
}

// step returns the color of a value, 0 to numSteps-1.
func (r *ramp) step(v float64) int {
	low, high := r.Low, r.High
	if r.Log {
		low, high, v = math.Log(low), math.Log(high), math.Log(max(v, r.Low))
	}
	if high-low <= 1e-12*math.Abs(high) {
		return numSteps / 2
	}
	return min(max(int((v-low)/(high-low)*numSteps), 0), numSteps-1)
}

// A key explains the colors in one or two rows: the scale, and outlines below it.
type key struct {
	*ramp
	low, high string
	noValue   string // the meaning of NoValue
	hollow    role   // color of the outline of NoValue; amber fills the box
	marked    string // the meaning of an outline, or ""
	name      string // of the values, if there is space for it; then everything is in one row
}

func (d *drawing) setKey(s Scale, values []float64, hollow role, marked string) {
	r, err := newRamp(s, values)
	if err != nil {
		r = &ramp{Scale: Scale{Low: 1, High: 1}} // check has reported the error
	}
	k := &key{
		ramp: r, low: d.formatY(r.Low), high: d.formatY(r.High), noValue: nonEmpty(clean(s.Unknown), "not known"),
		hollow: hollow, marked: clean(marked),
	}
	if r.below {
		k.low = "≤ " + k.low
	}
	if r.above {
		k.high = "≥ " + k.high
	}
	d.key = k
}

// rows returns the height of the key in lines of text.
func (k *key) rows() int {
	if k.name == "" && (k.unknown || k.marked != "") {
		return 2
	}
	return 1
}

// draw draws the key with its upper left corner at x and y.
func (k *key) draw(c *canvas, d *drawing, x, y float64) {
	style, line := d.style(ink, 1), d.lineHeight(1)
	write := func(s string) {
		c.write(style, Point{X: x, Y: y}, s)
		x += style.width(s) + 8
	}
	left := x
	if k.known > 0 {
		write(k.low)
		if k.low != k.high {
			for step := range numSteps {
				drawBox(c, rect{Min: Point{X: x, Y: y - line + 5}, Max: Point{X: x + d.swatch, Y: y - 2}},
					ramp0+role(step))
				x += d.swatch
			}
			x += 8
			write(k.high)
		} else {
			drawBox(c, rect{Min: Point{X: x, Y: y - line + 5}, Max: Point{X: x + 2*d.swatch, Y: y - 2}},
				ramp0+numSteps/2)
		}
	}
	if k.name != "" {
		style.color = muted.color()
		write(k.name)
		x += gap
		style.color = ink.color()
	} else {
		x, y = left, y-line
	}
	for _, sign := range []struct {
		name  string
		there bool
		role  role
	}{{k.noValue, k.unknown, k.sign()}, {k.marked, k.marked != "", ink}} {
		if !sign.there {
			continue
		}
		box := rect{Min: Point{X: x + 1, Y: y - line + 5}, Max: Point{X: x + 15, Y: y - 2}}
		if sign.role == amber {
			drawBox(c, box, amber)
		} else {
			c.outline(sign.role.stroke(outlineWidth(sign.role)), box, 0)
		}
		x += 22
		write(strings.Join(wrap(style, sign.name, d.width/2-22, 1), ""))
		x += gap - 8
	}
}

// sign returns the color of NoValue in the key.
func (k *key) sign() role {
	if k.hollow == amber {
		return amber
	}
	return muted
}

// outlineWidth makes the outlines of marked boxes wider than those of unknown values.
func outlineWidth(r role) float64 {
	if r == ink {
		return 2.25
	}
	return 0.75
}

// outline draws the outline of a box, moved inward by a distance.
func (c *canvas) outline(s Stroke, box rect, inside float64) {
	c.Stroke(s, box.inside(inside, inside).path())
}

func drawBox(c *canvas, box rect, r role) { c.Fill(r.color(), box.path()) }

// A cell is a box with the color of its value.
type cell struct {
	box    rect
	value  float64
	label  string // written into the box if it fits
	marked bool
	tag    tag // on a page
}

// pageOf returns the canvas of a chart on a page, or nil.
func pageOf(c *canvas) *svgCanvas {
	if canvas, ok := c.Canvas.(*svgCanvas); ok && canvas.onPage {
		return canvas
	}
	return nil
}

// drawCells draws all boxes of a color as one path, which takes a third of the bytes, and then outlines and labels. On
// a page, a box with a tag is drawn by itself.
func (k *key) drawCells(c *canvas, d *drawing, cells []cell) {
	var steps [numSteps][]Path
	var unknown []Path
	page := pageOf(c)
	for i := range cells {
		v, box, fill := cells[i].value, cells[i].box, amber
		if v != NoValue {
			fill = ramp0 + role(k.step(v))
		}
		switch {
		case v == NoValue && k.hollow != amber:
			unknown = append(unknown, box.path())
		case page != nil && cells[i].tag != tag{}:
			page.tagged(cells[i].tag, fill.color(), box)
		case v == NoValue:
			drawBox(c, box, amber)
		default:
			steps[k.step(v)] = append(steps[k.step(v)], box.path())
		}
	}
	for step, all := range steps {
		c.Fill((ramp0 + role(step)).color(), all...)
	}
	c.Stroke(k.hollow.stroke(outlineWidth(k.hollow)), unknown...)
	for i := range cells {
		b := &cells[i]
		if b.marked {
			c.outline(background.stroke(1.5), b.box, 2.75) // so that it is visible on dark colors too
			c.outline(ink.stroke(outlineWidth(ink)), b.box, 1)
		}
		if b.label == "" {
			continue
		}
		on := muted
		if b.value != NoValue {
			on = onStep(k.step(b.value))
		} else if k.hollow == amber {
			on = background
		}
		style := d.style(on, 1)
		if size := b.box.size(); style.width(b.label)+6 <= size.X && d.lineHeight(0.8) <= size.Y {
			style.xAlign, style.yAlign = alignCenter, alignMiddle
			c.write(style, b.box.middle(), b.label)
		}
	}
}
