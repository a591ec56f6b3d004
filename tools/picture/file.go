package picture

import (
	"bytes"
	"fmt"
	"html"
	"io"
)

// SVG writes the chart as a document of its own, on white, with title and caption.
func (c *Chart) SVG(w io.Writer) error {
	if err := c.check(); err != nil {
		return err
	}
	d := c.layOut(c.size(), true)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %[1]g %[2]g" `+
		`font-family="%s" role="img" aria-label="%s">`+"\n",
		d.width, d.height, typefaces, html.EscapeString(clean(c.Title)+". "+c.summary()))
	fmt.Fprintf(&b, "<title>%s</title>\n<desc>%s</desc>\n", html.EscapeString(clean(c.Title)),
		html.EscapeString(clean(c.Caption)))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="%s"/>`+"\n", cssHex(palette[background].light))
	b.WriteString(d.svg(false))
	b.WriteString("</svg>\n")
	_, err := b.WriteTo(w)
	return err
}

// Draw draws the chart with title and caption, as SVG does. on is called with the
// width and the height for the canvas.
func (c *Chart) Draw(on func(width, height float64) Canvas) error {
	if err := c.check(); err != nil {
		return err
	}
	d := c.layOut(c.size(), true)
	d.draw(on(d.width, d.height))
	return nil
}

// Charts returns all charts of the page, from the top, including those of folded parts.
func (p *Page) Charts() (all []Chart) {
	for _, s := range p.Sections {
		all = append(all, s.Charts...)
		for _, part := range s.Folded {
			all = append(all, part.Charts...)
		}
	}
	return all
}

// typefaces are those of text in an SVG. The first one has the widths that the layout assumes, and the others nearly
// so.
const typefaces = "'Liberation Sans',Arial,Helvetica,sans-serif"

// svg returns the chart without the svg element around it. On a page, colors are classes.
func (d *drawing) svg(onPage bool) string {
	canvas := &svgCanvas{height: d.height, onPage: onPage}
	d.draw(canvas)
	return canvas.String()
}
