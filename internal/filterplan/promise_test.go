package filterplan

import (
	"math"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// TestAPromiseAddsWhatFiltersCost adds a filter of half of the keys. Where it is not whole in memory, three hundredths
// more are promised; where it lets more than a tenth of the keys through, it is asked in its file if that is worth it.
func TestAPromiseAddsWhatFiltersCost(t *testing.T) {
	whole := bloomblock.Form{Bytes: 100, Rate: 0.01}
	for _, c := range []struct {
		name        string
		form, whole bloomblock.Form
		want        Promise
	}{
		{"whole", whole, whole, Promise{FPR: 0.005, Passed: 0.005}},
		{"a part", bloomblock.Form{Bytes: 50, Rate: 0.1}, whole, Promise{FPR: 0.0515, Passed: 0.0515}},
		{"none", bloomblock.Form{Rate: 1}, whole, Promise{FPR: 0.005, Passed: 0.5, Pages: 0.5}},
		{
			"a part that lets many through",
			bloomblock.Form{Bytes: 20, Rate: 0.4},
			whole,
			Promise{FPR: 0.005, Passed: 0.206, Pages: 0.206},
		},
		{
			"half of a poor one",
			bloomblock.Form{Bytes: 5, Rate: 0.6},
			bloomblock.Form{Bytes: 10, Rate: 0.4},
			Promise{FPR: 0.309, Passed: 0.309},
		},
		{
			"asked in the file in units one by one",
			bloomblock.Form{Bytes: 20, Rate: 0.4, MorePages: 0.25},
			whole,
			Promise{FPR: 0.005, Passed: 0.206, Pages: 0.2575},
		},
		{"no filter at all", bloomblock.Form{Rate: 1}, bloomblock.Form{Rate: 1}, Promise{FPR: 0.5, Passed: 0.5}},
	} {
		var p Promise
		p.Add(0.5, c.form, c.whole)
		c.want.Reads = c.want.Pages + 2*c.want.FPR
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
		if !near(p.FPR, c.want.FPR) || !near(p.Passed, c.want.Passed) || !near(p.Pages, c.want.Pages) ||
			!near(p.Reads, c.want.Reads) {
			t.Errorf("%s: %+v, want %+v", c.name, p, c.want)
		}
	}
}

// TestReadsNowNeedNoSharesOfAbsentLevels predicts less than what is promised.
func TestReadsNowNeedNoSharesOfAbsentLevels(t *testing.T) {
	const predicted = 0.004
	for _, c := range []struct {
		name  string
		p     Promise
		asked float64
		want  float64 // wasted searches, each of three reads
	}{
		{"all that was asked is kept", Promise{FPR: 0.01}, 0.01, 1.1 * predicted},
		{"less than was asked", Promise{FPR: 0.02}, 0.01, Promised(0.02, predicted)},
		{"filters are asked in their files", Promise{FPR: 0.01, Pages: 0.5}, 0.01, Promised(0.01, predicted)},
	} {
		if got, want := c.p.ReadsNow(c.asked, predicted, 3), c.p.Pages+3*c.want; !(math.Abs(got-want) < 1e-12) {
			t.Errorf("%s: %g reads, want %g", c.name, got, want)
		}
	}
}
