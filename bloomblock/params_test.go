package bloomblock

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

func TestTableIsWhatTheFormulaSays(t *testing.T) {
	testkit.Long(t)
	rows := table[:]
	best := 1.0
	for bits := minUnitBits; bits <= maxUnitBits; bits += minUnitBits {
		for probes := 1; probes <= MaxProbes; probes++ {
			u := Unit{bits, probes}
			if float64(probes) > bits+1 {
				continue // far more probes than the best number take long to compute
			}
			rate := u.Rate()
			if rate >= best {
				continue
			}
			best = rate
			if len(rows) == 0 || rows[0].Unit != u || math.Abs(rows[0].Rate/rate-1) > 1e-9 {
				t.Fatalf("table has %v, want %v with rate %v", rows[:min(1, len(rows))], u, rate)
			}
			rows = rows[1:]
		}
	}
	if len(rows) != 0 {
		t.Errorf("rows left over: %v", rows)
	}
}

func TestTableWasMeasured(t *testing.T) {
	for _, row := range table {
		noise := 5 / math.Sqrt(row.Rate*(1<<26))
		if row.Rate > 1e-4 {
			noise = 5 / math.Sqrt(1000)
		}
		if got := row.Measured / row.Rate; math.Abs(got-1) > 0.02+noise {
			t.Errorf("%v: measured %v, exact %v", row.Unit, row.Measured, row.Rate)
		}
	}
}

func TestParamsForKeepsEveryRate(t *testing.T) {
	testkit.Long(t)
	bits := 0.0
	for rate := 0.9999; rate > BestRate; rate *= 0.7 {
		p, err := ParamsFor(rate)
		must(t, err)
		if p.Rate() > rate || p.Rate() <= 0 || len(p.Units()) == 0 {
			t.Errorf("%v: promised %v by %v", rate, p.Rate(), p.Units())
		}
		if cost := p.BitsPerKey() + float64(p.n); cost < bits {
			t.Errorf("%v: %v costs %v, a higher rate cost %v", rate, p.Units(), cost, bits)
		} else {
			bits = cost
		}
		exact := paramsOf(t, p.Units()...)
		// By the exact rate, one unit has less than an eighth of a bit more than it needs. Between 2 and 2.5 bits a
		// key, where two probes begin to be better than one, it may be 5/32.
		more := 1.0 / 8
		if p.units[0].BitsPerKey > 2 && p.units[0].BitsPerKey <= 2.5 {
			more = 6.0 / 32
		}
		for k := range 12 {
			smaller := Unit{p.units[0].BitsPerKey - more, k + 1}
			if p.n == 1 && smaller.BitsPerKey >= minUnitBits && smaller.Rate() <= rate {
				t.Errorf("%v: %v, where %v is enough", rate, p.Units(), smaller)
			}
		}
		if over := p.Rate() / exact.Rate(); over < 1-1e-9 || over > 1.01 {
			t.Errorf("%v: promised %v, exact %v", rate, p.Rate(), exact.Rate())
		}
	}
}

func TestParamsForExtremes(t *testing.T) {
	for _, tt := range []struct {
		name string
		rate float64
		ok   bool
	}{
		{"not a number", math.NaN(), false},
		{"zero", 0, false},
		{"negative zero", math.Copysign(0, -1), false},
		{"negative", -0.01, false},
		{"negative infinity", math.Inf(-1), false},
		{"the smallest number", math.SmallestNonzeroFloat64, false},
		{"just below the best", math.Nextafter(BestRate, 0), false},
		{"the best", BestRate, true},
		{"just below one", math.Nextafter(1, 0), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := ParamsFor(tt.rate)
			if ok := err == nil; ok != tt.ok {
				t.Fatalf("error %v, want none: %v", err, tt.ok)
			}
			if tt.ok {
				if p.Rate() > tt.rate {
					t.Errorf("promised %v", p.Rate())
				}
				return
			}
			if !errors.Is(err, ErrRate) || !strings.Contains(err.Error(), "1e-09") || p != (Params{}) {
				t.Errorf("%v with error %q, want ErrRate that names the best", p, err)
			}
			if _, err := ParamsNested(0.5, tt.rate); !errors.Is(err, ErrRate) {
				t.Errorf("nested: error %v, want ErrRate", err)
			}
		})
	}
	for _, rate := range []float64{1, 1.5, math.Inf(1)} {
		if p, err := ParamsFor(rate); err != nil || p != (Params{}) || p.Rate() != 1 || p.BitsPerKey() != 0 {
			t.Errorf("%v: %v, %v, want no filter", rate, p, err)
		}
	}
}

func TestNewParamsRefuses(t *testing.T) {
	for _, tt := range []struct {
		name  string
		units []Unit
	}{
		{"four units", []Unit{{5, 3}, {5, 3}, {5, 3}, {5, 3}}},
		{"no bits", []Unit{{0, 3}}},
		{"negative bits", []Unit{{-1, 3}}},
		{"bits that are not a number", []Unit{{math.NaN(), 3}}},
		{"too many bits", []Unit{{32.5, 3}}},
		{"no probes", []Unit{{5, 3}, {5, 0}}},
		{"too many probes", []Unit{{5, 15}}},
	} {
		if p, err := NewParams(tt.units...); !errors.Is(err, ErrParams) || p != (Params{}) {
			t.Errorf("%s: %v, %v, want ErrParams", tt.name, p, err)
		}
	}
}

