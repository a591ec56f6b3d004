package picture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/bloomkv/bloomkv/internal/outfile"
)

// pngDPI gives a PNG twice the resolution of the layout, which uses 72 points per inch.
const pngDPI = 144

// SVG writes the chart as a document of its own, on white, with title and caption.
func (c *Chart) SVG(w io.Writer) error {
	if err := c.check(); err != nil {
		return err
	}
	d := c.layOut(wide, true)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %[1]g %[2]g" `+
		`role="img" aria-label="%s">`+"\n",
		d.width.Points(), d.height.Points(), html.EscapeString(clean(c.Title)+". "+c.summary()))
	fmt.Fprintf(&b, "<title>%s</title>\n<desc>%s</desc>\n", html.EscapeString(clean(c.Title)),
		html.EscapeString(clean(c.Caption)))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="%s"/>`+"\n", cssHex(palette[background].light))
	body, err := d.svg(false)
	if err != nil {
		return fmt.Errorf("chart %q: %w", c.Name, err)
	}
	b.WriteString(body)
	b.WriteString("</svg>\n")
	_, err = b.WriteTo(w)
	return err
}

// PNG writes the chart like SVG, in pixels.
func (c *Chart) PNG(w io.Writer) error {
	if err := c.check(); err != nil {
		return err
	}
	d := c.layOut(wide, true)
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

// The SVG canvas writes colors and fonts into style attributes, and unescaped quotes nowhere else.
var (
	styleAttribute = regexp.MustCompile(`style="[^"]*"`)
	styleColor     = regexp.MustCompile(`(fill|stroke):(#[0-9A-F]{6})`)
	styleFont      = regexp.MustCompile(`font-family:Liberation Sans;font-variant:[a-z]+;` +
		`font-weight:normal;font-style:normal`)
	header = regexp.MustCompile(`(?s)^.*?<svg[^>]*>\n`)
)

// svg returns the output of the canvas without the svg element around it. On a page, colors become CSS variables.
func (d *drawing) svg(onPage bool) (string, error) {
	canvas := vgsvg.NewWith(vgsvg.UseWH(d.width, d.height))
	d.draw(canvas)
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", err
	}
	body := b.String()
	body = body[len(header.FindString(body)):]
	body = strings.TrimSuffix(strings.TrimSpace(body), "</svg>")

	variables := make(map[string]string)
	for _, c := range palette {
		variables[strings.ToUpper(cssHex(c.light))] = "var(--" + c.name + ")"
	}
	return styleAttribute.ReplaceAllStringFunc(body, func(style string) string {
		style = styleFont.ReplaceAllLiteralString(style, "font-family:'Liberation Sans',Arial,Helvetica,sans-serif")
		if !onPage {
			return style
		}
		return styleColor.ReplaceAllStringFunc(style, func(s string) string {
			property, value, _ := strings.Cut(s, ":")
			return property + ":" + nonEmpty(variables[value], value)
		})
	}), nil
}
