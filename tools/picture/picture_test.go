package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

var must = testkit.Must

// hostile tries to break out of a document: it ends elements and attributes, starts others, and has invalid and
// direction-changing characters.
const hostile = "</text></svg><script>alert(1)</script>\"'><img src=x onerror=y>&amp;{{.}}" +
	"\x00\x1b\xff\u202e\u2028]]>-->"

func percent(share float64) string  { return Number(share*100) + " %" }
func nanoseconds(ns float64) string { return Number(ns) + " ns" }

// charts returns charts with every kind of line and axis.
func charts() []Chart {
	keys := []float64{1e6, 5e6, 20e6}
	var at, values []float64
	var fast, slow []float64
	for i := range 120 {
		at = append(at, float64(i))
		values = append(values, 100*math.Pow(1.08, float64(i)))
		fast = append(fast, math.Exp(-float64(i)/5))
		slow = append(slow, math.Exp(-float64(i)/20))
	}
	phases := []string{
		"load", "absent", "present", "95/5", "seek and read 10", "seek and read 100", "scan",
		"overwrite", "reopen", "check and insert", "queue's head", "iterator for each write",
	}
	return []Chart{
		{
			Name: "growth", Title: "Time of a lookup against the number of keys", Caption: "The median of five rounds.",
			X: "keys", Y: "time of a lookup",
			LogX: true, FormatY: nanoseconds,
			Lines: []Line{
				{Name: "absent", X: keys, Y: []float64{83, 120, 166}},
				{Name: "present", X: keys, Y: []float64{610, 800, 1150}},
				{Name: "floor", X: keys, Y: []float64{60, 88, 120}, Dashed: true, Kind: Curve},
			},
		},
		{
			Name: "tail", Title: "How often a lookup takes longer", X: "time of a lookup",
			Y: "share of lookups", LogX: true, LogY: true,
			FormatX: nanoseconds, FormatY: percent,
			Lines: []Line{
				{Name: "filters on", X: values, Y: fast, Kind: Curve},
				{Name: "filters off", X: values, Y: slow, Kind: Curve},
			},
		},
		{
			Name: "phases", Title: "Time of an operation", Y: "median",
			LogY: true, FormatY: nanoseconds, Categories: phases,
			Lines: []Line{
				{Name: "on", X: at[:12], Y: values[:12], Kind: Points},
				{Name: "off", X: at[:12], Y: values[40:52], Kind: Points},
			},
		},
		{
			Name: "reads", Title: "File reads for each lookup", X: "phase", Y: "reads", Categories: phases[:3],
			Lines: []Line{
				{Name: "on", X: at[:3], Y: []float64{0, 0.01, 1}, Kind: Bars},
				{Name: "off", X: at[:3], Y: []float64{0, 5, 3}, Kind: Bars},
				{Name: "limit", X: at[:3], Y: []float64{1, 2, 2}, Dashed: true},
			},
		},
		{Name: "one", Title: "One point", X: "x", Y: "y", Lines: []Line{{X: []float64{7}, Y: []float64{0}}}},
		{Name: "many", Title: "Many lines", X: "x", Y: "y", Lines: manyLines(maxLines)},
	}
}

func manyLines(n int) []Line {
	var lines []Line
	for i := range n {
		lines = append(lines, Line{
			Name: fmt.Sprintf("line number %d", i+1), X: []float64{1, 2, 3},
			Y: []float64{float64(i), float64(i + 1), float64(i)},
		})
	}
	return lines
}

// texts parses XML and returns the text of each text element, and the number of elements by name.
func texts(t *testing.T, doc []byte) (all []string, elements map[string]int) {
	t.Helper()
	elements = make(map[string]int)
	d := xml.NewDecoder(bytes.NewReader(doc))
	inside := ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all, elements
		}
		if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, doc)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inside = token.Name.Local
			elements[inside]++
			for _, a := range token.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "href" || a.Name.Local == "src" {
					t.Errorf("<%s> has an attribute %s=%q", inside, a.Name.Local, a.Value)
				}
			}
		case xml.CharData:
			if inside == "text" {
				all = append(all, string(token))
			}
		case xml.EndElement:
			inside = ""
		}
	}
}

