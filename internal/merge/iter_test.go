package merge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

var must = testkit.Must

// TestMerge has sources that are separated by semicolons: lists, or runs of tables if there are bars or bounds.
func TestMerge(t *testing.T) {
	testkit.Script(t, "testdata/merge.txt", func(t *testing.T, input string) string {
		texts, moves, _ := strings.Cut(input, "\n")
		var sources []Source
		var lists []*list
		var runs []*tableRun
		for text := range strings.SplitSeq(texts, ";") {
			if texts == "" {
				break
			}
			if strings.ContainsAny(text, "|[") {
				r := parseRun(t, text, func(bool, int) {})
				sources, runs = append(sources, NewConcat(r)), append(runs, r)
			} else {
				l := &list{entries: parse(t, text)}
				sources, lists = append(sources, l), append(lists, l)
			}
		}
		m := New(sources...)
		seen := run(t, m, moves)
		must(t, m.Close())
		for i, l := range lists {
			if l.closed != 1 {
				t.Errorf("source %d was closed %d times", i, l.closed)
			}
		}
		for i, r := range runs {
			if r.open >= 0 {
				t.Errorf("table %d of run %d is still open", r.open, i)
			}
		}
		return seen
	})
}

// TestTablesOpenLate checks that a table is opened when the merge has come to its bounds, and not before.
func TestTablesOpenLate(t *testing.T) {
	testkit.Script(t, "testdata/late.txt", func(t *testing.T, input string) string {
		texts, moves, _ := strings.Cut(input, "\n")
		var opened, seen []string
		var sources []Source
		for n, text := range strings.Split(texts, "; ") {
			sources = append(sources, NewConcat(parseRun(t, text, func(open bool, i int) {
				if open {
					opened = append(opened, fmt.Sprintf("%d/%d", n, i))
				}
			})))
		}
		m := New(sources...)
		for move := range strings.SplitSeq(moves, ", ") {
			opened = nil
			got := run(t, m, move)
			if len(opened) > 0 {
				got += " + " + strings.Join(opened, " ")
			}
			seen = append(seen, got)
		}
		must(t, m.Close())
		return strings.Join(seen, ", ")
	})
}

func TestOrderIsTheIndexOfTheSource(t *testing.T) {
	var m Iter
	m.Reset([]Source{
		&list{entries: parse(t, "b@1:x")},
		NewConcat(parseRun(t, "a@1:y | c@1:y", func(bool, int) {})),
		&list{entries: parse(t, "b@1:z")},
	})
	var got []int
	for ok := m.First(); ok; ok = m.Next() {
		got = append(got, m.Order())
	}
	for ok := m.Last(); ok; ok = m.Prev() {
		got = append(got, m.Order())
	}
	if want := "[1 0 2 1 1 2 0 1]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestAClosedMergeDoesNotMove(t *testing.T) {
	one, two := &list{entries: parse(t, "a@1:x")}, &list{entries: parse(t, "b@1:y !")}
	m := New(one, two)
	if got := run(t, m, "first, next, next"); got != "a@1:x b@1:y broken" {
		t.Errorf("got %s", got)
	}
	must(t, m.Close()) // the error was returned by Err
	if m.Next() || m.First() || m.Close() != nil || one.closed != 1 || two.closed != 1 {
		t.Error("a closed merge moves, or closes its sources again")
	}
}

func TestAMergeMayBeReset(t *testing.T) {
	var m Iter
	if m.First() || m.Next() || m.Skip(-1, parseKey(t, "a@1"), false) || m.Err() != nil || m.Close() != nil {
		t.Error("a zero Iter has versions or errors")
	}
	for _, test := range []struct {
		sources []string
		want    string
	}{
		{[]string{"a@1:x", "b@1:y", "c@1:z"}, "a@1:x b@1:y c@1:z ."},
		{[]string{"d@1:x"}, "d@1:x . . ."},
		{nil, ". . . ."},
		{[]string{"a@1:x !", "b@1:y"}, "a@1:x broken broken broken"},
		{[]string{"e@1:x", "f@1:x", "g@1:x", "h@1:x"}, "e@1:x f@1:x g@1:x h@1:x"},
	} {
		var lists []Source
		for _, s := range test.sources {
			lists = append(lists, &list{entries: parse(t, s)})
		}
		m.Reset(lists)
		if m.Next() || m.Err() != nil {
			t.Error("a merge that was Reset has a current version")
		}
		if got := run(t, &m, "first, next, next, next"); got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
		must(t, m.Close())
	}
}
