package picture

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// colored returns charts with colors: a map whose last row is short, a matrix with names, labels and gaps, and spans on
// a logarithmic scale.
func colored() []Chart {
	var regions, matrix [][]float64
	for i := range 9 {
		row := make([]float64, 32)
		for j := range row {
			row[j] = 0.5 + 0.02*math.Sin(float64(i*32+j))
		}
		regions = append(regions, row)
	}
	regions[8] = regions[8][:7]
	var names []string
	for i := range 12 {
		row := make([]float64, 12)
		for j := range row {
			if row[j] = float64(i*j) / 121; i == j {
				row[j] = NoValue
			}
		}
		matrix, names = append(matrix, row), append(names, fmt.Sprintf("%06d.sst", i+7))
	}
	spans := &Spans{
		Ticks: []SpanTick{{0, "user/00000000"}, {1, "user/99999999"}}, Scale: Scale{Log: true}, Marked: "flagged",
	}
	for i := range 4 {
		row := SpanRow{Name: fmt.Sprintf("level %d", i)}
		for j := range 1 << i {
			row.Spans = append(row.Spans,
				Span{
					From: float64(j) / float64(int(1)<<i), To: float64(j+1) / float64(int(1)<<i),
					Value: math.Pow(0.1, float64(4-i)), Name: fmt.Sprintf("%06d", j), Marked: i == 3 && j == 2,
				})
		}
		spans.Rows = append(spans.Rows, row)
	}
	spans.Rows = append(spans.Rows, SpanRow{
		Name:  "level 6",
		Spans: []Span{{From: 0.25, To: 0.25, Value: NoValue, Name: "none"}},
	})
	return []Chart{
		{
			Name: "regions", Title: "How full the blocks are", X: "blocks, from left to right and then down",
			Y: "share of the bits that are set", FormatY: percent, Grid: &Grid{Values: regions},
		},
		{
			Name: "matrix", Title: "What tables have in common", X: "is in this table",
			Y:       "share of a table's keys that",
			FormatY: percent, Grid: &Grid{
				Values: matrix, Rows: names, Columns: names, Labels: true,
				Scale: Scale{High: 0.5, Unknown: "the same"},
			},
		},
		{Name: "tree", Title: "The tree", X: "keys", Y: "predicted rate", Spans: spans},
		{
			Name: "levels", Title: "Wasted reads", Y: "wasted reads", Wide: true, Bullets: &Bullets{
				Bar: "predicted", Tick: "promised", Marks: []string{"optimum", "measured"},
				Rows: []Bullet{
					{Name: "level 0", Bar: 0.001, Tick: 0.002, Marks: []float64{0.0005, -1}},
					{Name: "level 1", Bar: 0.1, Tick: 0.1, Marks: []float64{0.09, 0.11}},
				},
			},
		},
		{
			Name: "parts", Title: "Memory", Y: "bytes", FormatY: Bytes,
			Stack: &Stack{Parts: []Part{{"filters", 3e6}, {"indexes", 1e6}, {"nothing", 0}}},
		},
	}
}

// extentOf returns the bounds of a figure.
func extentOf(s figure) (x, y extent) {
	x, y = newExtent(), newExtent()
	for _, p := range s {
		x.add(p[0])
		y.add(p[1])
	}
	return x, y
}

func stepColor(step int) string { return cssHex(palette[ramp0+role(step)].light) }

func TestCellsAreInTheirPlacesAndColors(t *testing.T) {
	c := Chart{Name: "c", Y: "y", Grid: &Grid{Values: [][]float64{{0, 12, 6}, {3}}}}
	found := func(step int) []figure { return figures(t, &c, `fill="`+stepColor(step)+`"`) }
	at := func(step int) (x, y extent) {
		t.Helper()
		shapes := found(step)
		if len(shapes) != 2 { // one of them in the key
			t.Fatalf("step %d: %d shapes, want one in the key and one cell", step, len(shapes))
		}
		return extentOf(shapes[1])
	}
	x0, y0 := at(0)
	x1, y1 := at(11)
	x2, y2 := at(6)
	x3, y3 := at(3)
	wide := x1.min - x0.min
	if wide < 100 || !near(x2.min-x1.min, wide) || !near(x3.min, x0.min) || !near(x0.max-x0.min, x3.max-x3.min) {
		t.Errorf("columns at %v %v %v and %v below, want three equally wide and the fourth cell below the first",
			x0, x1, x2, x3)
	}
	if !near(y0.min, y1.min) || !near(y0.max, y2.max) || y3.max > y0.min {
		t.Errorf("rows at %v %v %v and %v, want three cells in the upper and one in the lower", y0, y1, y2, y3)
	}
	if n := len(found(9)); n != 1 {
		t.Errorf("a color that no cell has is drawn %d times, want it in the key alone", n)
	}
}

