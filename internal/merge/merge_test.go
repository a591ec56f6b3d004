package merge

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A list is a source in memory. An entry with the key "!" is where it fails.
type list struct {
	entries []entry
	i       int
	err     error
	closed  int
	badEnd  error // what Close returns
}

type entry struct {
	key   ikey.Key
	value string
}

var errBroken = errors.New("broken")

func (l *list) at(i int) bool {
	l.i, l.err = i, nil
	if i < len(l.entries) && string(l.entries[i].key.User) == "!" {
		l.err = errBroken
	}
	return i < len(l.entries) && l.err == nil
}

func (l *list) First() bool { return l.at(0) }
func (l *list) Next() bool  { return l.at(l.i + 1) }
func (l *list) SeekGE(k ikey.Key) bool {
	return l.at(slices.IndexFunc(append(l.entries, entry{}), func(e entry) bool {
		return e.key.User == nil || string(e.key.User) == "!" || ikey.Compare(e.key, k) >= 0
	}))
}
func (l *list) Key() ikey.Key { return l.entries[l.i].key }
func (l *list) Value() []byte { return []byte(l.entries[l.i].value) }
func (l *list) Err() error    { return l.err }
func (l *list) Close() error  { l.closed++; return l.badEnd }

// place reads "user@seq".
func parsePlace(t *testing.T, s string) ikey.Key {
	t.Helper()
	user, seq, _ := strings.Cut(s, "@")
	n, err := strconv.ParseUint(seq, 10, 56)
	if err != nil {
		t.Fatal(err)
	}
	return ikey.Key{User: []byte(user), Trailer: ikey.MakeTrailer(ikey.Seq(n), ikey.Set)}
}

// parse reads "a@3:x b@2:y !": entries with values, and where the source breaks.
func parse(t *testing.T, s string) *list {
	t.Helper()
	l := &list{}
	for f := range strings.FieldsSeq(s) {
		if f == "!" {
			l.entries = append(l.entries, entry{key: ikey.Key{User: []byte("!")}})
			continue
		}
		place, value, _ := strings.Cut(f, ":")
		l.entries = append(l.entries, entry{parsePlace(t, place), value})
	}
	return l
}

// run moves a source as told and writes down where it stands after each move: an entry, "." at the end, or the error.
func run(t *testing.T, s Source, moves string) string {
	t.Helper()
	var out []string
	for m := range strings.SplitSeq(moves, ", ") {
		ok := false
		switch verb, arg, _ := strings.Cut(m, " "); verb {
		case "first":
			ok = s.First()
		case "next":
			ok = s.Next()
		case "seek":
			ok = s.SeekGE(parsePlace(t, arg))
		default:
			t.Fatalf("unknown move %q", m)
		}
		switch {
		case ok && s.Err() != nil:
			out = append(out, "an entry and an error")
		case ok:
			out = append(out, fmt.Sprintf("%s@%d:%s", s.Key().User, s.Key().Trailer.Seq(), s.Value()))
		case s.Err() != nil:
			out = append(out, s.Err().Error())
		default:
			out = append(out, ".")
		}
	}
	return strings.Join(out, " ")
}

func TestMerge(t *testing.T) {
	for _, test := range []struct {
		name    string
		sources []string
		moves   string
		want    string
	}{
		{"no source is an empty one", nil, "first, next, seek a@1", ". . ."},
		{"one source is itself", []string{"a@1:x b@1:y"}, "first, next, next", "a@1:x b@1:y ."},
		{"an empty source adds nothing", []string{"", "a@1:x", ""}, "first, next, next", "a@1:x . ."},
		{"sources take turns", []string{"a@1:x c@1:x", "b@1:y d@1:y"}, "first, next, next, next, next", "a@1:x b@1:y c@1:x d@1:y ."},
		{
			"one source wins several times",
			[]string{"a@1:x b@1:x c@1:x e@1:x", "d@1:y", "f@1:z"},
			"first, next, next, next, next, next, next", "a@1:x b@1:x c@1:x d@1:y e@1:x f@1:z .",
		},
		{"the newest version of a key comes first", []string{"a@1:old", "a@3:new", "a@2:mid"}, "first, next, next, next", "a@3:new a@2:mid a@1:old ."},
		{"of equals the first argument's comes first", []string{"a@1:x", "a@1:y", "a@1:z"}, "first, next, next, next", "a@1:x a@1:y a@1:z ."},
		{"a seek goes between versions", []string{"a@5:x b@1:x", "a@2:y c@1:y"}, "seek a@4, next, next", "a@2:y b@1:x c@1:y"},
		{"a seek goes back", []string{"a@1:x b@1:x", "c@1:y"}, "seek c@9, seek a@9, next", "c@1:y a@1:x b@1:x"},
		{"a seek beyond all is the end", []string{"a@1:x", "b@1:y"}, "seek c@1, next, first", ". . a@1:x"},
		{"an error at the start stops the merge", []string{"a@1:x", "!"}, "first, next", "broken broken"},
		{"an error later stops it there", []string{"a@1:x c@1:x", "b@1:y !"}, "first, next, next, next", "a@1:x b@1:y broken broken"},
		{"the last source may break too", []string{"a@1:x", "b@1:y !"}, "first, next, next", "a@1:x b@1:y broken"},
		{"a new seek may get past an error", []string{"a@1:x !", "b@1:y"}, "first, next, first", "a@1:x broken a@1:x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var sources []Source
			var lists []*list
			for _, s := range test.sources {
				l := parse(t, s)
				sources, lists = append(sources, l), append(lists, l)
			}
			m := New(sources...)
			if got := run(t, m, test.moves); got != test.want {
				t.Errorf("%s:\ngot  %s\nwant %s", test.moves, got, test.want)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			for i, l := range lists {
				if l.closed != 1 {
					t.Errorf("source %d was closed %d times", i, l.closed)
				}
			}
		})
	}
}

