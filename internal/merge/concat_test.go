package merge

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestConcat(t *testing.T) {
	for _, test := range []struct {
		name   string
		tables string
		moves  string
		want   string
		opened string // in this order; + is opened, - is closed
	}{
		{
			"next moves from table to table",
			"a@1:x b@1:x | c@1:y", "first, next, next, next", "a@1:x b@1:x c@1:y .", "+0 -0 +1 -1",
		},
		{"and back", "a@1:x b@1:x | c@1:y", "last, prev, prev, prev", "c@1:y b@1:x a@1:x .", "+1 -1 +0 -0"},
		{
			"it turns between tables",
			"a@1:x | b@1:y", "first, next, prev, next, next", "a@1:x b@1:y a@1:x b@1:y .", "+0 -0 +1 -1 +0 -0 +1 -1",
		},
		{"nothing is opened before the first move", "a@1:x", "next, prev", ". .", ""},
		{"no table", "", "first, last, ge a@1, lt a@1, next, prev", ". . . . . .", ""},
		{"a seek opens one table", "a@1:x | b@1:y c@1:y | d@1:z", "ge b@9, next", "b@1:y c@1:y", "+1 -1"},
		{"a seek back opens one table", "a@1:x | b@1:y c@1:y | d@1:z", "lt c@0, prev", "c@1:y b@1:y", "+1 -1"},
		{"a seek between tables is in the second", "a@1:x | c@1:y", "ge b@1", "c@1:y", "+1 -1"},
		{"a seek back between tables is in the first", "a@1:x | c@1:y", "lt b@1", "a@1:x", "+0 -0"},
		{
			"a seek in the open table keeps it",
			"a@1:x b@1:x | c@1:y", "ge b@1, ge a@1, lt b@1, next", "b@1:x a@1:x a@1:x b@1:x", "+0 -0",
		},
		{"a seek beyond all opens nothing", "a@1:x", "ge b@1, next", ". .", ""},
		{"a seek back before all opens nothing", "b@1:x", "lt a@1, prev", ". .", ""},
		{"a seek behind the last version of a table's last key", "a@5:x | b@1:y", "ge a@4", "b@1:y", "+0 -0 +1 -1"},
		{
			"a seek back before the first version of a table's first key",
			"a@5:x | b@3:y", "lt b@4", "a@5:x", "+1 -1 +0 -0",
		},
		{
			"bounds may be wider than what is between",
			"[a,c] b@1:x | [d,f) e@1:y", "ge a@1, ge c@1, lt d@1, lt f@1", "b@1:x e@1:y b@1:x e@1:y",
			"+0 -0 +1 -1 +0 -0 +1 -1",
		},
		{
			"an exclusive bound is not in the table",
			"[a,c) b@1:x | [c,c] c@1:y", "ge c@9, lt c@9", "c@1:y b@1:x", "+1 -1 +0 -0",
		},
		{"an infinite bound has no end", "[a,∞) b@1:x", "ge z@1, lt z@1, last", ". b@1:x b@1:x", "+0 -0"},
		{
			"a table may have no versions",
			"a@1:x | [b,c) | d@1:z", "first, next, next, prev, prev", "a@1:x d@1:z . . .", "+0 -0 +1 -1 +2 -2",
		},
		{
			"a table may have no versions, backward",
			"a@1:x | [b,c) | d@1:z", "last, prev, prev", "d@1:z a@1:x .", "+2 -2 +1 -1 +0 -0",
		},
		{
			"all tables may have no versions",
			"[a,b) | [c,d) | [e,∞)", "first, last", ". .", "+0 -0 +1 -1 +2 -2 +1 -1 +0 -0",
		},
		{
			"an error in a table stops the run",
			"a@1:x ! | b@1:y", "first, next, next, prev", "a@1:x broken broken broken", "+0 -0",
		},
		{
			"an error on the way back too",
			"a@1:x | ! b@1:y", "last, prev, prev, next", "b@1:y broken broken broken", "+1 -1",
		},
		{
			"an error at a table's start too",
			"a@1:x | [b,b] ! | c@1:y", "first, next, next", "a@1:x broken broken", "+0 -0 +1 -1",
		},
		{
			"an error in a seek too",
			"[a,c] ! b@1:x ! | d@1:y", "ge a@1, next, lt c@1, prev", "broken broken broken broken", "+0 -0",
		},
		{
			"a table that does not open stops the run",
			"a@1:x | [b,b] ? | c@1:z", "first, next, next, last, prev, prev",
			"a@1:x cannot open cannot open c@1:z cannot open cannot open", "+0 -0 +2 -2",
		},
		{
			"a seek into a table that does not open",
			"a@1:x | [b,d] ?", "ge c@1, next, lt c@1, prev, first",
			"cannot open cannot open cannot open cannot open a@1:x", "+0 -0",
		},
		{
			"after an error an absolute move tries again",
			"a@1:x ! | b@1:y", "first, next, first, last", "a@1:x broken a@1:x b@1:y", "+0 -0 +1 -1",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var opened []string
			c := NewConcat(parseRun(t, test.tables, func(open bool, i int) {
				opened = append(opened, fmt.Sprintf("%c%d", map[bool]byte{true: '+', false: '-'}[open], i))
			}))
			if got := run(t, c, test.moves); got != test.want {
				t.Errorf("%s:\ngot  %s\nwant %s", test.moves, got, test.want)
			}
			must(t, c.Close())
			if c.Next() || c.Prev() || c.First() || c.Last() ||
				c.SeekGE(parseKey(t, "a@1")) || c.SeekLT(parseKey(t, "z@1")) {
				t.Error("a closed run moves")
			}
			if got := strings.Join(opened, " "); got != test.opened {
				t.Errorf("opened and closed %s, want %s", got, test.opened)
			}
		})
	}
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
