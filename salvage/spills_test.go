package salvage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func newEnv(tb testing.TB) (compaction.Env, *vfstest.Mem) {
	tb.Helper()
	m := vfstest.NewMem()
	if err := m.Mkdir("new"); err != nil {
		tb.Fatal(err)
	}
	return compaction.Env{FS: m, Dir: "new", TableSize: 64 << 10, Numbers: new(compaction.Counter)}, m
}

// drain reads a queue to its end.
func drain(t *testing.T, q *queue) (all []version) {
	t.Helper()
	for q.next() {
		k := q.key()
		all = append(all, version{ikey.Key{User: bytes.Clone(k.User), Trailer: k.Trailer}, bytes.Clone(q.value())})
	}
	if err := errors.Join(q.err, q.close()); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSpillsSortMoreThanFitsInMemory adds versions in any order, some twice, to spills with several limits.
func TestSpillsSortMoreThanFitsInMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var want []version
	for i := range 3000 {
		want = append(want, version{
			ikey.Key{
				User:    fmt.Appendf(nil, "key%d", rng.IntN(500)),
				Trailer: ikey.MakeTrailer(ikey.Seq(i), ikey.Kind(rng.IntN(2))),
			},
			fmt.Appendf(nil, "value %d", i),
		})
	}
	for _, limit := range []int64{1, 5000, 100_000, 1 << 30} {
		env, m := newEnv(t)
		s := &spills{env: env, limit: limit}
		for _, v := range append(slices.Clone(want), want[:10]...) {
			if err := s.add(v.key, v.value); err != nil {
				t.Fatal(err)
			}
		}
		names, err := m.List("new")
		if err != nil || len(names) != len(s.tables) || (len(names) > 1) != (limit < 1<<20) {
			t.Errorf("limit %d: files %d, %v", limit, len(names), err)
		}
		q := &queue{}
		for _, src := range s.sources() {
			q.add(src)
		}
		got := drain(t, q)
		slices.SortFunc(want, func(a, b version) int { return ikey.Compare(a.key, b.key) })
		sameKey := func(a, b version) bool { return ikey.Compare(a.key, b.key) == 0 }
		got = slices.CompactFunc(got, sameKey) // across files
		same := func(a, b version) bool { return sameKey(a, b) && bytes.Equal(a.value, b.value) }
		if !slices.EqualFunc(got, want, same) {
			t.Errorf("limit %d: %d versions, want %d", limit, len(got), len(want))
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		if names, err := m.List("new"); err != nil || len(names) > 0 {
			t.Errorf("limit %d: left %v, %v", limit, names, err)
		}
	}
}

// aged is a sorted source with an age.
type aged struct {
	sorted
	age int
}

func (a *aged) Age() int { return a.age }

// failing is a source that fails after its versions.
type failing struct {
	sorted
	err error
}

func (f *failing) Err() error { return f.err }

func one(key, value string, seq ikey.Seq) []version {
	return []version{{ikey.Key{User: []byte(key), Trailer: ikey.MakeTrailer(seq, ikey.Set)}, []byte(value)}}
}

func TestOfEqualVersionsThatOfTheLowerAgeComesFirst(t *testing.T) {
	q := &queue{}
	for _, s := range []*aged{
		{sorted{versions: one("a", "third", 0)}, 3},
		{sorted{versions: one("a", "first", 0)}, 1},
		{sorted{versions: one("a", "newest", 7)}, 9},
		{sorted{versions: one("a", "second", 0)}, 2},
		{sorted{}, 0},
	} {
		q.add(s)
	}
	var got []string
	for _, v := range drain(t, q) {
		got = append(got, string(v.value))
	}
	if want := []string{"newest", "first", "second", "third"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAnErrorOfASourceEndsTheQueue(t *testing.T) {
	bad := errors.New("bad")
	for _, versions := range [][]version{nil, one("a", "1", 1)} {
		q := &queue{}
		q.add(&sorted{versions: one("b", "2", 2)})
		q.add(&failing{sorted{versions: versions}, bad})
		n := 0
		for q.next() {
			n++
		}
		if !errors.Is(q.err, bad) || n != len(versions) {
			t.Errorf("%d versions, %v; want %d, %v", n, q.err, len(versions), bad)
		}
	}
}