func TestCloseJoinsTheErrorsOfAllSources(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	m := New(&list{badEnd: one}, &list{}, &list{badEnd: two})
	if err := m.Close(); !errors.Is(err, one) || !errors.Is(err, two) {
		t.Errorf("Close = %v, want one and two", err)
	}
	if m.Next() {
		t.Error("a closed merge moves")
	}
}

// The merge against sorting everything, with few keys so that sources often share one.
func TestMergeIsASort(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		sources, all := make([]Source, rng.IntN(9)), []entry{}
		lists := make([]*list, len(sources))
		for i := range sources {
			lists[i] = &list{}
			sources[i] = lists[i]
		}
		n := rng.IntN(200)
		for seq := 0; seq < n && len(lists) > 0; seq++ {
			k := fmt.Appendf(nil, "%02d", rng.IntN(30))
			e := entry{ikey.Key{User: k, Trailer: ikey.MakeTrailer(ikey.Seq(rng.IntN(50)), ikey.Set)}, strconv.Itoa(seq)}
			l := lists[min(rng.IntN(len(lists)), rng.IntN(len(lists)))]
			l.entries = append(l.entries, e)
		}
		byKey := func(a, b entry) int { return ikey.Compare(a.key, b.key) }
		for _, l := range lists {
			slices.SortStableFunc(l.entries, byKey)
			all = append(all, l.entries...)
		}
		slices.SortStableFunc(all, byKey) // the sources' order decides between equals
		m := New(sources...)
		for range 5 {
			var ok bool
			from := 0
			if rng.IntN(2) == 0 {
				ok = m.First()
			} else {
				k := ikey.Search(fmt.Appendf(nil, "%02d", rng.IntN(31)), ikey.Seq(rng.IntN(50)))
				from, _ = slices.BinarySearchFunc(all, k, func(e entry, k ikey.Key) int { return ikey.Compare(e.key, k) })
				ok = m.SeekGE(k)
			}
			for i, e := range all[from:] {
				if !ok || ikey.Compare(m.Key(), e.key) != 0 || string(m.Value()) != e.value {
					t.Fatalf("entry %d of %d: got another than %s@%d:%s", i, len(all), e.key.User, e.key.Trailer.Seq(), e.value)
				}
				ok = m.Next()
			}
			if ok || m.Err() != nil {
				t.Fatalf("after the last: %v, %v", ok, m.Err())
			}
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	for _, bench := range []struct {
		name   string
		k, run int // sources; how often one wins in a row
	}{
		{"2 sources in turns", 2, 1},
		{"2 sources by hundreds", 2, 100},
		{"8 sources in turns", 8, 1},
		{"8 sources by hundreds", 8, 100},
	} {
		b.Run(bench.name, func(b *testing.B) {
			sources := make([]Source, bench.k)
			for i := range sources {
				l := &list{}
				for j := range 4000 {
					n := (j/bench.run*bench.k+i)*bench.run + j%bench.run
					l.entries = append(l.entries, entry{key: ikey.Key{User: fmt.Appendf(nil, "%016d", n)}})
				}
				sources[i] = l
			}
			m, ok := New(sources...), false
			for b.Loop() {
				if ok = ok && m.Next(); !ok {
					ok = m.First()
				}
			}
		})
	}
}
