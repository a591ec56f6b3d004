package merge

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A list is a source in memory that checks that its user keeps to the grammar of Source. At an entry with the user key
// "!" it fails.
type list struct {
	entries []entry
	broken  func() bool // if set, called at each move: it reports whether the move fails

	i      int
	ok     bool // result of the last move
	err    error
	key    []byte // returned by Key, and overwritten by the next move
	closed int
}

type entry struct {
	key   ikey.Key
	value string
}

func (e entry) fails() bool { return string(e.key.User) == "!" }

func (e entry) String() string {
	return fmt.Sprintf("%s@%d:%s", e.key.User, e.key.Trailer.Seq(), e.value)
}

var (
	errBroken = errors.New("broken")
	errOpen   = errors.New("cannot open")
)

// at moves to entry i, if it exists.
func (l *list) at(i int) bool {
	for j := range l.key {
		l.key[j] = '#'
	}
	l.i, l.ok, l.err = i, false, nil
	if l.closed > 0 {
		panic("merge: broken logic: a closed source is moved")
	}
	if l.broken != nil && l.broken() {
		l.err = errBroken
		return false
	}
	if i < 0 || i >= len(l.entries) {
		return false
	}
	if l.entries[i].fails() {
		l.err = errBroken
		return false
	}
	l.ok, l.key = true, append(l.key[:0], l.entries[i].key.User...)
	return true
}

func (l *list) step(by int) bool {
	if !l.ok {
		panic("merge: broken logic: a step from nowhere")
	}
	return l.at(l.i + by)
}

func (l *list) First() bool { return l.at(0) }
func (l *list) Last() bool  { return l.at(len(l.entries) - 1) }
func (l *list) Next() bool  { return l.step(+1) }
func (l *list) Prev() bool  { return l.step(-1) }

func (l *list) SeekGE(k ikey.Key) bool {
	i := 0
	for i < len(l.entries) && !l.entries[i].fails() && ikey.Compare(l.entries[i].key, k) < 0 {
		i++
	}
	return l.at(i)
}

func (l *list) SeekLT(k ikey.Key) bool {
	i := len(l.entries)
	for i > 0 && !l.entries[i-1].fails() && ikey.Compare(l.entries[i-1].key, k) >= 0 {
		i--
	}
	return l.at(i - 1)
}

func (l *list) Key() ikey.Key { return ikey.Key{User: l.key, Trailer: l.entries[l.i].key.Trailer} }
func (l *list) Value() []byte { return []byte(l.entries[l.i].value) }
func (l *list) Err() error    { return l.err }
func (l *list) Close() error  { l.closed++; return l.err }

// A table is a list with bounds.
type table struct {
	list
	bounds Bounds
	opens  func() error // if set, called at each Open
}

// A tableRun is a run of tables that logs which it opens and closes.
type tableRun struct {
	tables []*table
	open   int // index of the open table, or -1
	log    func(opened bool, i int)
}

func (r *tableRun) Len() int            { return len(r.tables) }
func (r *tableRun) Bounds(i int) Bounds { return r.tables[i].bounds }

func (r *tableRun) Find(user []byte) int {
	return sort.Search(len(r.tables), func(i int) bool {
		b := r.tables[i].bounds
		c := bytes.Compare(b.Hi, user)
		return b.Hi == nil || c > 0 || c == 0 && !b.Exclusive
	})
}

func (r *tableRun) Open(i int) (Source, error) {
	t := r.tables[i]
	if r.open >= 0 {
		panic("merge: broken logic: two open tables")
	}
	if t.opens != nil {
		if err := t.opens(); err != nil {
			return nil, err
		}
	}
	r.open, t.closed = i, 0
	r.log(true, i)
	return &openTable{&t.list, r, i}, nil
}

type openTable struct {
	*list
	run *tableRun
	i   int
}

func (o *openTable) Close() error {
	o.run.open = -1
	o.run.log(false, o.i)
	return o.list.Close()
}

