package picture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot/vg/vgimg"

	"github.com/bloomkv/bloomkv/tools/outfile"
)

// pngDPI gives a PNG twice the resolution of the layout, which uses 72 points per inch.
const pngDPI = 144

// SVG writes the chart as a document of its own, on white, with title and caption.
func (c *Chart) SVG(w io.Writer) error {
	if err := c.check(); err != nil {
		return err
	}
	d := c.layOut(c.size(), true)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %[1]g %[2]g" `+
		`font-family="%s" role="img" aria-label="%s">`+"\n",
		d.width.Points(), d.height.Points(), typefaces, html.EscapeString(clean(c.Title)+". "+c.summary()))
	fmt.Fprintf(&b, "<title>%s</title>\n<desc>%s</desc>\n", html.EscapeString(clean(c.Title)),
		html.EscapeString(clean(c.Caption)))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="%s"/>`+"\n", cssHex(palette[background].light))
	b.WriteString(d.svg(false))
	b.WriteString("</svg>\n")
	_, err := b.WriteTo(w)
	return err
}

// PNG writes the chart like SVG, in pixels.
func (c *Chart) PNG(w io.Writer) error {
	if err := c.check(); err != nil {
		return err
	}
	d := c.layOut(c.size(), true)
	canvas := vgimg.NewWith(vgimg.UseWH(d.width, d.height), vgimg.UseDPI(pngDPI),
		vgimg.UseBackgroundColor(background.color()))
	d.draw(canvas)
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

// Save writes all charts of the page into a directory.
func (p *Page) Save(ctx context.Context, dir string) error { return Save(ctx, dir, p.Charts()) }

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

// Save writes NAME.svg and NAME.png of each chart into a directory, which it creates if necessary. Each file is written
// by outfile.Write. If one of the charts cannot be drawn, nothing is written.
func Save(ctx context.Context, dir string, charts []Chart) error {
	type file struct {
		name string
		data []byte
	}
	var files []file
	names := make(map[string]bool)
	for i := range charts {
		c := &charts[i]
		lower := strings.ToLower(c.Name) // the same file on some systems
		if names[lower] {
			return fmt.Errorf("chart %q: the name is used twice", c.Name)
		}
		names[lower] = true
		var svg, png bytes.Buffer
		if err := errors.Join(c.SVG(&svg), c.PNG(&png)); err != nil {
			return err
		}
		files = append(files, file{c.Name + ".svg", svg.Bytes()}, file{c.Name + ".png", png.Bytes()})
	}
	if err := outfile.MkdirAll(dir); err != nil {
		return err
	}
	for _, f := range files {
		if err := outfile.Write(ctx, filepath.Join(dir, f.name), f.data); err != nil {
			return err
		}
	}
	return nil
}

// typefaces are those of text in an SVG. The first one has the widths that the layout assumes, and the others nearly
// so.
const typefaces = "'Liberation Sans',Arial,Helvetica,sans-serif"

// svg returns the chart without the svg element around it. On a page, colors are classes.
func (d *drawing) svg(onPage bool) string {
	canvas := newSVGCanvas(d.width, d.height, onPage)
	d.draw(canvas)
	return canvas.String()
}
