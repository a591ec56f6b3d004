package filterplan

import (
	"math"
	"testing"
)

func TestMeansAreOverEntries(t *testing.T) {
	var a, b, empty Mean
	a.Add(100, 0.01)
	a.Add(300, 0.02) // three quarters of the run
	b.Add(50, 1)     // without a filter
	empty.Add(0, 1)
	got := a.Value() + b.Value() + empty.Value()
	if want := 0.0175 + 1; !(math.Abs(got-want) < 1e-12) { // also NaN
		t.Errorf("a sum of %g, want %g", got, want)
	}
}
