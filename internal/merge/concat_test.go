package merge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

func TestConcat(t *testing.T) {
	testkit.Script(t, "testdata/concat.txt", func(t *testing.T, input string) string {
		tables, moves, _ := strings.Cut(input, "\n")
		var opened []string
		c := NewConcat(parseRun(t, tables, func(open bool, i int) {
			opened = append(opened, fmt.Sprintf("%c%d", map[bool]byte{true: '+', false: '-'}[open], i))
		}))
		seen := run(t, c, moves)
		must(t, c.Close())
		if c.Next() || c.Prev() || c.First() || c.Last() ||
			c.SeekGE(parseKey(t, "a@1")) || c.SeekLT(parseKey(t, "z@1")) {
			t.Error("a closed run moves")
		}
		return seen + "\n" + strings.Join(opened, " ")
	})
}

func TestAConcatMayBeReset(t *testing.T) {
	var c Concat
	if c.First() || c.Err() != nil || c.Close() != nil {
		t.Error("a zero Concat has versions or errors")
	}
	for _, tables := range []string{"a@1:x | b@1:y", "c@1:z !", "d@1:w"} {
		r := parseRun(t, tables, func(bool, int) {})
		c.Reset(r)
		if got, want := run(t, &c, "first"), r.tables[0].entries[0].String(); got != want {
			t.Errorf("%s: got %s, want %s", tables, got, want)
		}
		run(t, &c, "next")
		must(t, c.Close())
		if r.open >= 0 {
			t.Errorf("%s: table %d is still open", tables, r.open)
		}
	}
}
