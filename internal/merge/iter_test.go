package merge

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

var must = testkit.Must

func TestMerge(t *testing.T) {
	for _, test := range []struct{ name, sources, moves, want string }{
		{"no source is an empty one", "", "first, next, last, prev, ge a@1, lt a@1", ". . . . . ."},
		{"one source is itself", "a@1:x b@1:y", "first, next, prev, last, next", "a@1:x b@1:y a@1:x b@1:y ."},
		{"an empty source adds nothing", "; a@1:x; ", "first, next, next, last, prev", "a@1:x . . a@1:x ."},
		{
			"sources take turns", "a@1:x c@1:x; b@1:y d@1:y", "first, next, next, next, next",
			"a@1:x b@1:y c@1:x d@1:y .",
		},
		{"backward too", "a@1:x c@1:x; b@1:y d@1:y", "last, prev, prev, prev, prev", "d@1:y c@1:x b@1:y a@1:x ."},
		{
			"one source wins several times", "a@1:x b@1:x c@1:x e@1:x; d@1:y; f@1:z",
			"first, next, next, next, next, next, next", "a@1:x b@1:x c@1:x d@1:y e@1:x f@1:z .",
		},
		{
			"the newest version of a key comes first", "a@1:old; a@3:new; a@2:mid", "first, next, next, next",
			"a@3:new a@2:mid a@1:old .",
		},
		{"and last backward", "a@1:old; a@3:new; a@2:mid", "last, prev, prev, prev", "a@1:old a@2:mid a@3:new ."},
		{
			"of equals the first argument's comes first", "a@1:x; a@1:y; a@1:z", "first, next, next, next",
			"a@1:x a@1:y a@1:z .",
		},
		{"and last backward of equals", "a@1:x; a@1:y; a@1:z", "last, prev, prev, prev", "a@1:z a@1:y a@1:x ."},
		{"a seek between versions", "a@5:x b@1:x; a@2:y c@1:y", "ge a@4, next, next", "a@2:y b@1:x c@1:y"},
		{"a seek back", "a@5:x b@1:x; a@2:y c@1:y", "lt a@1, prev, prev", "a@2:y a@5:x ."},
		{"a seek back and forth", "a@1:x b@1:x; c@1:y", "ge c@9, ge a@9, next", "c@1:y a@1:x b@1:x"},
		{"a seek beyond all is the end", "a@1:x; b@1:y", "ge c@1, next, prev, first", ". . . a@1:x"},
		{"a seek back before all is the start", "b@1:x; c@1:y", "lt a@1, prev, next, last", ". . . c@1:y"},
		{
			"each source may have a target of its own", "a@1:x b@1:x d@1:x; a@1:y c@1:y e@1:y",
			"each-ge a@1 d@1, next, next, next, next", "a@1:x b@1:x d@1:x e@1:y .",
		},
		{
			"and backward", "a@1:x b@1:x d@1:x; a@1:y c@1:y e@1:y", "each-lt d@1 c@1, prev, prev, prev",
			"b@1:x a@1:y a@1:x .",
		},
	} {
		t.Run(test.name, func(t *testing.T) { scripted(t, test.sources, test.moves, test.want) })
	}
}

