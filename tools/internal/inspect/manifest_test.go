package inspect

import (
	"testing"

	"github.com/bloomkv/bloomkv/internal/manifest"
)

func TestAnEditTellsTheOptionsForFilters(t *testing.T) {
	for _, c := range []struct {
		filters manifest.Filters
		want    string
	}{
		{manifest.Filters{FPR: 0.01, Ratio: 10}, "next file 7, filters of 0.01 wasted reads, auto, level ratio 10"},
		{
			manifest.Filters{FPR: 0.1, Kind: 2, Ratio: 10},
			"next file 7, filters of 0.1 wasted reads, bloom, level ratio 10",
		},
		{
			manifest.Filters{Memory: 65536, Kind: 1, Ratio: 4, Prefix: "sep:\x1b:2"},
			`next file 7, filters in 65,536 bytes, ribbon, level ratio 4, prefix filters by sep:\x1b:2`,
		},
		{
			manifest.Filters{FPR: 1, Kind: 7, Ratio: 10},
			"next file 7, filters of 1 wasted reads, kind 7, level ratio 10",
		},
	} {
		if got := editText(&manifest.Edit{NextFile: 7, Filters: &c.filters}); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