func TestSpansAreWhereTheyBeginAndEnd(t *testing.T) {
	c := Chart{Name: "c", Y: "y", Spans: &Spans{Scale: Scale{Low: 0.001, High: 1, Log: true}, Rows: []SpanRow{
		{Name: "a", Spans: []Span{{From: 0, To: 1, Value: 0.001}}},
		{Name: "a", Spans: []Span{{From: 0.25, To: 0.75, Value: 0.04}, {From: 0.5, To: 0.5, Value: 1}}},
	}}}
	found := func(step int) []figure { return figures(t, &c, `fill="`+stepColor(step)+`"`) }
	at := func(step int) (x, y extent) {
		t.Helper()
		shapes := found(step)
		if len(shapes) != 2 {
			t.Fatalf("step %d: %d shapes, want one in the key and one span", step, len(shapes))
		}
		return extentOf(shapes[1])
	}
	all, above := at(0)
	half, below := at(6) // 0.04 is just over half of the way from 0.001 to 1
	point, _ := at(11)
	wide := all.max - all.min
	if math.Abs(half.min-all.min-wide/4) > 1 || math.Abs(all.max-half.max-wide/4) > 1 || below.max > above.min {
		t.Errorf("a span from %v to %v below one from %v to %v, want the middle half, and below it",
			half.min, half.max, all.min, all.max)
	}
	if got := point.max - point.min; got < 0.9 || math.Abs(point.min-all.min-wide/2) > 1 {
		t.Errorf("a span without a width is drawn from %v to %v, want a point in the middle of %v to %v",
			point.min, point.max, all.min, all.max)
	}
}

func TestValuesHaveTheColorOfTheirStep(t *testing.T) {
	for _, tt := range []struct {
		name   string
		scale  Scale
		values []float64
		want   []int
		ends   [2]float64
	}{
		{
			"the lowest and the highest value are the ends",
			Scale{},
			[]float64{2, 4, 3, 2.99},
			[]int{0, 11, 6, 5},
			[2]float64{2, 4},
		},
		{
			"on a logarithmic scale each step is a factor",
			Scale{Log: true},
			[]float64{1, 1000, 31, 32, 0},
			[]int{0, 11, 5, 6, 0},
			[2]float64{1, 1000},
		},
		{"given ends", Scale{Low: 0, High: 1}, []float64{-1, 0, 0.5, 1, 9}, []int{0, 0, 6, 11, 11}, [2]float64{0, 1}},
		{"one value is in the middle", Scale{}, []float64{7, 7}, []int{6, 6}, [2]float64{7, 7}},
		{"only zeros on a logarithmic scale", Scale{Log: true}, []float64{0}, []int{6}, [2]float64{1, 1}},
		{"nothing known", Scale{}, []float64{NoValue}, []int{6}, [2]float64{1, 1}},
	} {
		r, err := newRamp(tt.scale, tt.values)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		var got []int
		for _, v := range tt.values {
			got = append(got, r.step(v))
		}
		if !slices.Equal(got, tt.want) || r.Low != tt.ends[0] || r.High != tt.ends[1] {
			t.Errorf("%s: steps %v of a scale from %v to %v, want %v from %v",
				tt.name, got, r.Low, r.High, tt.want, tt.ends)
		}
	}
}

func TestTheKeyOfColorsSaysWhatTheyMean(t *testing.T) {
	for i, want := range [][]string{
		{"48 %", "52 %"}, // of 50 ± 2
		{"0 %", "≥ 50 %", "the same", "41.3 %", "000007.sst", "is in this table"},
		{"0.0001", "0.1", "flagged", "not known", "level 6", "user/00000000", "user/99999999"},
	} {
		c := colored()[i]
		all, _ := texts(t, svgOf(t, &c))
		for _, s := range want {
			if !slices.Contains(all, s) {
				t.Errorf("%s: %q is not among the texts %q", c.Name, s, all)
			}
		}
	}
}

