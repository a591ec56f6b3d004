package main

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/tools/internal/filterexam"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

// agreeOnRows compares each row of the text with the object.
func agreeOnRows(t *testing.T, text string, f *inspect.Filter) {
	t.Helper()
	row := func(in, label string, want ...float64) {
		t.Helper()
		for line := range strings.Lines(in) {
			rest, ok := strings.CutPrefix(strings.TrimLeft(line, " "), label+" ")
			words := strings.Fields(strings.NewReplacer("–", " ").Replace(rest))
			if !ok || len(words) < len(want) {
				continue
			}
			for i, v := range want {
				printed, err := strconv.ParseFloat(words[i], 64)
				if err != nil || !agrees(strings.TrimLeft(words[i], "-"), math.Abs(printed), math.Abs(v)) ||
					printed*v < 0 {
					t.Errorf("%s, column %d: %s, want %v", label, i, words[i], v)
				}
			}
			return
		}
		t.Errorf("no row %q in\n%s", label, in)
	}
	rates := func(label string, promised, table, bits float64, m *filterexam.Measured) {
		t.Helper()
		_, in, _ := strings.Cut(text, "\nfalse positive rate:\n")
		row(in, label, promised, table, bits, m.Rate, m.Err, m.Z, float64(m.Maybe), float64(m.Probes))
	}
	for i, u := range f.Units {
		rates(fmt.Sprintf("unit %d", i), u.Promised, u.ByTable, u.FromBits, u.Measured)
		_, in, _ := strings.Cut(text, fmt.Sprintf("\n\nunit %d: ", i))
		for _, s := range []struct {
			label string
			stat  *filterexam.Stat
		}{
			{"set bits of a block, of 512", u.SetBits},
			{"their standard deviation", u.Spread},
			{"keys by the bits", u.NumKeys},
			{"chi-square over positions", u.Positions},
			{"chi-square over regions", u.Evenness},
			{"share of bits set", u.Density},
		} {
			if s.stat != nil {
				row(in, s.label, s.stat.Got, s.stat.Want, s.stat.Err, s.stat.Z)
			}
		}
		_, in, _ = strings.Cut(in, "│ is where theory ends the bar\n")
		for _, b := range u.Histogram {
			if u.Blocks < 8 { // no drawing
				break
			}
			row(in, fmt.Sprintf("%d–%d", b.From, b.To), float64(b.Blocks), b.Want)
		}
	}
	if len(f.Units) > 1 {
		rates("all", f.Promised, f.ByTable, f.FromBits, f.Measured)
	}
}

// numbers calls add for all numbers of a JSON value, and for those in its strings.
func numbers(v any, add func(float64)) {
	switch v := v.(type) {
	case float64:
		add(v)
	case string:
		for _, s := range number.FindAllString(v, -1) {
			if f, err := strconv.ParseFloat(s, 64); err == nil {
				add(f)
			}
		}
	case []any:
		for _, v := range v {
			numbers(v, add)
		}
	case map[string]any:
		for _, v := range v {
			numbers(v, add)
		}
	}
}

// agreeOnAll finds every number of the text in the object and vice versa.
func agreeOnAll(t *testing.T, table, text, encoded string) {
	t.Helper()
	var object map[string]any
	must(t, json.Unmarshal([]byte(encoded), &object))
	var have []float64
	add := func(f float64) { have = append(have, f) }
	numbers(object, add)
	filter, _ := object["filter"].(map[string]any)
	offset, _ := filter["offset"].(float64)
	prefixOffset := 0.0
	if prefixes, ok := object["prefix_filter"].(map[string]any); ok {
		report, _ := prefixes["filter"].(map[string]any)
		prefixOffset, _ = report["offset"].(float64)
	}
	// Numbers that only the text has: offsets in the file, percentages, row numbers, and constants of the format.
	for _, f := range slices.Clone(have) {
		add(f + offset)
		add(f + prefixOffset)
		add(100 * f)
	}
	for i := range 64 {
		add(float64(i))
	}
	add(512)
	add(64)
	text = strings.NewReplacer("crc32c", "crc", "–", " ").Replace(text)
	for _, digits := range number.FindAllString(text, -1) {
		printed, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			continue
		}
		if !slices.ContainsFunc(have, func(f float64) bool { return agrees(digits, printed, math.Abs(f)) }) {
			t.Errorf("%s: the text has %s, the object nothing like it", table, digits)
		}
	}
	printed := number.FindAllString(text, -1)
	missing := func(name string, v float64) {
		if !slices.ContainsFunc(printed, func(s string) bool {
			p, err := strconv.ParseFloat(s, 64)
			return err == nil && (agrees(s, p, math.Abs(v)) || agrees(s, p, math.Abs(v+offset)))
		}) {
			t.Errorf("%s: the object has %s %v, the text nothing like it", table, name, v)
		}
	}
	units, _ := filter["units"].([]any)
	for _, u := range append(units, any(filter)) {
		each(u, missing)
	}
}

// each calls see for the numbers of an object, except those in lists and those shown in another form.
func each(v any, see func(name string, v float64)) {
	object, _ := v.(map[string]any)
	for name, v := range object {
		switch v := v.(type) {
		case float64:
			see(name, v)
		case map[string]any:
			each(v, func(inner string, v float64) { see(name+"."+inner, v) })
		}
	}
}

// agrees reports whether digits are a rounding of v.
func agrees(digits string, printed, v float64) bool {
	mantissa, exponent, _ := strings.Cut(digits, "e")
	_, decimals, _ := strings.Cut(mantissa, ".")
	ulp := math.Pow10(-len(decimals))
	if exponent != "" {
		e, _ := strconv.Atoi(exponent)
		ulp *= math.Pow10(e)
	}
	if decimals == "" && exponent == "" && v != math.Trunc(v) && printed < 1000 {
		ulp = 1 // %.3g of a number
	}
	return math.Abs(printed-v) <= 0.5001*ulp
}

var number = regexp.MustCompile(`[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?`)