// parseKey parses "user@seq".
func parseKey(t *testing.T, s string) ikey.Key {
	t.Helper()
	user, seq, _ := strings.Cut(s, "@")
	n, err := strconv.ParseUint(seq, 10, 56)
	must(t, err)
	return ikey.Key{User: []byte(user), Trailer: ikey.MakeTrailer(ikey.Seq(n), ikey.Set)}
}

// parse parses "a@3:x b@2:y !": entries with values, and a failure.
func parse(t *testing.T, s string) []entry {
	t.Helper()
	var entries []entry
	for f := range strings.FieldsSeq(s) {
		if f == "!" {
			entries = append(entries, entry{key: ikey.Key{User: []byte("!")}})
			continue
		}
		key, value, _ := strings.Cut(f, ":")
		entries = append(entries, entry{parseKey(t, key), value})
	}
	return entries
}

// parseTable parses entries with their bounds in front, "[a,c]", "[a,c)" or "[a,∞)"; without them the entries determine
// the bounds. "?" is a table that cannot be opened.
func parseTable(t *testing.T, s string) *table {
	t.Helper()
	tab := &table{}
	s, unopenable := strings.CutSuffix(strings.TrimSpace(s), "?")
	if unopenable {
		tab.opens = func() error { return errOpen }
	}
	if strings.HasPrefix(s, "[") {
		bounds, rest, _ := strings.Cut(s, " ")
		lo, hi, _ := strings.Cut(bounds[1:], ",")
		tab.bounds = Bounds{Lo: []byte(lo), Hi: []byte(hi[:len(hi)-1]), Exclusive: strings.HasSuffix(hi, ")")}
		if hi == "∞)" {
			tab.bounds.Hi = nil
		}
		tab.entries = parse(t, rest)
		return tab
	}
	tab.entries = parse(t, s)
	keys := slices.DeleteFunc(slices.Clone(tab.entries), entry.fails)
	tab.bounds = Bounds{Lo: keys[0].key.User, Hi: keys[len(keys)-1].key.User}
	return tab
}

// parseRun parses tables separated by bars.
func parseRun(t *testing.T, s string, log func(opened bool, i int)) *tableRun {
	t.Helper()
	r := &tableRun{open: -1, log: log}
	if s != "" {
		for text := range strings.SplitSeq(s, "|") {
			r.tables = append(r.tables, parseTable(t, text))
		}
	}
	return r
}

// run moves a source and returns its position after each move: an entry, "." past an end, or the error.
func run(t *testing.T, s Source, moves string) string {
	t.Helper()
	var out []string
	for move := range strings.SplitSeq(moves, ", ") {
		args := strings.Fields(move)
		key := func(i int) ikey.Key { return parseKey(t, args[i]) }
		ok := false
		switch args[0] {
		case "first":
			ok = s.First()
		case "last":
			ok = s.Last()
		case "next":
			ok = s.Next()
		case "prev":
			ok = s.Prev()
		case "ge":
			ok = s.SeekGE(key(1))
		case "lt":
			ok = s.SeekLT(key(1))
		default:
			m := s.(*Iter) //nolint:errcheck // else the test panics
			switch args[0] {
			case "each-ge", "each-lt":
				var targets []ikey.Key
				for i := range args[1:] {
					targets = append(targets, key(1+i))
				}
				ok = m.SeekEach(targets, args[0] == "each-lt")
			case "skip-ge", "skip-lt":
				after, err := strconv.Atoi(args[1])
				if err != nil {
					t.Fatal(err)
				}
				ok = m.Skip(after, key(2), args[0] == "skip-lt")
			default:
				t.Fatalf("unknown move %q", move)
			}
		}
		switch {
		case ok && s.Err() != nil:
			out = append(out, "an entry and an error")
		case ok:
			out = append(out, entry{s.Key(), string(s.Value())}.String())
		case s.Err() != nil:
			out = append(out, s.Err().Error())
		default:
			out = append(out, ".")
		}
	}
	return strings.Join(out, " ")
}