func TestColorsAreToldToWhoCannotSeeThem(t *testing.T) {
	for i, want := range []string{
		"Map of share of the bits that are set in 9 rows and 32 columns. " +
			"Lowest 48 % at row 1, column 12; highest 52 % at row 2, column 2; 263 values.",
		"Map of share of a table's keys that in 12 rows and 12 columns. " +
			"Lowest 0 % at 000007.sst, 000008.sst; highest 90.9 % at 000017.sst, 000018.sst; 132 values.",
		"Picture of predicted rate over keys. level 0: 1, 0.0001. " +
			"level 1: 2, 0.001. level 2: 4, 0.01. level 3: 8, 0.1, 1 marked. level 6: 1.",
	} {
		c := colored()[i]
		if got := c.summary(); got != want {
			t.Errorf("%s: got %q, want %q", c.Name, got, want)
		}
	}
	c := Chart{Name: "c", Grid: &Grid{Values: [][]float64{{NoValue}}}}
	if c.summary() != "Map of values in 1 rows and 1 columns. No value is known." {
		t.Errorf("of nothing: got %q", c.summary())
	}
}

func TestColorsThatCannotBeDrawnAreAnError(t *testing.T) {
	one := [][]float64{{1, 2}, {3, 4}}
	nan := math.NaN()
	values := func(rows ...[]float64) Chart { return Chart{Grid: &Grid{Values: rows}} }
	grid := func(g Grid) Chart {
		g.Values = one
		return Chart{Grid: &g}
	}
	spans := func(rows ...SpanRow) Chart { return Chart{Spans: &Spans{Rows: rows}} }
	span := func(s Span) Chart { return spans(SpanRow{Name: "a"}, SpanRow{Name: "b", Spans: []Span{s}}) }
	mixed := "one of lines, a grid, spans, bullets and a stack"
	for _, tt := range []struct {
		name  string
		chart Chart
		want  string
	}{
		{"no rows", values(), "the grid has no cells"},
		{"no columns", values([]float64{}), "the grid has no cells"},
		{"a short row", values(one[0], one[0][:1], one[0]), "row 1 of the grid has 1 cells, want 2"},
		{"a long last row", values([]float64{1, 2}, []float64{1, 2, 3}), "row 1 of the grid has 3 cells, want 2"},
		{"an empty last row", values([]float64{1, 2}, nil), "row 1 of the grid has 0 cells, want 2"},
		{"too many cells", values(make([]float64, maxCells+1)), "4097 cells, want at most 4096"},
		{"a NaN", values([]float64{1, nan}), "value 1 is NaN"},
		{"an infinity", values([]float64{math.Inf(-1)}), "value 0 is -Inf"},
		{
			"less than zero on a logarithmic scale",
			Chart{Grid: &Grid{Values: [][]float64{{1, -1}}, Scale: Scale{Log: true}}},
			"value 1 is -1, want 0 or more",
		},
		{"a scale that falls", grid(Grid{Scale: Scale{Low: 2, High: 1}}), "the scale is from 2 to 1"},
		{"a logarithmic scale from zero", grid(Grid{Scale: Scale{High: 1, Log: true}}), "the scale is from 0 to 1"},
		{"a scale without an end", grid(Grid{Scale: Scale{High: nan}}), "the scale is from 0 to NaN"},
		{"names for some rows", grid(Grid{Rows: []string{"a"}}), "1 names for 2 rows"},
		{"names for more columns", grid(Grid{Columns: []string{"a", "b", "c"}}), "3 names for 2 columns"},
		{"lines and a grid", Chart{Grid: &Grid{Values: one}, Lines: manyLines(1)}, mixed},
		{"a grid and spans", Chart{Grid: &Grid{Values: one}, Spans: span(Span{}).Spans}, mixed},
		{"a grid on a logarithmic axis", Chart{Grid: &Grid{Values: one}, LogY: true}, mixed},
		{"spans without rows", spans(), "the spans have 0 rows, want 1 to 60"},
		{"rows without spans", spans(make([]SpanRow, 3)...), "the rows have no spans"},
		{"too many rows", spans(make([]SpanRow, maxSpanRows+1)...), "the spans have 61 rows"},
		{"too many spans", spans(SpanRow{Spans: make([]Span, maxCells+1)}), "4097 spans"},
		{"a span that ends before it begins", span(Span{From: 0.5, To: 0.4}), "row 1, span 0: from 0.5 to 0.4"},
		{"a span beyond the end", span(Span{To: 1.1}), "from 0 to 1.1"},
		{"a span from nowhere", span(Span{From: nan, To: 1}), "from NaN to 1"},
		{"a span of no color", span(Span{To: 1, Value: nan}), "value 0 is NaN"},
	} {
		tt.chart.Name = "c"
		t.Run(tt.name, func(t *testing.T) { checkRefused(t, tt.chart, tt.want) })
	}
}