func svgOf(t *testing.T, c *Chart) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, c.SVG(&b))
	return b.Bytes()
}

func TestAnSVGNamesItsLinesAndAxesAndDrawsThem(t *testing.T) {
	for _, c := range charts() {
		t.Run(c.Name, func(t *testing.T) {
			doc := svgOf(t, &c)
			all, _ := texts(t, doc)
			want := []string{c.Title, c.X, c.Y, c.Caption}
			for _, l := range c.Lines {
				want = append(want, l.Name)
			}
			for _, s := range want {
				if s != "" && !slices.Contains(all, s) {
					t.Errorf("%q is not among the texts %q", s, all)
				}
			}
			for i := range c.Lines {
				// Once in the legend, if there is one, and once in the plot.
				if got := strings.Count(string(doc), cssHex(palette[lineRole(i)].light)); got < 2 &&
					len(c.Lines) > 1 || got < 1 {
					t.Errorf("line %d: its color occurs %d times", i, got)
				}
			}
			if strings.Contains(string(doc), "NaN") || strings.Contains(string(doc), "Inf") {
				t.Error("a coordinate is no number")
			}
			for _, outside := range []string{"http://", "https://", "url("} {
				if n := strings.Count(string(doc), outside); n != strings.Count(outside, "http://") { // the namespace
					t.Errorf("%q occurs %d times", outside, n)
				}
			}
		})
	}
}

// A figure is a part of a path of an SVG, as its points, with y upwards.
type figure [][2]float64

// figures returns the parts of all paths of a chart's SVG by an attribute, such as fill="#ffffff".
func figures(t *testing.T, c *Chart, attribute string) (all []figure) {
	t.Helper()
	var doc struct {
		Height float64 `xml:"height,attr"`
		Paths  []struct {
			D      string `xml:"d,attr"`
			Fill   string `xml:"fill,attr"`
			Stroke string `xml:"stroke,attr"`
		} `xml:"path"`
	}
	must(t, xml.Unmarshal(svgOf(t, c), &doc))
	commands := regexp.MustCompile(`([MLHVAz])([^MLHVAz]*)`)
	for _, p := range doc.Paths {
		if attribute != fmt.Sprintf("fill=%q", p.Fill) && attribute != fmt.Sprintf("stroke=%q", p.Stroke) {
			continue
		}
		var f figure
		var at [2]float64
		for _, m := range commands.FindAllStringSubmatch(p.D, -1) {
			var numbers []float64
			for part := range strings.FieldsSeq(m[2]) {
				v, err := strconv.ParseFloat(part, 64)
				must(t, err)
				numbers = append(numbers, v)
			}
			switch last := len(numbers) - 1; m[1] {
			case "M":
				if f != nil {
					all = append(all, f)
				}
				f, at = figure{}, [2]float64{numbers[0], doc.Height - numbers[1]}
			case "L", "A":
				at = [2]float64{numbers[last-1], doc.Height - numbers[last]}
			case "H":
				at[0] = numbers[0]
			case "V":
				at[1] = doc.Height - numbers[0]
			case "z":
				continue
			}
			f = append(f, at)
		}
		all = append(all, f)
	}
	return all
}

// corners returns the parts of the paths of line 0 that have count points.
func corners(t *testing.T, c *Chart, count int) (paths []figure) {
	t.Helper()
	color := cssHex(palette[series0].light)
	for _, how := range []string{"fill", "stroke"} {
		for _, f := range figures(t, c, how+`="`+color+`"`) {
			if len(f) == count {
				paths = append(paths, f)
			}
		}
	}
	return paths
}

// near allows for coordinates that are rounded to a tenth.
func near(a, b float64) bool { return math.Abs(a-b) < 0.21 }

