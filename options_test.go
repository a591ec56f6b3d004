package bloomkv

import (
	"fmt"
	"testing"
)

func TestBoundsAreWithinThePrefix(t *testing.T) {
	o := IterOptions{Lower: []byte("b"), Upper: []byte("z"), Prefix: []byte("c")}
	if lo, hi := o.bounds(); fmt.Sprintf("%s %s", lo, hi) != "c d" {
		t.Errorf("bounds = %s %s, want c d", lo, hi)
	}
}

// TestPlansOfTheToolAreThoseOfAStore compares the planner of filterplan.Options with that of a store.
func TestPlansOfTheToolAreThoseOfAStore(t *testing.T) {
	for _, o := range []*Options{
		nil, {FilterFPR: 1}, {FilterFPR: 0.001, FilterKind: FilterRibbon, LevelRatio: 4}, {FilterMemory: 8 << 20},
	} {
		opts := o.withDefaults()
		if got, want := opts.planOptions().Planner(), opts.planner(); got != want {
			t.Errorf("%+v: %+v, want %+v", o, got, want)
		}
	}
}