func TestAMergeTurns(t *testing.T) {
	for _, test := range []struct{ name, sources, moves, want string }{
		{
			"within one source", "a@1:x b@1:x; d@1:y", "first, next, prev, next, next, prev",
			"a@1:x b@1:x a@1:x b@1:x d@1:y b@1:x",
		},
		{
			"between two", "a@1:x c@1:x; b@1:y d@1:y", "first, next, prev, next, next, prev",
			"a@1:x b@1:y a@1:x b@1:y c@1:x b@1:y",
		},
		{
			"among versions of a key", "a@9:x a@5:x; a@7:y a@3:y", "first, next, next, prev, prev, next, next, next",
			"a@9:x a@7:y a@5:x a@7:y a@9:x a@7:y a@5:x a@3:y",
		},
		{
			"among equals", "a@1:x; a@1:y; a@1:z", "first, next, prev, next, next, prev, prev",
			"a@1:x a@1:y a@1:x a@1:y a@1:z a@1:y a@1:x",
		},
		{"among equals from the last on", "a@1:x; a@1:y; a@1:z", "last, next", "a@1:z ."},
		{
			"with a source that is at its end", "a@1:x; b@1:y c@1:y", "first, next, next, prev, prev, prev",
			"a@1:x b@1:y c@1:y b@1:y a@1:x .",
		},
		{
			"with a source that is at its start", "c@1:x; a@1:y b@1:y", "last, prev, prev, next, next, next",
			"c@1:x b@1:y a@1:y b@1:y c@1:x .",
		},
		{"with a source whose seek went past its end", "a@1:x; b@1:y c@1:y", "ge b@1, prev, prev", "b@1:y a@1:x ."},
		{"with an empty source", "; a@1:y b@1:y", "last, prev, next, prev", "b@1:y a@1:y b@1:y a@1:y"},
		{
			"to its end and no further", "a@1:x; b@1:y", "first, prev, next, first, last, next, prev",
			"a@1:x . . a@1:x b@1:y . .",
		},
		{
			"with a key of sequence 0", "a@0:x; a@0:y; a@0:z", "ge a@0, next, prev, next, next, prev",
			"a@0:x a@0:y a@0:x a@0:y a@0:z a@0:y",
		},
		{
			"after a seek of each source, over what was left out", "a@1:x d@1:x; a@1:y b@1:y c@1:y e@1:y",
			"each-ge a@1 e@1, prev, each-ge d@1 a@1, prev, prev", "a@1:x . a@1:y a@1:x .",
		},
		{
			"and behind it", "a@1:x d@1:x; a@1:y b@1:y c@1:y e@1:y", "each-ge a@1 e@1, next, prev, prev",
			"a@1:x d@1:x c@1:y b@1:y",
		},
		{
			"and forward", "a@1:x d@1:x; b@1:y c@1:y e@1:y", "each-lt d@1 b@1, next, next, next",
			"a@1:x b@1:y c@1:y d@1:x",
		},
	} {
		t.Run(test.name, func(t *testing.T) { scripted(t, test.sources, test.moves, test.want) })
	}
}

func TestSkip(t *testing.T) {
	for _, test := range []struct{ name, sources, moves, want string }{
		{
			"the current version may stay", "a@1:x d@1:x; b@1:y e@1:y", "first, skip-ge 0 c@1, next, next",
			"a@1:x a@1:x d@1:x e@1:y",
		},
		{"or be skipped", "c@1:x; a@1:y b@1:y e@1:y", "first, skip-ge 0 d@1, next, next", "a@1:y c@1:x e@1:y ."},
		{
			"with those before it", "a@1:x b@1:x g@1:x; a@1:y c@1:y f@1:y; d@1:z", "first, skip-ge -1 e@1, next",
			"a@1:x f@1:y g@1:x",
		},
		{
			"a source that is beyond stays where it is", "a@1:x b@1:x; d@1:y", "first, skip-ge -1 b@1, next",
			"a@1:x b@1:x d@1:y",
		},
		{"nothing is left", "a@1:x b@1:x; a@1:y", "first, skip-ge -1 c@1, next, skip-ge -1 d@1", "a@1:x . . ."},
		{"some are left", "a@1:x b@1:x; a@1:y", "first, skip-ge 0 c@1, next, next", "a@1:x a@1:x b@1:x ."},
		{"a skip to where it is does nothing", "a@1:x; b@1:y", "first, skip-ge -1 a@1, next", "a@1:x a@1:x b@1:y"},
		{
			"a skip to a position among the versions of a key", "a@9:x a@2:x; a@7:y a@3:y",
			"first, skip-ge 0 a@5, next", "a@9:x a@9:x a@3:y",
		},
		{
			"backward the current version may stay", "a@1:x d@1:x; b@1:y c@1:y", "last, skip-lt 0 b@1, prev, prev",
			"d@1:x d@1:x a@1:x .",
		},
		{
			"or be skipped backward", "b@1:x; a@1:y c@1:y d@1:y", "last, skip-lt 0 c@1, prev, prev",
			"d@1:y b@1:x a@1:y .",
		},
		{"nothing is left backward", "b@1:x c@1:x; b@1:y", "last, skip-lt -1 b@1, prev", "c@1:x . ."},
		{
			"a skip to the version behind the current one keeps it", "a@2:x; b@1:y", "last, skip-lt -1 b@0, prev",
			"b@1:y b@1:y a@2:x",
		},
		{
			"a skip the other way turns", "a@1:x d@1:x; b@1:y c@1:y e@1:y", "last, prev, skip-ge 0 e@1, next, prev",
			"e@1:y d@1:x d@1:x e@1:y d@1:x",
		},
		{
			"a skip back turns too", "a@1:x d@1:x; b@1:y c@1:y e@1:y", "ge d@1, skip-lt 0 c@1, prev, prev",
			"d@1:x d@1:x b@1:y a@1:x",
		},
		{
			"what was skipped is there on the way back", "a@1:x d@1:x; b@1:y c@1:y e@1:y",
			"first, skip-ge 0 e@1, next, prev, prev", "a@1:x a@1:x d@1:x c@1:y b@1:y",
		},
		{
			"but not what is on the other side", "a@1:x d@1:x; b@1:y c@1:y e@1:y", "first, skip-ge 0 e@1, prev",
			"a@1:x a@1:x .",
		},
		{
			"what was skipped backward is there on the way forward", "c@1:x; a@1:y b@1:y d@1:y",
			"lt c@0, skip-lt 0 b@1, prev, next, next, next", "c@1:x c@1:x a@1:y b@1:y c@1:x d@1:y",
		},
		{
			"but not what is behind", "c@1:x; a@1:y b@1:y d@1:y", "lt c@0, skip-lt 0 b@1, next, next",
			"c@1:x c@1:x d@1:y .",
		},
	} {
		t.Run(test.name, func(t *testing.T) { scripted(t, test.sources, test.moves, test.want) })
	}
}

