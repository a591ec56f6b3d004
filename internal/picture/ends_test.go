package picture

import (
	"slices"
	"testing"
)

func TestNamesMoveApartAsLittleAsTheyMust(t *testing.T) {
	for _, tt := range []struct{ values, want []float64 }{
		{[]float64{0, 10, 20}, []float64{0, 10, 20}},
		{[]float64{5, 5}, []float64{0, 10}},
		{[]float64{5, 5, 5}, []float64{-5, 5, 15}},
		{[]float64{0, 4, 30}, []float64{-3, 7, 30}},
		{[]float64{0, 9, 12, 40}, []float64{-3, 7, 17, 40}},
		{[]float64{0, 10, 11}, []float64{-3, 7, 17}},
		{[]float64{-10, -10, -10}, []float64{-10, 0, 10}},
		{[]float64{0, 48, 49}, []float64{0, 40, 50}},
		{[]float64{50, 50, 50, 50, 50, 50, 50}, []float64{-10, 0, 10, 20, 30, 40, 50}},
		{[]float64{7}, []float64{7}},
		{nil, []float64{}},
	} {
		if got := moveApart(tt.values, 10, -10, 50); !slices.Equal(got, tt.want) {
			t.Errorf("%v: got %v, want %v", tt.values, got, tt.want)
		}
	}
}

func TestNamesStandAtTheEndsWhereTheyFit(t *testing.T) {
	x, y := []float64{1, 2, 3}, []float64{3, 4, 5}
	two := []Line{{Name: "a", X: x, Y: y}, {Name: "b", X: x, Y: y, Kind: Curve}}
	for _, tt := range []struct {
		name  string
		lines []Line
		size  size
		want  bool
	}{
		{"two lines", two, wide, true},
		{"on a phone", two, narrow, false},
		{"one line", two[:1], wide, false},
		{"many lines", manyLines(maxEnds + 1), wide, false},
		{"a line that ends before", []Line{two[0], {Name: "b", X: x[:2], Y: y[:2]}}, wide, false},
		{"steps", []Line{two[0], {Name: "b", X: x, Y: y, Kind: Steps}}, wide, false},
		{"a long name", []Line{two[0], {Name: "a name that would take all the room beside the plot", X: x, Y: y}}, wide, false},
	} {
		c := Chart{Name: "c", Lines: tt.lines}
		d := c.layOut(tt.size, true)
		if got := d.ends > 0; got != tt.want || len(d.legend) > 0 && got || len(d.legend) == 0 && !got {
			t.Errorf("%s: names at the ends %t and %d rows of a legend, want %t and the other", tt.name, got, len(d.legend), tt.want)
		}
	}
}
