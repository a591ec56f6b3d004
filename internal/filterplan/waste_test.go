package filterplan

import (
	"math"
	"testing"
)

func TestWasteIsTheSumOverRuns(t *testing.T) {
	var level LevelWaste
	var a, b, empty RunWaste
	a.Add(100, 0.01, 1, 99)
	a.Add(300, 0.02, 5, 295) // three quarters of the run
	b.Add(50, 1, 0, 0)       // without a filter
	for _, r := range []RunWaste{a, b, empty} {
		level.Add(r)
	}
	if want := 0.0175 + 1; !(math.Abs(level.Predicted-want) < 1e-12) { // also NaN
		t.Errorf("predicted %g, want %g", level.Predicted, want)
	}
	if want := 3 * 6.0 / 400; !(math.Abs(level.Measured()-want) < 1e-12) {
		t.Errorf("measured %g, want %g: three runs at the rate of all answers", level.Measured(), want)
	}
	if none := new(LevelWaste); none.Predicted != 0 || none.Measured() != 0 {
		t.Errorf("a level without runs wastes %g, measured %g", none.Predicted, none.Measured())
	}
}