func TestAnErrorStopsAMerge(t *testing.T) {
	for _, test := range []struct{ name, sources, moves, want string }{
		{"at the start", "a@1:x; !", "first, next, prev", "broken broken broken"},
		{"later", "a@1:x c@1:x; b@1:y !", "first, next, next, next", "a@1:x b@1:y broken broken"},
		{"on the way back", "a@1:x c@1:x; ! b@1:y", "last, prev, prev, prev", "c@1:x b@1:y broken broken"},
		{"in the source that is left", "a@1:x; b@1:y !", "first, next, next", "a@1:x b@1:y broken"},
		{"where the merge turns", "b@1:x; ! c@1:y", "ge b@1, prev, next", "broken broken broken"},
		{
			"in the step after the turn", "! b@1:x; a@1:y c@1:y", "first, ge b@1, prev, next",
			"broken broken broken broken",
		},
		{"in a skip", "a@1:x c@1:x; b@1:y !", "ge a@1, skip-ge 0 c@1, next", "a@1:x broken broken"},
		{
			"until an absolute move gets past it", "a@1:x !; b@1:y", "first, next, next, first",
			"a@1:x broken broken a@1:x",
		},
		{"in a table", "a@1:x ! | d@1:x; b@1:y", "first, next, last, prev, prev", "a@1:x broken d@1:x b@1:y broken"},
		{
			"where a table does not open, once it is reached", "a@1:x | [c,d] ?; b@1:y e@1:y",
			"first, next, next, next, last, prev", "a@1:x b@1:y cannot open cannot open e@1:y cannot open",
		},
	} {
		t.Run(test.name, func(t *testing.T) { scripted(t, test.sources, test.moves, test.want) })
	}
}

