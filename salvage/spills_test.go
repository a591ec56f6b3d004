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

// drain reads sources to their ends, or to an error.
func drain(sources []source) (all []version, err error) {
	for v, err := range merged(sources) {
		if err != nil {
			return all, err
		}
		k := ikey.Key{User: bytes.Clone(v.key.User), Trailer: v.key.Trailer}
		all = append(all, version{k, bytes.Clone(v.value), v.age})
	}
	return all, nil
}

// TestSpillsSortMoreThanFitsInMemory adds versions in any order, some twice, to spills with several limits.
func TestSpillsSortMoreThanFitsInMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var want []version
	for i := range 3000 {
		want = append(want, version{
			key: ikey.Key{
				User:    fmt.Appendf(nil, "key%d", rng.IntN(500)),
				Trailer: ikey.MakeTrailer(ikey.Seq(i), ikey.Kind(rng.IntN(2))),
			},
			value: fmt.Appendf(nil, "value %d", i),
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
		if err != nil || len(names) != len(s.files) || (len(names) > 1) != (limit < 1<<20) {
			t.Errorf("limit %d: files %d, %v", limit, len(names), err)
		}
		got, err := drain(s.sources())
		if err != nil {
			t.Fatal(err)
		}
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

// sorted returns a source of versions that are sorted, which ends with an error, or with nil.
func sorted(end error, versions ...version) source {
	return func(yield func(version, error) bool) {
		for _, v := range versions {
			if !yield(v, nil) {
				return
			}
		}
		if end != nil {
			yield(version{}, end)
		}
	}
}

func one(key, value string, seq ikey.Seq, age int) version {
	return version{ikey.Key{User: []byte(key), Trailer: ikey.MakeTrailer(seq, ikey.Set)}, []byte(value), age}
}

func TestOfEqualVersionsThatOfTheLowerAgeComesFirst(t *testing.T) {
	all, err := drain([]source{
		sorted(nil, one("a", "third", 0, 3)), sorted(nil, one("a", "first", 0, 1)),
		sorted(nil, one("a", "newest", 7, 9)), sorted(nil, one("a", "second", 0, 2)), sorted(nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range all {
		got = append(got, string(v.value))
	}
	if want := []string{"newest", "first", "second", "third"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAnErrorOfASourceEndsAll(t *testing.T) {
	bad := errors.New("bad")
	for _, versions := range [][]version{nil, {one("a", "1", 1, 0)}} {
		got, err := drain([]source{sorted(nil, one("b", "2", 2, 0)), sorted(bad, versions...)})
		if !errors.Is(err, bad) || len(got) != len(versions) {
			t.Errorf("%d versions, %v; want %d, %v", len(got), err, len(versions), bad)
		}
	}
}

// TestSourcesEndWhenNoMoreIsWanted leaves a merge at its first version.
func TestSourcesEndWhenNoMoreIsWanted(t *testing.T) {
	ended := 0
	endless := func(yield func(version, error) bool) {
		defer func() { ended++ }()
		for i := 0; yield(one(fmt.Sprintf("%08d", i), "", 1, 0), nil); i++ {
		}
	}
	for _, err := range merged([]source{endless, endless}) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if ended != 2 {
		t.Errorf("%d sources have ended, want 2", ended)
	}
}
