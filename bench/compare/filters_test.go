package main

import (
	"strconv"
	"strings"
	"testing"
)

// TestFiltersOfAllEnginesAreMeasured checks that every engine's filter is measured at every size, and that this store's
// rate is near the one in its table.
func TestFiltersOfAllEnginesAreMeasured(t *testing.T) {
	var out strings.Builder
	must(t, compareFilters(&out, 20_000))
	rows := 0
	for line := range strings.Lines(out.String()) {
		cells := strings.Fields(line)
		if len(cells) < 9 || cells[0] != "10" && cells[0] != "16" && cells[0] != "20" {
			continue
		}
		rows++
		if cells[0] != "10" || cells[1] != "bloomkv" {
			continue
		}
		for _, cell := range cells[3:8] {
			if rate, err := strconv.ParseFloat(cell, 64); err != nil || rate < 0.6 || rate > 1.3 {
				t.Errorf("%q per cent at ten bits, want about 0.97: %s", cell, line)
			}
		}
	}
	if want := 3 * len(filterMakers); rows != want {
		t.Errorf("%d rows, want %d:\n%s", rows, want, out.String())
	}
}