func TestNestedUnitsKeepEachRate(t *testing.T) {
	for _, rates := range [][]float64{
		{0.01},
		{0.00855, 0.000855},
		{0.00855, 0.000855, 0.0000855},
		{0.01, 0.01},
		{0.1, 0.099, 0.098},
		{1, 0.01},
		{2, 1, 1},
		{0.5, 1e-4, 1e-8},
		{0.01, 0.009999},
	} {
		p, err := ParamsNested(rates...)
		if err != nil {
			t.Errorf("%v: %v", rates, err)
			continue
		}
		h, err := ParseHeader(blockOf(p, hashesOf(numbered, 0, 10)))
		must(t, err)
		for i, rate := range rates {
			n := h.UnitsFor(rate)
			if n > i+1 || p.Leading(n).Rate() > rate {
				t.Errorf("%v: %d units for %v have rate %v", rates, n, rate, p.Leading(n).Rate())
			}
			if h.Rate(n) != p.Leading(n).Rate() {
				t.Errorf("%v: by the header %d units have rate %v, want %v", rates, n, h.Rate(n), p.Leading(n).Rate())
			}
		}
	}
	if h := paramsFor(t, 0.01).Header(1000); h.UnitsFor(1e-5) != 1 || h.UnitsFor(1) != 0 {
		t.Errorf("units for a rate out of reach %d, for none %d, want 1, 0", h.UnitsFor(1e-5), h.UnitsFor(1))
	}
	for _, rates := range [][]float64{nil, {0.1, 0.01, 0.001, 0.0001}, {0.01, 0.1}} {
		if _, err := ParamsNested(rates...); !errors.Is(err, ErrParams) {
			t.Errorf("%v: error %v, want ErrParams", rates, err)
		}
	}
	if _, err := ParamsNested(0.1, 1e-8); !errors.Is(err, ErrRate) {
		t.Errorf("a step too large for a unit: error %v, want ErrRate", err)
	}
}

// TestDocumentedTable compares the doc comment of ParamsFor with the table.
func TestDocumentedTable(t *testing.T) {
	var want strings.Builder
	want.WriteString("//\trate   bits/key  units  probes    promised\n")
	for _, rate := range []float64{
		0.5, 0.25, 0.1, 0.05, 0.025, 0.01, 0.005, 0.0025, 0.001, 5e-4, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9,
	} {
		p := paramsFor(t, rate)
		var probes []string
		for _, u := range p.Units() {
			probes = append(probes, strconv.Itoa(u.Probes))
		}
		fmt.Fprintf(&want, "//\t%-6v %8.2f  %5d  %-8s  %.2e\n",
			rate, p.BitsPerKey(), len(probes), strings.Join(probes, " "), p.Rate())
	}
	src, err := os.ReadFile("params.go")
	must(t, err)
	if !strings.Contains(string(src), want.String()) {
		t.Errorf("the comment of ParamsFor should have\n%s", want.String())
	}
}

// TestAHeaderIsDescribedWithoutBuildingTheFilter compares Params.Header with the header of a block that was built, and
// their forms.
func TestAHeaderIsDescribedWithoutBuildingTheFilter(t *testing.T) {
	testkit.LongUnderRace(t)
	split, err := ParamsSplit(3, 0.0085)
	must(t, err)
	nested, err := ParamsNested(0.0085, 0.0001)
	must(t, err)
	for _, p := range []Params{
		{},
		paramsFor(t, 0.01), paramsFor(t, 1e-6), split, split.SideBySide(), nested, ribbonOf(t, 0.0085),
		ribbonOf(t, 0.3, 0.001, 1e-5),
	} {
		for _, n := range []uint64{0, 1, 2, 63, 200, 1000, 1500, 10_000, 100_000} {
			want, err := ParseHeader(blockOf(p, hashesOf(numbered, 0, n)))
			must(t, err)
			for i := range want.Units {
				want.Units[i].CRC = 0
			}
			got := p.Header(n)
			want.Seed, want.sums = got.Seed, got.sums
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%d keys, %v: %v, want %v", n, p, got, want)
			}
			if len(got.Forms(0)) != len(want.Forms(0)) {
				t.Errorf("%d keys, %v: %d forms, want %d", n, p, len(got.Forms(0)), len(want.Forms(0)))
			}
		}
		if most := p.Header(1 << 38); len(most.Units) > 0 && len(most.Forms(0)) < 3 {
			t.Errorf("%v: %d forms of the filter of 2³⁸ keys, want some", p, len(most.Forms(0)))
		}
	}
}

func TestLeadingUnitsAreAFilterOfTheirOwn(t *testing.T) {
	for _, of := range []func(...float64) (Params, error){ParamsNested, ParamsRibbon} {
		p, err := of(0.01, 0.001, 0.0001)
		must(t, err)
		if p.Leading(3) != p || p.Leading(0) != (Params{}) {
			t.Errorf("%+v: all of it %+v, none %+v", p, p.Leading(3), p.Leading(0))
		}
		for n, rate := range []float64{0.01, 0.001, 0.0001} {
			want, err := of([]float64{0.01, 0.001, 0.0001}[:n+1]...)
			if got := p.Leading(n + 1); err != nil || got != want || got.Rate() > rate {
				t.Errorf("%d units: %+v, want %+v", n+1, got, want)
			}
		}
	}
}
