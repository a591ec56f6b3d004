package tree

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/manifest"
)

// runOf returns a run whose tables have the given bounds, taken in pairs.
func runOf(bounds ...string) *Run {
	var tables []*Table
	for i := 0; i < len(bounds); i += 2 {
		meta := &manifest.Table{Smallest: []byte(bounds[i]), Largest: []byte(bounds[i+1])}
		tables = append(tables, &Table{Meta: meta})
	}
	return NewRun(1, 1, tables)
}

func TestARunFindsTheOneTableWhoseBoundsHoldAKey(t *testing.T) {
	r := runOf("", "", "b", "b\x00", "common/00000000aa", "common/00000000ab", "common/00000000ac", "common/1",
		"\xff", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")
	for key, want := range map[string]int{
		"": 0, "\x00": -1, "a": -1, "b": 1, "b\x00": 1, "b\x00\x00": -1, "common/00000000a": -1, "common/00000000aa": 2,
		"common/00000000aaz": 2, "common/00000000ab": 2, "common/00000000ab\x00": -1, "common/00000000ac": 3,
		"common/0": -1, "common/00000001": 3,
		"common/1": 3, "common/2": -1, "\xff": 4, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00": -1,
	} {
		if got := r.Find([]byte(key)); got != want {
			t.Errorf("find(%q) = table %d, want %d", key, got, want)
		}
	}
}

func TestARunHasTheSumsOfItsTables(t *testing.T) {
	r := NewRun(1, 1, []*Table{
		{Meta: &manifest.Table{Entries: 2, FilterLen: 10, FilterRate: 0.1}},
		{Meta: &manifest.Table{Entries: 3, FilterLen: 20, FilterRate: 0.3}},
		{Meta: &manifest.Table{RangeDeletes: 1, FilterRate: 1}},
		{Meta: &manifest.Table{Entries: 1, FilterRate: 0.2}},
	})
	if r.Entries != 6 || r.FilterBytes != 30 || r.WorstRate != 0.3 || !r.RangeDels {
		t.Errorf("got %d entries, filters of %d bytes, rate %v, range tombstones %v; want 6, 30, 0.3 and true",
			r.Entries, r.FilterBytes, r.WorstRate, r.RangeDels)
	}
}

func TestSearchingARunAgreesWithComparingAllBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		// Keys share long prefixes, are prefixes of each other, and end in zeros: heads cannot distinguish these cases.
		key := func() string {
			k := []byte("prefix/"[:rng.IntN(8)])
			for range rng.IntN(12) {
				k = append(k, "\x00\x00a\xff"[rng.IntN(4)])
			}
			return string(k)
		}
		set := map[string]bool{}
		for range 2 * (1 + rng.IntN(40)) {
			set[key()] = true
		}
		var keys []string
		for k := range set {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		if len(keys) < 2 {
			continue
		}
		r := runOf(keys[:len(keys)&^1]...)
		for range 200 {
			k := []byte(key())
			want := slices.IndexFunc(r.Tables, func(t *Table) bool { return bytes.Compare(t.Meta.Largest, k) >= 0 })
			if want < 0 {
				want = len(r.Tables)
			}
			if got := r.Search(k); got != want {
				t.Fatalf("search(%q) = %d, want %d in %q", k, got, want, keys)
			}
		}
	}
}
