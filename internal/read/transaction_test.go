package read

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// TestATransactionHasReadWhatItsCursorWalkedOver moves cursors over the keys b, d and f.
func TestATransactionHasReadWhatItsCursorWalkedOver(t *testing.T) {
	r := newReader(t)
	for i, k := range []string{"b", "d", "f"} {
		r.tree.Load().Mem.Add([]byte(k), r.Hash([]byte(k)).Mixed, ikey.Seq(i+1), ikey.Set, nil)
	}
	r.tree.Publish(3)
	const end = "end" // of all keys
	for _, tt := range []struct {
		lower, upper string
		moves        []string
		want         []string
	}{
		{"", end, []string{"first", "next"}, []string{"-d\x00"}},
		{"", end, []string{"first", "next", "next", "next"}, []string{"-end"}},
		{"", end, []string{"last", "prev"}, []string{"d-end"}},
		{"", end, []string{"last", "prev", "prev", "prev"}, []string{"-end"}},
		{"", end, []string{"seek c"}, []string{"c-d\x00"}},
		{"", end, []string{"seek z"}, []string{"z-end"}},
		{"", end, []string{"below e"}, []string{"d-e"}},
		{"", end, []string{"below a"}, []string{"-a"}},
		{"", end, []string{"first", "next", "prev"}, []string{"-d\x00", "b-d"}},
		{"", end, []string{"last", "prev", "next"}, []string{"d-end", "d-f\x00"}},
		{"c", "f", []string{"first", "next"}, []string{"c-f"}},
		{"c", "f", []string{"last"}, []string{"d-f"}},
		{"c", "f", []string{"last", "prev"}, []string{"c-f"}},
	} {
		var got []string
		over := &Writes{Walked: func(lo, hi []byte) {
			if hi == nil {
				hi = []byte(end)
			}
			got = append(got, fmt.Sprintf("%s-%s", lo, hi))
		}}
		upper := []byte(tt.upper)
		if tt.upper == end {
			upper = nil
		}
		c, err := r.Open([]byte(tt.lower), upper, true, Newest, over)
		must(t, err)
		for _, m := range tt.moves {
			switch m {
			case "first":
				c.First()
			case "last":
				c.Last()
			case "next":
				c.Next()
			case "prev":
				c.Prev()
			default:
				if key := []byte(m[len(m)-1:]); m[0] == 's' {
					c.SeekGE(key)
				} else {
					c.SeekLT(key)
				}
			}
		}
		must(t, c.Close())
		if !slices.Equal(got, tt.want) {
			t.Errorf("[%s, %s): %q walk over %q, want %q", tt.lower, tt.upper, tt.moves, got, tt.want)
		}
	}
}
