package merge

import (
	"errors"
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

func TestConcatReportsErrorsOfClosing(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	r := parseRun(t, "a@1:x | b@1:y", func(bool, int) {})
	r.tables[0].badEnd, r.tables[1].badEnd = one, two
	c := NewConcat(r)
	if got := run(t, c, "first, next"); got != "a@1:x b@1:y" {
		t.Errorf("got %s: an error of closing must not stop the run", got)
	}
	if err := c.Close(); !errors.Is(err, one) || !errors.Is(err, two) {
		t.Errorf("Close = %v, want one and two", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("the second Close = %v, want nil", err)
	}
}

// A table's Close may repeat the error that stopped it, which Err has returned.
func TestConcatCloseDoesNotRepeatErr(t *testing.T) {
	other := errors.New("other")
	for _, test := range []struct {
		name   string
		badEnd [2]error
		moves  string
		want   error
	}{
		{"the error that stopped the run", [2]error{errBroken}, "first, next", nil},
		{"the error that stopped the run, which then went on elsewhere", [2]error{errBroken}, "first, next, last", nil},
		{"another error", [2]error{other}, "first, next, last", other},
		{"an error that Err did not return", [2]error{errBroken}, "first, last", errBroken},
		{"an error that Err returned for another table", [2]error{nil, errBroken}, "first, next, last", errBroken},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := parseRun(t, "a@1:x ! | b@1:y", func(bool, int) {})
			r.tables[0].badEnd, r.tables[1].badEnd = test.badEnd[0], test.badEnd[1]
			c := NewConcat(r)
			run(t, c, test.moves)
			if err := c.Close(); !errors.Is(err, test.want) {
				t.Errorf("Close = %v, want %v", err, test.want)
			}
		})
	}
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
