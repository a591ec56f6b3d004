package save

import (
	"bytes"
	"errors"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"

	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/picture"
	"github.com/bloomkv/bloomkv/vfs"
)

var must = testkit.Must

// charts returns a chart of bars and marks with turned names, and one of a point.
func charts() []picture.Chart {
	one := picture.Line{X: []float64{7}, Y: []float64{0}}
	var names []string
	var at []float64
	for i := range 12 {
		names, at = append(names, strings.Repeat("name ", 3)), append(at, float64(i))
	}
	return []picture.Chart{
		{
			Name: "reads", Title: "File reads for each lookup", X: "phase", Y: "reads", Categories: names,
			Lines: []picture.Line{
				{Name: "on", X: at, Y: at, Kind: picture.Bars},
				{Name: "off", X: at, Y: at},
				{Name: "limit", X: at, Y: at, Dashed: true},
			},
		},
		{Name: "one", Title: "One point", X: "x", Y: "y", Lines: []picture.Line{one}},
	}
}

func TestBothFilesOfEachChartAreWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	all := charts()
	for range 2 { // the second time over the files of the first
		must(t, Charts(t.Context(), dir, all))
	}
	names, err := vfs.OS.List(dir)
	if err != nil || len(names) != 2*len(all) {
		t.Fatalf("got %q, %v, want %d files", names, err, 2*len(all))
	}
	for _, c := range all {
		writePNG := func(w io.Writer) error { return PNG(&c, w) }
		for ext, write := range map[string]func(io.Writer) error{".svg": c.SVG, ".png": writePNG} {
			var want bytes.Buffer
			must(t, write(&want))
			got, err := os.ReadFile(filepath.Join(dir, c.Name+ext))
			if err != nil || !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%s%s: %d bytes, %v, want the %d that are drawn each time", c.Name, ext, len(got), err,
					want.Len())
			}
		}
	}
	same := []picture.Chart{all[0], {Name: "READS", Lines: all[1].Lines}}
	if err := Charts(t.Context(), dir, same); err == nil ||
		!strings.Contains(err.Error(), `"READS": the name is used twice`) {
		t.Errorf("two charts of one name: got %v", err)
	}
}

func TestAnErrorSaysWhatTheFilesSay(t *testing.T) {
	c := charts()[1:]
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := errors.Join(os.WriteFile(file, nil, 0o600),
		os.Mkdir(filepath.Join(dir, c[0].Name+".png"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := Charts(t.Context(), file, c); err == nil || !strings.Contains(err.Error(), "file: not a directory") {
		t.Errorf("into a file: got %v", err)
	}
	if err := Charts(t.Context(), dir, c); err == nil ||
		!strings.Contains(err.Error(), c[0].Name+".png: is a directory") {
		t.Errorf("over a directory: got %v", err)
	}
	c[0].Lines = nil
	if err := Charts(t.Context(), dir, c); err == nil || !strings.Contains(err.Error(), "0 lines") {
		t.Errorf("without lines: got %v", err)
	}
}

func TestAPNGIsThePictureInPixels(t *testing.T) {
	var b bytes.Buffer
	must(t, PNG(&charts()[0], &b))
	img, err := png.Decode(&b)
	must(t, err)
	size := img.Bounds().Size()
	if size.X != 1440 || size.Y < 800 {
		t.Errorf("%v pixels, want 1440 × 800 or more", size)
	}
	seen := make(map[uint32]int)
	for y := range size.Y {
		for x := range size.X {
			r, g, b, _ := img.At(x, y).RGBA()
			seen[r>>8<<16|g>>8<<8|b>>8]++
		}
	}
	if got := seen[0xffffff]; got < size.X*size.Y/2 {
		t.Errorf("%d pixels of background", got)
	}
	for i, color := range []uint32{0x0072b2, 0xd55e00, 0x00a964} {
		if seen[color] < 500 {
			t.Errorf("line %d: %d pixels of its color", i, seen[color])
		}
	}
}

// TestTextIsAsWideAsTheLayoutAssumes compares the widths of package picture with those of the font.
func TestTextIsAsWideAsTheLayoutAssumes(t *testing.T) {
	face := font.NewCache(liberation.Collection()).Lookup(sans, 1000)
	for r := ' '; r <= '~'; r++ {
		if got, want := picture.Width(string(r)), float64(face.Width(string(r))); got < want-0.5 || got > want+0.5 {
			t.Errorf("%c is %g wide, want %g", r, got, want)
		}
	}
}
