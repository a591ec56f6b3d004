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

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// svgCanvas implements vg.Canvas. It writes coordinates to a tenth of a point, and joins paths of one style, so that a
// chart has a tenth of the bytes that the canvas of gonum/plot needs. It also draws what a PNG cannot have: links,
// names that a pointer shows, and cells whose colors follow the mode of a page.
type svgCanvas struct {
	width, height vg.Length
	onPage        bool // colors are classes, else values
	doc           strings.Builder
	path          strings.Builder // paths of one style, not yet in doc
	style         string          // of path, or of the group of text that is open
	text          bool            // a group of text is open
	now           canvasState
	saved         []canvasState
}

type canvasState struct {
	turn   affine
	color  color.Color
	width  vg.Length
	dashes []vg.Length
}

// An affine maps a point (x, y) to (a·x + c·y + e, b·x + d·y + f).
type affine struct{ a, b, c, d, e, f float64 }

func (t affine) point(p vg.Point) (x, y float64) {
	px, py := p.X.Points(), p.Y.Points()
	return t.a*px + t.c*py + t.e, t.b*px + t.d*py + t.f
}

// after returns the map that applies first and then t.
func (t affine) after(first affine) affine {
	return affine{
		t.a*first.a + t.c*first.b, t.b*first.a + t.d*first.b,
		t.a*first.c + t.c*first.d, t.b*first.c + t.d*first.d,
		t.a*first.e + t.c*first.f + t.e, t.b*first.e + t.d*first.f + t.f,
	}
}

func newSVGCanvas(width, height vg.Length, onPage bool) *svgCanvas {
	c := &svgCanvas{width: width, height: height, onPage: onPage}
	c.now.turn = affine{a: 1, d: -1, f: height.Points()} // Y points up in vg, and down in SVG
	vg.Initialize(c)
	return c
}

// String returns what was drawn, without the svg element around it.
func (c *svgCanvas) String() string {
	c.flush()
	return c.doc.String()
}

func (c *svgCanvas) Size() (x, y vg.Length)                 { return c.width, c.height }
func (c *svgCanvas) SetLineWidth(w vg.Length)               { c.now.width = w }
func (c *svgCanvas) SetLineDash(d []vg.Length, _ vg.Length) { c.now.dashes = d }
func (c *svgCanvas) Push()                                  { c.saved = append(c.saved, c.now) }

func (c *svgCanvas) Pop() {
	c.now = c.saved[len(c.saved)-1]
	c.saved = c.saved[:len(c.saved)-1]
}

func (c *svgCanvas) SetColor(k color.Color) {
	if k == nil {
		k = color.Black
	}
	c.now.color = k
}

func (c *svgCanvas) Rotate(angle float64) {
	sin, cos := math.Sincos(angle)
	c.now.turn = c.now.turn.after(affine{a: cos, b: sin, c: -sin, d: cos})
}

func (c *svgCanvas) Translate(p vg.Point) {
	c.now.turn = c.now.turn.after(affine{a: 1, d: 1, e: p.X.Points(), f: p.Y.Points()})
}

func (c *svgCanvas) Scale(x, y float64) { c.now.turn = c.now.turn.after(affine{a: x, d: y}) }

func (c *svgCanvas) Fill(p vg.Path) { c.draw(c.paint("fill"), p) }

func (c *svgCanvas) Stroke(p vg.Path) {
	if c.now.width <= 0 {
		return
	}
	style := c.paint("stroke") + ` stroke-width="` + number(c.now.width.Points(), 2) + `"`
	if len(c.now.dashes) > 0 {
		dashes := make([]string, len(c.now.dashes))
		for i, d := range c.now.dashes {
			dashes[i] = number(d.Points(), 1)
		}
		style += ` stroke-dasharray="` + strings.Join(dashes, " ") + `"`
	}
	c.draw(style, p)
}

// paint returns the attributes that fill or stroke with the current color.
func (c *svgCanvas) paint(how string) string {
	k := color.NRGBAModel.Convert(c.now.color).(color.NRGBA) //nolint:errcheck,forcetypeassert // the model's type
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
	if k.A < 0xff {
		style += fmt.Sprintf(` %s-opacity="%.2g"`, how, float64(k.A)/0xff)
	}
	return style
}

