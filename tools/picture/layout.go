package picture

import (
	"math"
	"strings"
)

// A drawing is a chart with its layout: the blocks of text above and below the plot, and the height of everything.
type drawing struct {
	*Chart
	size
	margin              float64
	title, above, below []string // title; name of the Y axis; caption
	legend              [][]entry
	key                 *key // explains colors, instead of a legend
	height              float64
}

// An entry is a name of the legend behind a sample of what it names.
type entry struct {
	name   string
	sample float64 // width of the sample
	draw   func(c *canvas, at Point)
	x      float64
}

const (
	gap      = float64(20) // between entries of the legend
	blockGap = float64(6)  // between the parts of a chart
)

// layOut computes the layout. With words, title and caption are part of the drawing; on a page they are HTML.
func (c *Chart) layOut(s size, words bool) *drawing {
	d := &drawing{Chart: c, size: s, margin: 4}
	if words {
		d.margin = 14
	}
	space := s.width - 2*d.margin
	if words {
		d.title = wrap(d.style(ink, 1.2), clean(c.Title), space, 3)
		d.below = wrap(d.style(muted, 0.9), clean(c.Caption), space, 6)
	}
	c.plots()[0].layOut(d, space)
	if d.key == nil || d.key.name == "" {
		d.above = wrap(d.style(muted, 1), clean(c.Y), space, 2)
	}
	legend := len(d.legend)
	if d.key != nil {
		legend = d.key.rows()
	}
	d.height = 2*d.margin + d.size.plot
	d.height += float64(len(d.title)) * d.lineHeight(1.2)
	d.height += float64(legend+len(d.above)) * d.lineHeight(1)
	d.height += float64(len(d.below)) * d.lineHeight(0.9)
	for _, block := range []int{len(d.title), legend, len(d.above), len(d.below)} {
		if block > 0 {
			d.height += blockGap
		}
	}
	d.height = math.Ceil(d.height)
	return d
}

// layOut arranges the names of the lines.
func (lines) layOut(d *drawing, space float64) {
	if len(d.Lines) > 1 || d.Lines[0].Name != "" {
		d.arrange(space, len(d.Lines), func(i int) entry {
			l := &d.Lines[i]
			return entry{name: l.Name, sample: l.Kind.swatch(), draw: func(c *canvas, at Point) {
				d.drawSwatch(c, i, at.X, at.Y)
			}}
		})
	}
}

// arrange arranges n names of the legend in rows.
func (d *drawing) arrange(space float64, n int, what func(i int) entry) {
	style := d.style(ink, 1)
	x := float64(0)
	for i := range n {
		e := what(i)
		e.name = strings.Join(wrap(style, clean(e.name), space-e.sample-6, 1), "")
		width := e.sample + 6 + style.width(e.name)
		if x > 0 && x+width > space {
			x = 0
		}
		if x == 0 {
			d.legend = append(d.legend, nil)
		}
		e.x = x
		d.legend[len(d.legend)-1] = append(d.legend[len(d.legend)-1], e)
		x += width + gap
	}
}

// swatch returns the width of the sample in front of a name in the legend.
func (k Kind) swatch() float64 {
	switch k {
	case Points:
		return 9
	case Bars:
		return 14
	default:
		return 28
	}
}
