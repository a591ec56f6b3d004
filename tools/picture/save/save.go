// Package save writes charts as files. Their PNGs are drawn by gonum.org/v1/plot, which brings fonts and many modules:
// only programs that write such files import this package. Pages do not need it.
package save

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/bloomkv/bloomkv/tools/outfile"
	"github.com/bloomkv/bloomkv/tools/picture"
)

// Charts writes NAME.svg and NAME.png of each chart into a directory, which it creates if necessary. Each file is
// written by outfile.Write. If one of the charts cannot be drawn, nothing is written.
func Charts(ctx context.Context, dir string, charts []picture.Chart) error {
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
		if err := errors.Join(c.SVG(&svg), PNG(c, &png)); err != nil {
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

// dpi gives a PNG twice the resolution of the layout, which uses 72 points per inch.
const dpi = 144

// PNG writes a chart like its SVG, in pixels.
func PNG(c *picture.Chart, w io.Writer) error {
	p := &pixels{fonts: font.NewCache(liberation.Collection())}
	err := c.Draw(func(width, height float64) picture.Canvas {
		p.Canvas = vgimg.NewWith(vgimg.UseWH(vg.Length(width), vg.Length(height)), vgimg.UseDPI(dpi),
			vgimg.UseBackgroundColor(color.White))
		return p
	})
	if err == nil {
		_, err = vgimg.PngCanvas{Canvas: p.Canvas}.WriteTo(w)
	}
	return err
}

// pixels implements picture.Canvas.
type pixels struct {
	*vgimg.Canvas

	fonts *font.Cache
}

func (p *pixels) Fill(k color.NRGBA, all ...picture.Path) {
	p.SetColor(k)
	for i := range all {
		p.Canvas.Fill(pathOf(&all[i]))
	}
}

func (p *pixels) Stroke(s picture.Stroke, all ...picture.Path) {
	p.SetColor(s.Color)
	p.SetLineWidth(vg.Length(s.Width))
	dashes := make([]vg.Length, len(s.Dashes))
	for i, d := range s.Dashes {
		dashes[i] = vg.Length(d)
	}
	p.SetLineDash(dashes, 0)
	for i := range all {
		p.Canvas.Stroke(pathOf(&all[i]))
	}
}

func (p *pixels) Text(k color.NRGBA, size float64, at picture.Point, angle float64, line string) {
	p.Push()
	defer p.Pop()
	p.SetColor(k)
	p.Translate(pointOf(at))
	p.Rotate(angle)
	p.FillString(p.fonts.Lookup(sans, vg.Length(size)), vg.Point{}, line)
}

// sans has the widths that the layout assumes.
var sans = font.Font{Typeface: "Liberation", Variant: "Sans"}

func pointOf(p picture.Point) vg.Point { return vg.Point{X: vg.Length(p.X), Y: vg.Length(p.Y)} }

func pathOf(p *picture.Path) (path vg.Path) {
	for i, at := range p.Points {
		switch {
		case p.Radius > 0:
			path.Move(pointOf(picture.Point{X: at.X + p.Radius, Y: at.Y}))
			path.Arc(pointOf(at), vg.Length(p.Radius), 0, 2*math.Pi)
		case i == 0:
			path.Move(pointOf(at))
		default:
			path.Line(pointOf(at))
		}
	}
	if !p.Open {
		path.Close()
	}
	return path
}
