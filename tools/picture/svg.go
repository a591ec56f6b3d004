package picture

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/png"
	"math"
	"strings"
)

// svgCanvas implements Canvas. It writes coordinates to a tenth of a point, and joins paths of one style, so that a
// chart has few bytes. It also draws what a PNG cannot have: links, names that a pointer shows, and cells whose colors
// follow the mode of a page.
type svgCanvas struct {
	height float64
	onPage bool // colors are classes, else values
	doc    strings.Builder
	path   strings.Builder // paths of one style, not yet in doc
	style  string          // of path, or of the group of text that is open
	text   bool            // a group of text is open
}

// String returns what was drawn, without the svg element around it.
func (c *svgCanvas) String() string {
	c.flush()
	return c.doc.String()
}

func (c *svgCanvas) Fill(k color.NRGBA, all ...Path) { c.draw(c.paint("fill", k), all) }

func (c *svgCanvas) Stroke(s Stroke, all ...Path) {
	style := c.paint("stroke", s.Color) + ` stroke-width="` + number(s.Width, 2) + `"`
	if len(s.Dashes) > 0 {
		dashes := make([]string, len(s.Dashes))
		for i, d := range s.Dashes {
			dashes[i] = number(d, 1)
		}
		style += ` stroke-dasharray="` + strings.Join(dashes, " ") + `"`
	}
	c.draw(style, all)
}

// paint returns the attributes that fill or stroke with a color.
func (c *svgCanvas) paint(how string, k color.NRGBA) string {
	if c.onPage {
		for _, p := range palette {
			if p.light == k {
				return `class="` + how[:1] + "-" + p.name + `"`
			}
		}
	}
	style := how + `="` + cssHex(k) + `"`
	if how == "stroke" {
		style = `fill="none" ` + style
	}
	return style
}

// draw adds paths to those of the same style.
func (c *svgCanvas) draw(style string, all []Path) {
	if len(all) == 0 {
		return
	}
	if style != c.style || c.text {
		c.flush()
		c.style = style
	}
	for _, p := range all {
		c.addPath(p)
	}
}

// flush writes the paths that were joined, or ends a group of text.
func (c *svgCanvas) flush() {
	if c.text {
		c.doc.WriteString("</g>\n")
	} else if c.path.Len() > 0 {
		fmt.Fprintf(&c.doc, "<path %s d=%q/>\n", c.style, c.path.String())
	}
	c.path.Reset()
	c.style, c.text = "", false
}

// addPath writes the commands of a path. Lines that are horizontal or vertical get the short commands.
func (c *svgCanvas) addPath(p Path) {
	var last [2]string // as written
	for i, at := range p.Points {
		to := [2]string{number(at.X+p.Radius, 1), number(c.height-at.Y, 1)}
		switch {
		case i == 0:
			c.path.WriteString("M" + to[0] + " " + to[1])
		case to == last:
		case to[1] == last[1]:
			c.path.WriteString("H" + to[0])
		case to[0] == last[0]:
			c.path.WriteString("V" + to[1])
		default:
			c.path.WriteString("L" + to[0] + " " + to[1])
		}
		last = to
		if r := number(p.Radius, 1); p.Radius > 0 {
			for _, x := range []float64{at.X - p.Radius, at.X + p.Radius} {
				c.path.WriteString("A" + r + " " + r + " 0 0 0 " + number(x, 1) + " " + to[1])
			}
		}
	}
	if !p.Open {
		c.path.WriteByte('z')
	}
}

func (c *svgCanvas) Text(k color.NRGBA, size float64, at Point, angle float64, line string) {
	style := c.paint("fill", k) + ` font-size="` + number(size, 2) + `"`
	if style != c.style || !c.text {
		c.flush()
		fmt.Fprintf(&c.doc, "<g %s>\n", style)
		c.style, c.text = style, true
	}
	x, y := number(at.X, 1), number(c.height-at.Y, 1)
	turn := ""
	if angle != 0 {
		turn = ` transform="rotate(` + number(-angle*180/math.Pi, 1) + " " + x + " " + y + `)"`
	}
	c.doc.WriteString(`<text x="` + x + `" y="` + y + `"` + turn + ">" + html.EscapeString(line) + "</text>\n")
}