// draw adds a path to those of the same style.
func (c *svgCanvas) draw(style string, p vg.Path) {
	if style != c.style || c.text {
		c.flush()
		c.style = style
	}
	c.addPath(p)
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
func (c *svgCanvas) addPath(p vg.Path) {
	var at, start [2]string // the current point, and the first of the figure, as written
	write := func(command string, x, y float64) {
		to := [2]string{number(x, 1), number(y, 1)}
		switch {
		case command != "L":
			c.path.WriteString(command + to[0] + " " + to[1])
		case to == at:
			return
		case to[1] == at[1]:
			c.path.WriteString("H" + to[0])
		case to[0] == at[0]:
			c.path.WriteString("V" + to[1])
		default:
			c.path.WriteString("L" + to[0] + " " + to[1])
		}
		at = to
	}
	for _, part := range p {
		x, y := c.now.turn.point(part.Pos)
		switch part.Type {
		case vg.MoveComp:
			write("M", x, y)
			start = at
		case vg.LineComp:
			write("L", x, y)
		case vg.CloseComp:
			c.path.WriteByte('z')
			at = start
		case vg.CurveComp:
			points := make([]string, 0, 2)
			for _, p := range part.Control {
				px, py := c.now.turn.point(p)
				points = append(points, number(px, 1)+" "+number(py, 1))
			}
			write([]string{"", "Q", "C"}[len(points)]+strings.Join(points, " ")+" ", x, y)
		case vg.ArcComp:
			c.addArc(part, at != [2]string{}, write)
		}
	}
}

// addArc writes an arc as pieces of at most half a circle.
func (c *svgCanvas) addArc(arc vg.PathComp, begun bool, write func(command string, x, y float64)) {
	end := func(angle float64) (x, y float64) {
		sin, cos := math.Sincos(angle)
		return c.now.turn.point(vg.Point{
			X: arc.Pos.X + arc.Radius*vg.Length(cos), Y: arc.Pos.Y + arc.Radius*vg.Length(sin),
		})
	}
	x, y := end(arc.Start)
	if begun {
		write("L", x, y)
	} else {
		write("M", x, y)
	}
	sweep := "0 0 " // against the clock, since Y points down
	if arc.Angle < 0 {
		sweep = "0 1 "
	}
	r := number(arc.Radius.Points(), 1)
	pieces := int(math.Ceil(math.Abs(arc.Angle)/math.Pi - 1e-9))
	for i := 1; i <= pieces; i++ {
		x, y := end(arc.Start + arc.Angle*float64(i)/float64(pieces))
		write("A"+r+" "+r+" 0 "+sweep, x, y)
	}
}

func (c *svgCanvas) FillString(f font.Face, p vg.Point, text string) {
	if f.Font.Size <= 0 || text == "" {
		return
	}
	style := c.paint("fill") + ` font-size="` + number(f.Font.Size.Points(), 2) + `"`
	if style != c.style || !c.text {
		c.flush()
		fmt.Fprintf(&c.doc, "<g %s>\n", style)
		c.style, c.text = style, true
	}
	x, y := c.now.turn.point(p)
	place := `x="` + number(x, 1) + `" y="` + number(y, 1) + `"`
	if angle := math.Atan2(c.now.turn.b, c.now.turn.a); math.Abs(angle) > 1e-9 {
		place += ` transform="rotate(` + number(angle*180/math.Pi, 1) + " " + number(x, 1) + " " + number(y, 1) + `)"`
	}
	c.doc.WriteString("<text " + place + ">" + html.EscapeString(text) + "</text>\n")
}

func (c *svgCanvas) DrawImage(box vg.Rectangle, img image.Image) { c.image(box, img, "image") }

// image draws an image whose pixels stay sharp.
func (c *svgCanvas) image(box vg.Rectangle, img image.Image, class string) {
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
func (c *svgCanvas) place(box vg.Rectangle) string {
	x, y := c.now.turn.point(vg.Point{X: box.Min.X, Y: box.Max.Y})
	size := box.Size()
	return fmt.Sprintf(`x="%s" y="%s" width="%s" height="%s"`, number(x, 1), number(y, 1),
		number(size.X.Points(), 1), number(size.Y.Points(), 1))
}

// cells draws the boxes of g without gaps, in the colors of the ramp for both modes of a page; a step below 0 is not
// drawn. A pointer shows the values, one for each box, if there are any.
func (c *svgCanvas) cells(box vg.Rectangle, steps [][]int, values []string, g *Grid) {
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
}

// tagged draws a box of its own with a tag.
func (c *svgCanvas) tagged(t tag, box vg.Rectangle) {
	style := c.paint("fill")
	c.flush()
	name, attributes := "g", ""
	if t.link != "" {
		name, attributes = "a", ` href="#`+html.EscapeString(t.link)+`"`
	}
	if t.group != "" {
		attributes += ` data-group="` + html.EscapeString(t.group) + `"`
	}
	fmt.Fprintf(&c.doc, "<%s%s><rect %s %s/>", name, attributes, style, c.place(box))
	if t.title != "" {
		c.doc.WriteString("<title>" + html.EscapeString(t.title) + "</title>")
	}
	c.doc.WriteString("</" + name + ">\n")
}

// beginZoom begins a part of the chart that a reader may stretch, and endZoom ends it.
func (c *svgCanvas) beginZoom(box vg.Rectangle) {
	c.flush()
	x, y := c.now.turn.point(vg.Point{X: box.Min.X, Y: box.Max.Y})
	size := box.Size()
	fmt.Fprintf(&c.doc, `<svg class="zoom" %s viewBox="%s %s %s %s" preserveAspectRatio="none">`+"\n", c.place(box),
		number(x, 1), number(y, 1), number(size.X.Points(), 1), number(size.Y.Points(), 1))
}

func (c *svgCanvas) endZoom() {
	c.flush()
	c.doc.WriteString("</svg>\n")
}

// number formats a coordinate with at most the given number of decimals.
func number(v float64, decimals int) string {
	s := shortest(v, decimals)
	if s == "-0" {
		return "0"
	}
	return s
}
