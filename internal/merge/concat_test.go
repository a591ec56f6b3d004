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
		tables string // one after another, by bars
		moves  string
		want   string
		opened string // in this order; +: opened, -: closed
	}{
		{"a run goes from table to table", "a@1:x b@1:x | c@1:y", "first, next, next, next", "a@1:x b@1:x c@1:y .", "+0 -0 +1 -1"},
		{"nothing is opened before the first move", "a@1:x", "next", ".", ""},
		{"no table", "", "first, seek a@1, next", ". . .", ""},
		{"a seek opens one table", "a@1:x | b@1:y c@1:y | d@1:z", "seek b@9, next", "b@1:y c@1:y", "+1 -1"},
		{"a seek between tables is in the second", "a@1:x | c@1:y", "seek b@1", "c@1:y", "+1 -1"},
		{"a seek in the open table keeps it", "a@1:x b@1:x | c@1:y", "seek b@1, seek a@1, next", "b@1:x a@1:x b@1:x", "+0 -0"},
		{"a seek beyond all opens nothing", "a@1:x", "seek b@1, next", ". .", ""},
		{"a seek behind the last version of a table's last key", "a@5:x | b@1:y", "seek a@4", "b@1:y", "+0 -0 +1 -1"},
		{"a key may go on in the next table", "a@9:x a@8:x | a@7:y a@4:y", "seek a@5, next", "a@4:y .", "+0 -0 +1 -1"},
		{"a table may turn out empty", "a@1:x | | c@1:z", "first, next, next", "a@1:x c@1:z .", "+0 -0 +1 -1 +2 -2"},
		{"an error in a table stops the run", "a@1:x ! | b@1:y", "first, next, next", "a@1:x broken broken", "+0 -0"},
		{"an error at a table's start too", "a@1:x | ! | c@1:y", "first, next, next", "a@1:x broken broken", "+0 -0 +1 -1"},
		{"a table that does not open stops the run", "a@1:x | unopenable@1: | c@1:y", "first, next, next, first", "a@1:x cannot open cannot open a@1:x", "+0 -0 +0 -0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var tables []*list
			if test.tables != "" {
				for s := range strings.SplitSeq(test.tables, "|") {
					tables = append(tables, parse(t, s))
				}
			}
			var opened []string
			c := NewConcat(len(tables), func(user []byte) int {
				for i, l := range tables {
					if n := len(l.entries); n > 0 && string(l.entries[n-1].key.User) >= string(user) {
						return i
					}
				}
				return len(tables)
			}, func(i int) (Source, error) {
				if len(tables[i].entries) > 0 && string(tables[i].entries[0].key.User) == "unopenable" {
					return nil, errors.New("cannot open")
				}
				opened = append(opened, fmt.Sprint("+", i))
				return &watched{Source: tables[i], close: func() error {
					opened = append(opened, fmt.Sprint("-", i))
					return nil
				}}, nil
			})
			if got := run(t, c, test.moves); got != test.want {
				t.Errorf("%s:\ngot  %s\nwant %s", test.moves, got, test.want)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if c.Next() || c.First() {
				t.Error("a closed run moves")
			}
			if got := strings.Join(opened, " "); got != test.opened {
				t.Errorf("opened and closed %s, want %s", got, test.opened)
			}
		})
	}
}

// A watched source says when it is closed.
type watched struct {
	Source
	close func() error
}

func (w *watched) Close() error { return w.close() }

func TestConcatReportsWhatClosingSaid(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	tables := []*list{parse(t, "a@1:x"), parse(t, "b@1:y")}
	tables[0].badEnd, tables[1].badEnd = one, two
	c := NewConcat(2, func([]byte) int { return 0 }, func(i int) (Source, error) { return tables[i], nil })
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

func TestRunsMerge(t *testing.T) {
	run1 := []*list{parse(t, "a@9:x b@9:x"), parse(t, "d@9:x")}
	run2 := []*list{parse(t, "a@1:y"), parse(t, "b@1:y c@1:y e@1:y")}
	open := func(tables []*list) Source {
		return NewConcat(len(tables), func([]byte) int { return 0 }, func(i int) (Source, error) { return tables[i], nil })
	}
	m := New(open(run1), open(run2))
	want := "a@9:x a@1:y b@9:x b@1:y c@1:y d@9:x e@1:y ."
	if got := run(t, m, "first, next, next, next, next, next, next, next"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