// A table is opened when the merge has come to its bounds, and not before. The tables opened are given as source/table.
func TestTablesOpenLate(t *testing.T) {
	for _, test := range []struct{ name, sources, moves string }{ // moves with results and the tables opened
		{
			"on the way forward", "a@1:x | c@1:x | e@1:x; b@1:y d@1:y | f@1:y",
			"first = a@1:x + 0/0, next = b@1:y + 1/0, next = c@1:x + 0/1, next = d@1:y, next = e@1:x + 0/2, " +
				"next = f@1:y + 1/1, next = .",
		},
		{
			"on the way back", "a@1:x | c@1:x | e@1:x; b@1:y d@1:y | f@1:y",
			"last = f@1:y + 1/1, prev = e@1:x + 0/2, prev = d@1:y + 1/0, prev = c@1:x + 0/1, prev = b@1:y, " +
				"prev = a@1:x + 0/0, prev = .",
		},
		{
			"a seek opens the tables around its target", "a@1:x c@1:x | g@1:x; b@1:y d@1:y; f@1:z",
			"ge e@1 = f@1:z + 2/0, ge c@9 = c@1:x + 0/0 1/0, next = d@1:y",
		},
		{"a seek back too", "a@1:x c@1:x | g@1:x; b@1:y d@1:y | f@1:y", "lt e@1 = d@1:y + 1/0, prev = c@1:x + 0/0"},
		{
			"a table that only bounds reach is opened and left", "[a,e] d@1:x | f@1:x; c@1:y",
			"first = c@1:y + 0/0 1/0, next = d@1:x, next = f@1:x + 0/1",
		},
		{
			"a table without versions is passed over", "a@1:x | [c,d) | f@1:x; b@1:y e@1:y",
			"first = a@1:x + 0/0, next = b@1:y + 1/0, next = e@1:y + 0/1, next = f@1:x + 0/2, prev = e@1:y, " +
				"prev = b@1:y + 0/1, prev = a@1:x + 0/0",
		},
		{
			"the merge turns around in front of a table", "a@1:x | d@1:x; b@1:y c@1:y",
			"ge b@1 = b@1:y + 1/0, prev = a@1:x + 0/0, next = b@1:y, next = c@1:y, next = d@1:x + 0/1, " +
				"prev = c@1:y, next = d@1:x",
		},
		{
			"and again and again", "a@1:x | e@1:x; b@1:y c@1:y d@1:y",
			"ge c@1 = c@1:y + 1/0, prev = b@1:y, next = c@1:y, next = d@1:y, prev = c@1:y, prev = b@1:y, " +
				"prev = a@1:x + 0/0",
		},
		{
			"with the position before the table between two others", "a@1:x | c@1:x | g@1:x; e@1:y f@1:y",
			"ge e@1 = e@1:y + 1/0, prev = c@1:x + 0/1, prev = a@1:x + 0/0",
		},
		{
			"a skip passes tables", "a@1:x h@1:x; b@1:y | d@1:y | f@1:y | i@1:y",
			"first = a@1:x + 0/0, skip-ge 0 g@1 = a@1:x, next = h@1:x, next = i@1:y + 1/3, " +
				"skip-lt 0 c@1 = h@1:x, prev = b@1:y + 1/0",
		},
		{
			"a skip ends in a table", "a@1:x h@1:x; b@1:y | d@1:y f@1:y",
			"first = a@1:x + 0/0, skip-ge 0 e@1 = a@1:x + 1/1, next = f@1:y",
		},
		{
			"an exclusive bound is not reached by its key", "[a,c) b@1:x; c@1:y d@1:y",
			"last = d@1:y + 1/0, prev = c@1:y, prev = b@1:x + 0/0",
		},
		{
			"an inclusive one is reached by its oldest version", "[a,c] b@1:x; c@0:y d@1:y",
			"last = d@1:y + 1/0, prev = c@0:y + 0/0, prev = b@1:x",
		},
		{"an infinite one is always reached", "[a,∞) b@1:x; c@1:y", "last = c@1:y + 0/0 1/0, prev = b@1:x"},
		{"one source is lazy too", "a@1:x | b@1:x", "first = a@1:x + 0/0, next = b@1:x + 0/1, prev = a@1:x + 0/0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var opened []string
			var sources []Source
			for n, text := range strings.Split(test.sources, "; ") {
				sources = append(sources, NewConcat(parseRun(t, text, func(open bool, i int) {
					if open {
						opened = append(opened, fmt.Sprintf("%d/%d", n, i))
					}
				})))
			}
			var m Iter
			m.Reset(sources)
			for step := range strings.SplitSeq(test.moves, ", ") {
				opened = nil
				move, want, _ := strings.Cut(step, " = ")
				got := run(t, &m, move)
				if len(opened) > 0 {
					got += " + " + strings.Join(opened, " ")
				}
				if got != want {
					t.Fatalf("%s: got %s, want %s", move, got, want)
				}
			}
			must(t, m.Close())
		})
	}
}

// scripted runs moves over sources, separated by semicolons: lists, or runs of tables if there are bars or bounds.
// Without text there are no sources.
func scripted(t *testing.T, texts, moves, want string) {
	t.Helper()
	var sources []Source
	var lists []*list
	var runs []*tableRun
	for text := range strings.SplitSeq(texts, "; ") {
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
	if got := run(t, m, moves); got != want {
		t.Errorf("%s:\ngot  %s\nwant %s", moves, got, want)
	}
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

func TestCloseJoinsTheErrorsOfAllSources(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	m := New(&list{badEnd: one}, &list{}, &list{badEnd: two})
	if err := m.Close(); !errors.Is(err, one) || !errors.Is(err, two) {
		t.Errorf("Close = %v, want one and two", err)
	}
	if m.Next() || m.First() || m.Close() != nil {
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