// image draws an image whose pixels stay sharp.
func (c *svgCanvas) image(box rect, img image.Image, class string) {
	c.flush()
	var b bytes.Buffer
	coder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := coder.Encode(&b, img); err != nil {
		return // no image: it has no size
	}
	fmt.Fprintf(&c.doc, `<image class=%q %s preserveAspectRatio="none" style="image-rendering:pixelated" `+
		"href=\"data:image/png;base64,%s\"/>\n", class, c.place(box), base64.StdEncoding.EncodeToString(b.Bytes()))
}

// place returns the attributes of a box.
func (c *svgCanvas) place(box rect) string {
	size := box.size()
	return fmt.Sprintf(`x="%s" y="%s" width="%s" height="%s"`, number(box.Min.X, 1), number(c.height-box.Max.Y, 1),
		number(size.X, 1), number(size.Y, 1))
}

// cells draws the boxes of g without gaps, in the colors of the ramp for both modes of a page; a step below 0 is not
// drawn. A pointer shows the values, one for each box, if there are any.
func (c *svgCanvas) cells(box rect, steps [][]int, values []string, g *Grid) {
	pixels := func(dark bool) image.Image {
		colors := color.Palette{color.Transparent}
		for _, p := range palette[ramp0 : ramp0+numSteps] {
			k := p.light
			if dark {
				k = p.dark
			}
			colors = append(colors, k)
		}
		img := image.NewPaletted(image.Rect(0, 0, len(steps[0]), len(steps)), colors)
		for y, row := range steps {
			for x, step := range row {
				img.SetColorIndex(x, y, uint8(step+1)) //nolint:gosec // at most numSteps
			}
		}
		return img
	}
	attributes := fmt.Sprintf(`class="cells" data-columns="%d" data-rows="%d" data-of="%s" data-each="%d"`,
		len(steps[0]), len(steps), html.EscapeString(clean(g.Of)), g.Each)
	if len(values) > 0 {
		attributes += ` data-values="` + html.EscapeString(strings.Join(values, ";")) + `"`
	}
	c.flush()
	c.doc.WriteString("<g " + attributes + ">\n")
	c.image(box, pixels(false), "light")
	c.image(box, pixels(true), "dark")
	c.doc.WriteString("</g>\n")
}

// A tag is what a pointer or the keyboard finds at a part of a chart on a page.
type tag struct {
	title string // shown beside the pointer
	link  string // ID of a section, or ""
	group string // which a reader of the page may choose, or ""
	id    string // for scripts, or ""
}

// tagged draws a box of its own with a tag.
func (c *svgCanvas) tagged(t tag, k color.NRGBA, box rect) {
	style := c.paint("fill", k)
	c.flush()
	name, attributes := "g", ""
	if t.link != "" {
		name, attributes = "a", ` href="#`+html.EscapeString(t.link)+`"`
	}
	if t.group != "" {
		attributes += ` data-group="` + html.EscapeString(t.group) + `"`
	}
	if t.id != "" {
		attributes += ` data-id="` + html.EscapeString(t.id) + `"`
	}
	fmt.Fprintf(&c.doc, "<%s%s><rect %s %s/>", name, attributes, style, c.place(box))
	if t.title != "" {
		c.doc.WriteString("<title>" + html.EscapeString(t.title) + "</title>")
	}
	c.doc.WriteString("</" + name + ">\n")
}

// beginZoom begins a part of the chart that a reader may stretch, and endZoom ends it.
func (c *svgCanvas) beginZoom(box rect) {
	c.flush()
	size := box.size()
	fmt.Fprintf(&c.doc, `<svg class="zoom" %s viewBox="%s %s %s %s" preserveAspectRatio="none">`+"\n", c.place(box),
		number(box.Min.X, 1), number(c.height-box.Max.Y, 1), number(size.X, 1), number(size.Y, 1))
}

func (c *svgCanvas) endZoom() {
	c.flush()
	c.doc.WriteString("</svg>\n")
}