func TestOddGridsAndSpansAreDrawn(t *testing.T) {
	long := strings.Repeat("a name that fits nowhere ", 20)
	many := make([][]float64, 64)
	names := make([]string, 64)
	for i := range many {
		many[i], names[i] = make([]float64, 64), long
	}
	for _, c := range []Chart{
		{Grid: &Grid{Values: [][]float64{{7}}}},
		{Grid: &Grid{Values: [][]float64{{NoValue}}, Rows: []string{long}, Columns: []string{long}, Labels: true}},
		{Grid: &Grid{Values: many, Rows: names, Columns: names, Labels: true}},
		{Grid: &Grid{Values: [][]float64{{-1e100, 1e100}, {1e-100, 0}}}},
		{Grid: &Grid{Values: [][]float64{{0, 1e100, 1e-100}}, Scale: Scale{Log: true}}},
		{Spans: &Spans{Rows: []SpanRow{{Name: long, Spans: []Span{
			{From: 1, To: 1, Name: long, Marked: true},
			{Value: NoValue},
		}}}, Ticks: []SpanTick{{0, long}, {0.5, long}, {1, long}}, Marked: long}},
	} {
		c.Name, c.Title, c.Caption, c.X, c.Y = "c", long, long, long, long
		doc := string(svgOf(t, &c))
		var b bytes.Buffer
		must(t, (&Page{Sections: []Section{{ID: "s", Charts: []Chart{c}}}}).WriteHTML(&b))
		shown, _, _ := strings.Cut(b.String(), "<script")
		if doc += shown; strings.Contains(doc, "NaN") || strings.Contains(doc, "Inf") {
			t.Errorf("%+v: coordinates that are no numbers", c)
		}
	}
}

func TestTheRampRisesForEveryEye(t *testing.T) {
	for eye, matrix := range sight {
		for step := 1; step < numSteps; step++ {
			before, after := palette[ramp0+role(step-1)], palette[ramp0+role(step)]
			if got := lab(before.light, matrix)[0] - lab(after.light, matrix)[0]; got < 3 {
				t.Errorf("light, %s: step %d is darker by %.1f, want 3", eye, step, got)
			}
			if got := lab(after.dark, matrix)[0] - lab(before.dark, matrix)[0]; got < 3 {
				t.Errorf("dark, %s: step %d is lighter by %.1f, want 3", eye, step, got)
			}
		}
	}
	for step := range numSteps {
		color, on := palette[ramp0+role(step)], palette[onStep(step)]
		if light, dark := contrast(color.light, on.light), contrast(color.dark, on.dark); light < 3.9 || dark < 3.9 {
			t.Errorf("step %d: text has a contrast of %.1f, in the dark %.1f, want 3.9", step, light, dark)
		}
	}
}

func TestBulletsHaveTheirValuesOnOneAxis(t *testing.T) {
	c := Chart{Name: "c", Y: "y", Bullets: &Bullets{Bar: "bar", Tick: "tick", Rows: []Bullet{
		{Name: "a", Bar: 10, Tick: 5}, {Name: "b", Bar: 5, Tick: -1},
	}}}
	bars := figures(t, &c, `fill="`+cssHex(palette[series0].light)+`"`)
	if len(bars) != 3 { // one in the legend
		t.Fatalf("%d bars, want 3", len(bars))
	}
	long, first := extentOf(bars[1])
	half, second := extentOf(bars[2])
	if !near(long.min, half.min) || !near(long.max-long.min, 2*(half.max-half.min)) || second.max > first.min {
		t.Errorf("bars from %v to %v and, below, from %v to %v, want the second half as long", long.min, long.max,
			half.min, half.max)
	}
	ticks := figures(t, &c, `stroke="`+cssHex(palette[ink].light)+`"`)
	if at, _ := extentOf(ticks[len(ticks)-1]); len(ticks) != 2 || !near(at.min, half.max) {
		t.Errorf("the tick is at %v of %v, want %v", at, ticks, half.max)
	}
}