// The axes go from 0 to 10 and from 0 to 20, so the point in the middle must be drawn in the middle.
func TestPointsAreWhereTheirValuesSay(t *testing.T) {
	c := Chart{Name: "c", X: "x", Y: "y", Lines: []Line{{X: []float64{0, 5, 10}, Y: []float64{0, 10, 20}, Kind: Curve}}}
	paths := corners(t, &c, 3)
	if len(paths) != 1 {
		t.Fatalf("%d lines of three points, want 1", len(paths))
	}
	p := paths[0]
	if !near(p[1][0], (p[0][0]+p[2][0])/2) || !near(p[1][1], (p[0][1]+p[2][1])/2) ||
		p[2][0]-p[0][0] < 500 || p[2][1]-p[0][1] < 250 {
		t.Errorf("the line is at %v, want its middle in the middle and all of the plot used", p)
	}
}

func TestBarsGoFromZeroToTheirValues(t *testing.T) {
	c := Chart{Name: "c", Lines: []Line{{X: []float64{1, 2, 3}, Y: []float64{5, 10, -10}, Kind: Bars}}}
	paths := corners(t, &c, 4)
	if len(paths) != 3 {
		t.Fatalf("%d rectangles, want 3", len(paths))
	}
	a, b, down := paths[0], paths[1], paths[2]
	if !near(a[0][1], b[0][1]) || !near(2*(a[2][1]-a[0][1]), b[2][1]-b[0][1]) || !near(down[2][1], a[0][1]) ||
		!near(down[2][1]-down[0][1], b[2][1]-b[0][1]) {
		t.Errorf("the bars are %v, want zero at one height, the second twice as high and the third as far below", paths)
	}
	if a[2][0] >= b[0][0] || !near(a[2][0]-a[0][0], b[2][0]-b[0][0]) {
		t.Errorf("the bars are %v, want the second beside the first and as wide", paths)
	}
}

func TestTextThatIsAnAttackIsText(t *testing.T) {
	x, y := []float64{0, 1}, []float64{1, 2}
	c := Chart{
		Name: "attack", Title: hostile, Caption: hostile, X: hostile, Y: hostile,
		Categories: []string{hostile, hostile},
		FormatY:    func(float64) string { return hostile },
		Lines:      []Line{{Name: hostile, X: x, Y: y}, {Name: hostile + "2", X: x, Y: y, Kind: Bars}},
	}
	doc := svgOf(t, &c)
	_, elements := texts(t, doc)
	for name := range elements {
		if !slices.Contains([]string{"svg", "title", "desc", "rect", "g", "path", "text"}, name) {
			t.Errorf("there is a <%s>", name)
		}
	}
	if strings.ContainsAny(string(doc), "\x00\x1b\u202e\u2028") || !strings.Contains(string(doc), "&lt;script&gt;") {
		t.Errorf("want the text escaped and without what cannot be shown: %s", doc)
	}
}

// checkRefused checks that nothing draws a chart, and that the error names the chart and contains want.
func checkRefused(t *testing.T, c Chart, want string) {
	t.Helper()
	var b bytes.Buffer
	page := Page{Sections: []Section{{ID: "s", Charts: []Chart{c}}}}
	for _, err := range []error{c.SVG(&b), c.Draw(nil), page.WriteHTML(&b)} {
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("chart %q: ", c.Name)) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with the name of the chart and %q", err, want)
		}
	}
	if b.Len() > 0 {
		t.Errorf("%d bytes were written", b.Len())
	}
}

