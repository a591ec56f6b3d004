package picture

import (
	"image/color"
	"math"
)

// A Canvas is what a chart is drawn on. Lengths are points, 72 of which are an inch, and y grows upwards from 0.
type Canvas interface {
	Fill(k color.NRGBA, all ...Path)
	Stroke(s Stroke, all ...Path)
	// Text writes a line of text whose baseline begins at a place, turned by an angle against the clock.
	Text(k color.NRGBA, size float64, at Point, angle float64, line string)
}

// A Point is a place on a canvas.
type Point struct{ X, Y float64 }

// A Path is a polygon, a line through points, or a circle around its only point.
type Path struct {
	Points []Point
	Open   bool    // a line, whose last point is not joined to the first
	Radius float64 // of a circle, else 0
}

// A Stroke is how the line of a path looks.
type Stroke struct {
	Color  color.NRGBA
	Width  float64
	Dashes []float64 // lengths of dashes and gaps in turn; nil for none
}

type rect struct{ Min, Max Point }

func (r rect) size() Point { return Point{r.Max.X - r.Min.X, r.Max.Y - r.Min.Y} }

func (r rect) middle() Point { return Point{(r.Min.X + r.Max.X) / 2, (r.Min.Y + r.Max.Y) / 2} }

// inside returns the rectangle without a margin on each side.
func (r rect) inside(x, y float64) rect {
	return rect{Point{r.Min.X + x, r.Min.Y + y}, Point{r.Max.X - x, r.Max.Y - y}}
}

func (r rect) path() Path {
	return Path{Points: []Point{r.Min, {r.Max.X, r.Min.Y}, r.Max, {r.Min.X, r.Max.Y}}}
}

// A canvas is a rectangle of a Canvas.
type canvas struct {
	Canvas
	rect
}

func (c *canvas) line(s Stroke, x1, y1, x2, y2 float64) { c.lines(s, []Point{{x1, y1}, {x2, y2}}) }

func (c *canvas) lines(s Stroke, at []Point) { c.Stroke(s, Path{Points: at, Open: true}) }

// write writes a line of text at a place, by its alignment.
func (c *canvas) write(s textStyle, at Point, line string) {
	if line == "" {
		return
	}
	sin, cos := math.Sincos(s.rotation)
	x, y := s.xAlign*s.width(line), s.yAlign*s.size
	c.Text(s.color, s.size, Point{at.X + x*cos - y*sin, at.Y + x*sin + y*cos}, s.rotation, line)
}

// A textStyle is how text looks, and which of its points is at the place where it is written.
type textStyle struct {
	color          color.NRGBA
	size           float64
	xAlign, yAlign float64 // the left end of the baseline from that point, in widths of the text and in sizes
	rotation       float64
}

const (
	alignLeft, alignCenter, alignRight = 0.0, -0.5, -1.0
	alignTop, alignMiddle, alignBottom = -0.905, -0.35, 0.212
)

// widths are those of the characters of Liberation Sans from the space on, in thousandths of the size. Arial and
// Helvetica have the same.
var widths = [...]uint16{
	278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
	556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833,
	722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556,
	556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334,
	260, 334, 584,
}

// width returns the width of a text.
func (s textStyle) width(text string) float64 { return Width(text) * s.size / 1000 }

// Width returns the width of a text of size 1000 as it is assumed where a chart is laid out. Characters that are not in
// ASCII count as wide as most of their kind.
func Width(text string) (sum float64) {
	for _, r := range text {
		switch at := int(r) - ' '; {
		case at >= 0 && at < len(widths):
			sum += float64(widths[at])
		case r < 0x1100 || r >= 0x2010 && r < 0x2016 || r >= 0x2200 && r < 0x2300: // scripts, dashes, signs
			sum += 600
		default:
			sum += 1000
		}
	}
	return sum
}
