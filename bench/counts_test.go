package main

import (
	"slices"
	"strings"
	"testing"
)

func TestCountsAreReadAndWritten(t *testing.T) {
	for _, c := range []struct {
		list string
		want []int
		name string
	}{
		{"1M,5M,20M", []int{1_000_000, 5_000_000, 20_000_000}, "1M,5M,20M"},
		{"1000, 10000", []int{1000, 10_000}, "1k,10k"},
		{"1500", []int{1500}, "1500"},
		{"2G,1210M", []int{2_000_000_000, 1_210_000_000}, "2G,1210M"},
		{"2000k,7", []int{2_000_000, 7}, "2M,7"},
	} {
		got := counts{99}
		must(t, got.Set(c.list))
		if !slices.Equal(got, c.want) || got.String() != c.name {
			t.Errorf("%q: %v, as %q; want %v, as %q", c.list, []int(got), got.String(), c.want, c.name)
		}
	}
	for _, list := range []string{
		"", ",", "1M,", "0", "-5", "1.5M", "k", "M5", "3G", "5kk",
		"99999999999999999999", "4294967295G", "1e6",
	} {
		var got counts
		if err := got.Set(list); err == nil || !strings.Contains(err.Error(), "want numbers") {
			t.Errorf("%q: %v as %v", list, err, []int(got))
		}
	}
}