func TestAStackIsDividedLikeItsParts(t *testing.T) {
	c := Chart{Name: "c", Y: "y", Stack: &Stack{Parts: []Part{{"one", 1}, {"three", 3}}}}
	var wide [2]float64
	for i := range wide {
		parts := figures(t, &c, `fill="`+cssHex(palette[lineRole(i)].light)+`"`)
		if len(parts) != 2 {
			t.Fatalf("%d boxes of part %d, want one in the legend and one in the bar", len(parts), i)
		}
		x, _ := extentOf(parts[1])
		wide[i] = x.max - x.min
	}
	if math.Abs(3*wide[0]-wide[1]) > 6 || wide[0] < 150 {
		t.Errorf("the parts are %v wide, want one to three", wide)
	}
}

func TestBulletsAndStacksThatCannotBeDrawnAreAnError(t *testing.T) {
	rows := func(r ...Bullet) Chart { return Chart{Name: "c", Bullets: &Bullets{Marks: []string{"m"}, Rows: r}} }
	parts := func(p ...Part) Chart { return Chart{Name: "c", Stack: &Stack{Parts: p}} }
	for want, c := range map[string]Chart{
		"0 bullets with 1 marks, want 1 to 60": rows(),
		`bullet 1, "a": 0 marks, want 1`:       rows(Bullet{Name: "a"}),
		`bullet 1, "a": NaN, want a number`:    rows(Bullet{Name: "a", Bar: math.NaN(), Marks: []float64{1}}),
		"the bullets have no values":           rows(Bullet{Bar: -1, Tick: -1, Marks: []float64{-1}}),
		"0 parts, want 1 to 6":                 parts(),
		`part "a" is -1, want 0`:               parts(Part{"a", -1}),
		"the parts are all zero":               parts(Part{"a", 0}),
	} {
		checkRefused(t, c, want)
	}
}

// On a page, a box has a name for the pointer, a link and a group, and the cells of a map are pixels for both modes.
func TestAPageHasLinksAndNamesInItsCharts(t *testing.T) {
	p := &Page{Sections: []Section{
		{ID: "a", Charts: []Chart{
			{Name: "tree", Y: "y", Spans: &Spans{Rows: []SpanRow{{Spans: []Span{
				{To: 0.5, Value: 1, Title: "one\nof two", Link: "b", Group: "level 1"},
				{From: 0.5, To: 1, Value: 2, Title: "two"},
			}}}}},
			{Name: "map", Y: "y", FormatY: Number, Grid: &Grid{
				Values: [][]float64{{1, 2}, {NoValue}}, Of: "block", Each: 16,
			}},
		}},
		{ID: "b"},
	}}
	doc := htmlOf(t, p)
	for want, n := range map[string]int{
		`<a href="#b" data-group="level 1"><rect class="f-ramp-1" `: 2, // wide and narrow
		"<title>one\nof two</title>":                                2,
		`<g><rect class="f-ramp-12" `:                               2,
		`data-columns="2" data-rows="2" data-of="block" data-each="16" data-values="1;2;not known"`: 1,
		`data-columns="2" data-rows="2" data-of="block" data-each="16">`:                            1,
		`<image class="light" `: 2,
		`<image class="dark" `:  2,
	} {
		if got := strings.Count(doc, want); got != n {
			t.Errorf("%d times %s, want %d", got, want, n)
		}
	}
	data := regexp.MustCompile(`<image class="dark"[^>]*base64,([^"]*)"`).FindStringSubmatch(doc)
	raw, err := base64.StdEncoding.DecodeString(data[1])
	must(t, err)
	img, err := png.Decode(bytes.NewReader(raw))
	must(t, err)
	_, _, _, nothing := img.At(1, 1).RGBA()
	if img.Bounds() != image.Rect(0, 0, 2, 2) || color.NRGBAModel.Convert(img.At(0, 0)) != palette[ramp0].dark ||
		color.NRGBAModel.Convert(img.At(1, 0)) != palette[ramp0+numSteps-1].dark || nothing != 0 {
		t.Errorf("the pixels are %v, want the ends of the ramp, and nothing where there is no cell", img)
	}
	p.Sections[1].ID = "c"
	if err := p.WriteHTML(io.Discard); err == nil || !strings.Contains(err.Error(), `links to "b"`) {
		t.Errorf("a box that leads nowhere: %v", err)
	}
}
