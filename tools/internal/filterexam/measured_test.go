package filterexam

import (
	"math"
	"testing"
)

// TestFewHitsAreJudgedByTheirChance: with a hundredth of a hit expected, one hit is eight standard errors, but not
// unusual.
func TestFewHitsAreJudgedByTheirChance(t *testing.T) {
	for _, c := range []struct {
		name          string
		probes, maybe uint64
		rate          float64
		chance        float64
		flag          FlagName
	}{
		{"one hit where 0.01 are expected", 1 << 17, 1, 0.01 / (1 << 17), 0.00995, ""},
		{"none where none is expected", 1 << 17, 0, 0, 1, ""},
		{"one where none can be", 1 << 17, 1, 0, 0, ProbesDependent},
		{"three where 0.01 are expected", 1 << 17, 3, 0.01 / (1 << 17), 1.65e-7, ProbesDependent},
		{"as many as are expected", 1 << 20, 1000, 1000.0 / (1 << 20), 0.5042, ""},
		{"a tenth more of 1600", 160_000, 1760, 0.01, 4.2e-5, ""},
		{"an eighth more of 1600", 160_000, 1800, 0.01, 4.97e-7, ProbesDependent},
		{"a sixth less of 1600", 160_000, 1380, 0.01, 1.0e-8, MeasuredOff},
		{"a hundredth more of 160,000", 16_000_000, 161_600, 0.01, 3.3e-5, ""},
		{"a fiftieth more of 160,000", 16_000_000, 163_200, 0.01, 7.5e-16, MeasuredOff},
	} {
		m := &Measured{Probes: c.probes, Maybe: c.maybe, Rate: float64(c.maybe) / float64(c.probes)}
		if got := m.chance(c.rate); math.Abs(got-c.chance) > 0.1*c.chance {
			t.Errorf("%s: chance %.3g, want %.3g", c.name, got, c.chance)
		}
		var got FlagName
		if flags := m.judge(c.rate); len(flags) > 0 {
			got = flags[0].Name
		}
		if got != c.flag {
			t.Errorf("%s: flag %q, want %q", c.name, got, c.flag)
		}
	}
}
