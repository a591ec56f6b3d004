package picture

import (
	"image/color"
	"strconv"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A role is what a color is used for. The page gives each its value for light and for dark; elsewhere it is the light one.
type role uint8

const (
	ink   role = iota // titles
	muted             // what the axes say
	grid
	background
	series0 // and numColors-1 more
)

const numColors = 6

// The lines' colors differ in hue and in lightness, so that who sees two of the three cones' colors, or a grey print,
// can tell them apart; a test computes it. All stand out from the background by 3:1 or more.
var palette = [series0 + numColors]struct {
	name        string
	light, dark color.NRGBA
}{
	ink:         {"ink", hex(0x1b1f24), hex(0xe8eaed)},
	muted:       {"muted", hex(0x555d66), hex(0xa9b1ba)},
	grid:        {"grid", hex(0xdfe3e8), hex(0x343a41)},
	background:  {"background", hex(0xffffff), hex(0x15181c)},
	series0:     {"series-1", hex(0x0072b2), hex(0x4ba3e3)}, // blue
	series0 + 1: {"series-2", hex(0xd55e00), hex(0xf08a3c)}, // vermillion
	series0 + 2: {"series-3", hex(0x009e73), hex(0x35c79c)}, // green
	series0 + 3: {"series-4", hex(0x882255), hex(0xe08bb8)}, // purple
	series0 + 4: {"series-5", hex(0xa88300), hex(0xf2d45c)}, // ochre
	series0 + 5: {"series-6", hex(0x24292f), hex(0xffffff)}, // ink
}

// marks come with the colors: as many as have no divisor in common with these, so that a pair comes again after all pairs.
var marks = [...]draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.CrossGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{},
}

func hex(rgb uint32) color.NRGBA {
	return color.NRGBA{R: uint8(rgb >> 16 & 0xff), G: uint8(rgb >> 8 & 0xff), B: uint8(rgb & 0xff), A: 0xff}
}

func (r role) color() color.Color { return palette[r].light }

func (r role) stroke(width float64) draw.LineStyle {
	return draw.LineStyle{Color: r.color(), Width: vg.Points(width)}
}

// lineRole is the color of a chart's line.
func lineRole(i int) role { return series0 + role(i%numColors) }

// cssHex prints a color as CSS and the SVG canvas do.
func cssHex(c color.NRGBA) string {
	const digits = 1 << 24
	return "#" + strconv.FormatUint(digits|uint64(c.R)<<16|uint64(c.G)<<8|uint64(c.B), 16)[1:]
}