func TestWhatCannotBeDrawnIsAnErrorThatNamesIt(t *testing.T) {
	one := []float64{1, 2}
	inf, ab := math.Inf(-1), []string{"a", "b"}
	line := func(x, y []float64) []Line { return []Line{{Name: "l", X: x, Y: y}} }
	withNaN := append(manyLines(1), line(one, []float64{1, math.NaN()})...)
	for _, tt := range []struct {
		name  string
		chart Chart
		want  string
	}{
		{"no lines", Chart{}, "0 lines"},
		{"too many lines", Chart{Lines: manyLines(maxLines + 1)}, "43 lines, want 1 to 42"},
		{"no points", Chart{Lines: line(nil, nil)}, `line 1, "l": no points`},
		{"unequal axes", Chart{Lines: line(one, one[:1])}, `line 1, "l": 2 values of X and 1 of Y`},
		{"a NaN", Chart{Lines: withNaN}, `line 2, "l": point 1: Y is NaN`},
		{"an infinity", Chart{Lines: line([]float64{inf, 1}, one)}, `line 1, "l": point 0: X is -Inf`},
		{"a huge value", Chart{Lines: line(one, []float64{1, 1e101})}, "point 1: Y is 1e+101"},
		{"a tiny value", Chart{Lines: line(one, []float64{1, 5e-324})}, "point 1: Y is 5e-324"},
		{"zero, LogY", Chart{LogY: true, Lines: line(one, []float64{1, 0})}, "point 1: Y is 0, want more than zero"},
		{"less on a logarithmic X", Chart{LogX: true, Lines: line([]float64{-1, 0}, one)}, "point 0: X is -1"},
		{"logarithmic bars", Chart{LogY: true, Lines: []Line{{X: one, Y: one, Kind: Bars}}}, "bars begin at zero"},
		{"an unknown kind", Chart{Lines: []Line{{X: one, Y: one, Kind: Bars + 1}}}, "kind 4"},
		{"two lines of one name", Chart{Lines: append(line(one, one), line(one, one)...)}, `line 2, "l"`},
		{"a line without a name", Chart{Lines: append([]Line{{X: one, Y: one}}, line(one, one)...)}, `line 1, ""`},
		{"a category that is not there", Chart{Categories: ab, Lines: line(one, one)}, "point 1: X is 2"},
		{"half a category", Chart{Categories: ab, Lines: line([]float64{0.5}, one[:1])}, "point 0: X is 0.5"},
		{"categories on a logarithmic axis", Chart{Categories: ab, LogX: true, Lines: manyLines(1)}, "categories"},
		{"many categories", Chart{Categories: make([]string, maxCategories+1), Lines: manyLines(1)}, "61 categories"},
	} {
		tt.chart.Name = "c"
		t.Run(tt.name, func(t *testing.T) { checkRefused(t, tt.chart, tt.want) })
	}
	for _, name := range []string{"", "../c", strings.Repeat("c", 101)} {
		t.Run("name "+name, func(t *testing.T) { checkRefused(t, Chart{Name: name, Lines: manyLines(1)}, "file") })
	}
}

// Ranges without extent, and ranges with steps below the last digit of a float.
func TestOddRangesAreDrawn(t *testing.T) {
	huge, tiny := 1e100, 1e-100
	for values := range slices.Chunk([]float64{
		0, 0, 5, 5, -3, -3, -3, 4, -4, -2, huge, huge, -huge, huge, tiny, tiny, tiny, huge, 1e15, 1e15 + 0.125,
		1, math.Nextafter(1, 2), 999, 1001, 0.1, 0.3, 1e6, 1e6 + 30,
	}, 2) {
		for _, kind := range []Kind{Joined, Curve, Points, Bars} {
			for _, log := range []bool{false, true} {
				if log && (kind == Bars || slices.Min(values) <= 0) {
					continue
				}
				c := Chart{Name: "c", LogX: log, LogY: log, Lines: []Line{{X: values, Y: values, Kind: kind}}}
				doc := svgOf(t, &c)
				all, _ := texts(t, doc)
				if strings.Contains(string(doc), "NaN") || strings.Contains(string(doc), "Inf") || len(all) < 2 {
					t.Errorf("%v, kind %d, log %t: labels %q, or coordinates that are no numbers",
						values, kind, log, all)
				}
				if len(all) > 25 {
					t.Errorf("%v, kind %d, log %t: %d labels", values, kind, log, len(all))
				}
			}
		}
	}
}

