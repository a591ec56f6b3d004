package manifest

import (
	"slices"
	"strings"
	"testing"
)

// parseBounds parses "a-c", where c is in the range, "a-c)", where it is not, or "a-∞".
func parseBounds(text string) Bounds {
	lo, hi, _ := strings.Cut(text, "-")
	if hi == "∞" {
		return Bounds{Lo: []byte(lo)}
	}
	hi, exclusive := strings.CutSuffix(hi, ")")
	return Bounds{[]byte(lo), []byte(hi), exclusive}
}

func TestUnion(t *testing.T) {
	for _, test := range []struct{ name, a, b, want string }{
		{"two that lie apart", "a-b", "x-y", `["a","y"]`},
		{"one inside the other", "a-z", "c-d)", `["a","z"]`},
		{"the end of the longer one counts", "a-c", "b-d)", `["a","d")`},
		{"at one end the inclusive one is longer", "a-d)", "b-d", `["a","d"]`},
		{"two exclusive ends", "a-d)", "b-d)", `["a","d")`},
		{"one without end", "b-∞", "a-d)", `["a",∞)`},
		{"one without end and an exclusive one", "b-c)", "c-∞", `["b",∞)`},
		{"the empty key", "-", "a-b", `["","b"]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b := parseBounds(test.a), parseBounds(test.b)
			if got := a.Union(b).String(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if got := b.Union(a).String(); got != test.want {
				t.Errorf("the other way round: got %s, want %s", got, test.want)
			}
		})
	}
}

func TestHolds(t *testing.T) {
	for _, test := range []struct {
		b, c string
		want bool
	}{
		{"a-d", "a-d", true},
		{"a-d", "b-c", true},
		{"a-d", "a-d)", true},
		{"a-d)", "a-d", false},
		{"a-d)", "a-d)", true},
		{"a-d)", "a-c", true},
		{"b-d", "a-c", false},
		{"a-c", "b-d", false},
		{"a-∞", "b-z", true},
		{"a-∞", "b-∞", true},
		{"b-∞", "a-∞", false},
		{"a-z", "b-∞", false},
		{"-", "-", true},
	} {
		if got := parseBounds(test.b).Holds(parseBounds(test.c)); got != test.want {
			t.Errorf("%s holds %s: got %v", test.b, test.c, got)
		}
	}
}

// TestTouchingAgreesWithALookAtEachTable compares Touching with a check of each table: two ranges share a key if
// neither ends before the other begins.
func TestTouchingAgreesWithALookAtEachTable(t *testing.T) {
	v := sample(t)
	keys := []string{"", "A", "a", "b", "c", "d", "e", "f", "k", "l", "m", "q", "x", "y", "z", "zz"}
	for _, runs := range v.Levels {
		for _, r := range runs {
			for i, lo := range keys {
				for _, hi := range append(keys[i:], "∞") {
					for _, end := range []string{"", ")"} {
						b := parseBounds(lo + "-" + hi + end)
						if b.Exclusive && lo == hi {
							continue // nothing
						}
						var want []*Table
						for _, u := range r.Tables {
							if !u.EndsBefore(b.Lo) && !b.EndsBefore(u.Smallest) {
								want = append(want, u)
							}
						}
						if got := r.Touching(b); !slices.Equal(got, want) {
							t.Errorf("%s touches %v, want %v", b, got, want)
						}
					}
				}
			}
			if got := r.Touching(Bounds{Lo: []byte("q"), Hi: []byte("b")}); len(got) != 0 {
				t.Errorf("an inverted range touches %v", got)
			}
		}
	}
}

func TestTheBoundsOfATable(t *testing.T) {
	for _, u := range sample(t).Tables() {
		b := u.Bounds()
		for _, key := range []string{"", "a", "c", "d", "f", "m", "x", "y", "z", "zz"} {
			if b.EndsBefore([]byte(key)) != u.EndsBefore([]byte(key)) {
				t.Errorf("%s and %v disagree about %q", b, u, key)
			}
		}
	}
}
