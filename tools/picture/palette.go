package picture

import (
	"image/color"
	"math"
	"strconv"
)

// A role is the use of a color. On a page it has a value for light and one for dark mode; elsewhere the light one is
// used.
type role int

const (
	ink   role = iota // titles
	muted             // labels of axes
	grid
	background
	series0                       // and numColors-1 more
	ramp0   = series0 + numColors // and numSteps-1 more
	amber   = ramp0 + numSteps    // what was not read
)

const (
	numColors = 6
	numSteps  = 12
)

// A search made the colors of lines as distinct as possible for eyes with and without each kind of color blindness,
// with a contrast of at least 3:1 to the background; a test checks both. The steps of the ramp lead away from the
// background. For every eye each is darker than the one before, or lighter in dark mode, so that their order shows
// without hues.
var palette = [amber + 1]struct {
	name        string
	light, dark color.NRGBA
}{
	ink:         {"ink", hex(0x1b1f24), hex(0xe8eaed)},
	muted:       {"muted", hex(0x555d66), hex(0xa9b1ba)},
	grid:        {"grid", hex(0xdfe3e8), hex(0x343a41)},
	background:  {"background", hex(0xffffff), hex(0x15181c)},
	series0:     {"series-1", hex(0x0072b2), hex(0x557ce4)}, // blue
	series0 + 1: {"series-2", hex(0xd55e00), hex(0xdc622f)}, // vermillion
	series0 + 2: {"series-3", hex(0x00a964), hex(0x29ee90)}, // green
	series0 + 3: {"series-4", hex(0x9b3e66), hex(0xb96396)}, // plum
	series0 + 4: {"series-5", hex(0x805b28), hex(0xffcc34)}, // brown, gold
	series0 + 5: {"series-6", hex(0x2e1631), hex(0xffffff)}, // like ink
	ramp0:       {"ramp-1", hex(0xe5e2b3), hex(0x0a2d5e)},   // straw to navy; the reverse in dark mode
	ramp0 + 1:   {"ramp-2", hex(0xc1d4a4), hex(0x003d69)},
	ramp0 + 2:   {"ramp-3", hex(0x9ac79b), hex(0x014d73)},
	ramp0 + 3:   {"ramp-4", hex(0x70b998), hex(0x005d7d)},
	ramp0 + 4:   {"ramp-5", hex(0x3fa999), hex(0x006d88)},
	ramp0 + 5:   {"ramp-6", hex(0x04979b), hex(0x037d91)},
	ramp0 + 6:   {"ramp-7", hex(0x018495), hex(0x018f97)},
	ramp0 + 7:   {"ramp-8", hex(0x01718b), hex(0x00a295)},
	ramp0 + 8:   {"ramp-9", hex(0x005f80), hex(0x3fb28a)},
	ramp0 + 9:   {"ramp-10", hex(0x014d75), hex(0x74c07d)},
	ramp0 + 10:  {"ramp-11", hex(0x003b6b), hex(0xa4cb74)},
	ramp0 + 11:  {"ramp-12", hex(0x002966), hex(0xd5d372)},
	amber:       {"amber", hex(0xb06a00), hex(0xffab2e)},
}

// marks are combined with colors. Their number has no common divisor with numColors, so that all pairs occur before one
// repeats.
var marks = [...]mark{
	{corners: 0},
	{corners: 4, turn: math.Pi / 4},
	{corners: 3, turn: math.Pi / 2},
	{corners: 4},
	{corners: 0, hollow: true},
	{corners: 4, turn: math.Pi / 4, hollow: true},
	{corners: 3, turn: math.Pi / 2, hollow: true},
}

// A mark is a regular polygon or a circle; all marks look equally large.
type mark struct {
	corners int     // 0 is a circle
	turn    float64 // of the first corner from the right, in radians
	hollow  bool
}

// A glyph is a mark with its color and size.
type glyph struct {
	Color  color.NRGBA
	Radius float64
	Shape  mark
}

func (c *canvas) mark(g glyph, at Point) {
	path := Path{Points: []Point{at}, Radius: g.Radius}
	if g.Shape.corners > 0 {
		n := float64(g.Shape.corners)
		// A polygon with the area of the circle has a radius greater by √(π / (n/2 · sin(2π/n))).
		radius := g.Radius * math.Sqrt(2*math.Pi/(n*math.Sin(2*math.Pi/n)))
		path = Path{}
		for i := range g.Shape.corners {
			sin, cos := math.Sincos(g.Shape.turn + 2*math.Pi*float64(i)/n)
			path.Points = append(path.Points, Point{at.X + radius*cos, at.Y + radius*sin})
		}
	}
	if g.Shape.hollow {
		c.Fill(background.color(), path)
		c.Stroke(Stroke{Color: g.Color, Width: 1.75}, path)
	} else {
		c.Fill(g.Color, path)
	}
}

func hex(rgb uint32) color.NRGBA {
	return color.NRGBA{R: uint8(rgb >> 16 & 0xff), G: uint8(rgb >> 8 & 0xff), B: uint8(rgb & 0xff), A: 0xff}
}

func (r role) color() color.NRGBA { return palette[r].light }

func (r role) stroke(width float64) Stroke { return Stroke{Color: r.color(), Width: width} }

// lineRole returns the color of line i of a chart.
func lineRole(i int) role { return series0 + role(i%numColors) }

// onStep returns the color of text on a step of the ramp.
func onStep(step int) role {
	if step < numSteps/2 {
		return ink
	}
	return background
}

// cssHex formats a color as CSS and the SVG canvas do.
func cssHex(c color.NRGBA) string {
	const digits = 1 << 24
	return "#" + strconv.FormatUint(digits|uint64(c.R)<<16|uint64(c.G)<<8|uint64(c.B), 16)[1:]
}