func TestTicksAreRoundAndFew(t *testing.T) {
	for _, tt := range []struct {
		e    extent
		n    int
		log  bool
		want string
	}{
		{extent{0, 20}, 6, false, "0 5 10 15 20"},
		{extent{0, 1150}, 6, false, "0 200 400 600 800 1000"},
		{extent{0, 0.3}, 6, false, "0 0.05 0.1 0.15 0.2 0.25 0.3"},
		{extent{-1, 1}, 4, false, "-1 -0.5 0 0.5 1"},
		{extent{1e6, 20e6}, 8, true, "1M 2M 5M 10M 20M"},
		{extent{1e6, 20e6}, 4, true, "1M 3M 10M"},
		{extent{1e-4, 0.5}, 6, true, "0.0001 0.001 0.01 0.1"},
		{extent{1e-9, 1}, 5, true, "1e-08 1e-06 0.0001 0.01 1"},
		{extent{150, 190}, 6, true, "150 160 170 180 190"},
		{extent{3, 30}, 6, true, "5 10 20"},
	} {
		ticks, _ := linearTicks(tt.e, tt.n, Number)
		if tt.log {
			ticks = logTicks(tt.e, tt.n, Number)
		}
		var got []string
		for _, tick := range ticks {
			got = append(got, tick.label)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%v, %d, log %t: got %q, want %q", tt.e, tt.n, tt.log, got, tt.want)
		}
	}
}

func TestLabelsOfANarrowRangeDiffer(t *testing.T) {
	c := Chart{Name: "c", X: "x", Lines: []Line{{X: []float64{1e6, 1e6 + 30}, Y: []float64{1, 2}}}}
	all, _ := texts(t, svgOf(t, &c))
	for _, want := range []string{"1000000", "1000010", "1000030"} {
		if !slices.Contains(all, want) {
			t.Errorf("%s is not among %q", want, all)
		}
	}
}

func TestFormats(t *testing.T) {
	for _, tt := range []struct {
		got, want string
	}{
		{Number(0), "0"},
		{Number(0.05), "0.05"},
		{Number(1.5), "1.5"},
		{Number(-250), "-250"},
		{Number(1234), "1234"},
		{Number(9999.6), "10k"},
		{Number(999_999), "1M"},
		{Number(20e6), "20M"},
		{Number(1.25e9), "1.25G"},
		{Number(1e-5), "1e-05"},
		{Number(1e16), "1e+16"},
		{Number(9.999), "10"},
		{Number(999.7), "1000"},
		{Bytes(512), "512 B"},
		{Bytes(4000), "4 kB"},
		{Bytes(1.5e9), "1.5 GB"},
		{Bytes(0), "0 B"},
		{Bytes(5e15), "5000 TB"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestTextIsBrokenWhereItFits(t *testing.T) {
	style := wide.style(ink, 1)
	long := strings.Repeat("some words and ", 40) + strings.Repeat("W", 300)
	for _, width := range []float64{1, 60, 330, 700} {
		lines := wrap(style, long, width, 1000)
		if got := strings.ReplaceAll(strings.Join(lines, ""), " ", ""); got != strings.ReplaceAll(long, " ", "") {
			t.Errorf("width %v: characters were lost: %q", width, got)
		}
		for _, line := range lines {
			if style.width(line) > width && len([]rune(line)) > 1 {
				t.Errorf("width %v: %q does not fit", width, line)
			}
		}
	}
	lines := wrap(style, long, 300, 2)
	if len(lines) != 2 || !strings.HasSuffix(lines[1], "…") || style.width(lines[1]) > 300 ||
		strings.HasSuffix(lines[0], " ") {
		t.Errorf("two lines at most: got %q", lines)
	}
	if got := wrap(style, "", 300, 2); len(got) != 0 {
		t.Errorf("nothing: got %q", got)
	}
}
