package memtable

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// visible returns the entries that a cursor at seq should show.
func visible(es []entry, seq ikey.Seq) []entry {
	var shown []entry
	for _, e := range es {
		if e.k.Trailer.Seq() > seq || len(shown) > 0 && string(shown[len(shown)-1].k.User) == string(e.k.User) {
			continue
		}
		shown = append(shown, e)
	}
	return shown
}

// wander moves a cursor at random, compares it with the entries that it should show, and returns what is wrong.
func wander(c *Cursor, rng *rand.Rand, es []entry, steps int, key func() []byte, largest ikey.Seq) string {
	var story []string
	at, on := 0, false
	for range steps {
		var ok bool
		move := 4 + rng.IntN(12)
		if !on {
			move = rng.IntN(4)
		} else if rng.IntN(30) == 0 {
			move = rng.IntN(4)
		}
		switch target := ikey.Search(key(), ikey.Seq(rng.Uint64N(uint64(largest)+2))); {
		case move == 0:
			ok, at = c.First(), 0
			story = append(story, "First")
		case move == 1:
			ok, at = c.Last(), len(es)-1
			story = append(story, "Last")
		case move <= 3:
			if rng.IntN(4) == 0 {
				target.Trailer = ^ikey.Trailer(0)
			} else if len(es) > 0 && rng.IntN(2) == 0 {
				target = es[rng.IntN(len(es))].k
			}
			at, _ = slices.BinarySearchFunc(es, target, func(e entry, k ikey.Key) int { return ikey.Compare(e.k, k) })
			name := "SeekGE"
			if move == 2 {
				ok = c.SeekGE(target)
			} else {
				ok, name = c.SeekLT(target), "SeekLT"
				at--
			}
			story = append(story, fmt.Sprintf("%s %q@%d", name, target.User, target.Trailer.Seq()))
		case move < 9 || move < 14 && (at/100)%2 == 0: // now mostly this way, now mostly that
			ok, at = c.Next(), at+1
			story = append(story, "Next")
		default:
			ok, at = c.Prev(), at-1
			story = append(story, "Prev")
		}
		on = at >= 0 && at < len(es)
		switch {
		case ok != on:
			return fmt.Sprintf("%v after %s", ok, strings.Join(story[max(0, len(story)-20):], ", "))
		case !on:
		case ikey.Compare(c.Key(), es[at].k) != 0 || string(c.Value()) != es[at].v:
			return fmt.Sprintf("on %q@%d, want %q@%d, after %s", c.Key().User, c.Key().Trailer.Seq(),
				es[at].k.User, es[at].k.Trailer.Seq(), strings.Join(story[max(0, len(story)-20):], ", "))
		}
	}
	return ""
}

// inOrder makes n ascending keys, except for some percent that are anywhere, and then any of these keys.
func inOrder(n, percent int) func(*rand.Rand) []byte {
	i := 0
	return func(r *rand.Rand) []byte {
		if i++; i > n || r.IntN(100) < percent {
			return fmt.Appendf(nil, "key/%06d", r.IntN(2*n))
		}
		return fmt.Appendf(nil, "key/%06d", 2*i)
	}
}

func TestMovesAgainstASortedSlice(t *testing.T) {
	testkit.Long(t)
	number := func(r *rand.Rand) []byte { return fmt.Appendf(nil, "%016d", r.IntN(3000)) }
	for _, shape := range []struct {
		name   string
		n      int
		key    func(rng *rand.Rand) []byte
		prefix string // of the table
	}{
		{name: "numbers with a prefix of all", n: 3000, key: number, prefix: "00000000"},
		{name: "numbers with a prefix of none", n: 3000, key: number, prefix: "user/"},
		{name: "two tenants", n: 3000, prefix: "tenant/1/", key: func(r *rand.Rand) []byte {
			return fmt.Appendf(nil, "tenant/%d/%d", r.IntN(2), r.IntN(1500))
		}},
		{name: "short strings of few letters", n: 3000, prefix: "ab", key: func(r *rand.Rand) []byte {
			k := make([]byte, r.IntN(12))
			for i := range k {
				k[i] = "a\x00b\xff"[r.IntN(4)]
			}
			return k
		}},
		{name: "heads that are all equal", n: 3000, key: func(r *rand.Rand) []byte {
			k := make([]byte, 40)
			k[0], k[39], k[38] = byte('a'+r.IntN(2)*25), byte(r.IntN(256)), byte(r.IntN(8))
			return k
		}},
		{name: "few keys with many versions", n: 600, key: func(r *rand.Rand) []byte {
			return []byte{'a' + byte(r.IntN(8))}
		}},
		{name: "many keys", n: 3000, key: func(r *rand.Rand) []byte {
			return fmt.Appendf(nil, "key/%05d", r.IntN(2500))
		}},
		{name: "a handful", n: 5, key: func(r *rand.Rand) []byte { return []byte("\x00a\xff"[:r.IntN(4)]) }},
		{name: "one hot key among others", n: 2000, key: func(r *rand.Rand) []byte {
			if r.IntN(3) > 0 {
				return []byte("hot")
			}
			return fmt.Appendf(nil, "%x", r.IntN(4000))
		}},
		{name: "in order", n: 3000, key: inOrder(3000, 0)},
		{name: "nearly in order", n: 3000, key: inOrder(3000, 10)},
		{name: "half of it in order", n: 3000, key: inOrder(3000, 50)},
		{name: "nothing", n: 0, key: func(*rand.Rand) []byte { return []byte("a") }},
	} {
		t.Run(shape.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(11, 12))
			tb := newTable(t, []byte(shape.prefix), 0)
			var es []entry
			for i := range shape.n {
				seq := ikey.Seq(i + 1)
				kind := ikey.Kind(seq % 2)
				e := entry{ikey.Key{User: shape.key(rng), Trailer: ikey.MakeTrailer(seq, kind)}, strconv.Itoa(i)}
				tb.Add(e.k.User, bloomblock.HashKey(e.k.User), seq, kind, []byte(e.v))
				es = append(es, e)
			}
			sortEntries(es)
			for _, e := range visible(es, ikey.MaxSeq) {
				want := e.k.Trailer.Kind().String() + " " + e.v
				if got := get(tb, string(e.k.User), ikey.MaxSeq); got != want {
					t.Fatalf("Get(%q) = %s, want %s", e.k.User, got, want)
				}
			}
			var c Cursor
			const rounds = 30
			for round := range rounds {
				if round == rounds*2/3 {
					tb.Freeze()
				}
				seq := ikey.Seq(rng.IntN(shape.n + 2))
				if round%3 == 0 {
					seq = ikey.MaxSeq
				}
				c.Reset(tb, seq)
				if c.Next() || c.Prev() {
					t.Fatal("a cursor that stands nowhere moves")
				}
				if wrong := wander(&c, rng, visible(es, seq), 1500, func() []byte { return shape.key(rng) },
					ikey.Seq(shape.n)); wrong != "" {
					t.Fatalf("at %d: %s", seq, wrong)
				}
				if round%4 == 0 {
					c.Close()
				}
			}
			src, n := tb.Flush(), 0
			for ok := src.First(); ok; ok = src.Next() {
				if n == len(es) || ikey.Compare(src.Key(), es[n].k) != 0 || string(src.Value()) != es[n].v {
					t.Fatalf("a flush has %q@%d as version %d", src.Key().User, src.Key().Trailer.Seq(), n)
				}
				n++
			}
			if n != len(es) {
				t.Errorf("a flush has %d versions, want %d", n, len(es))
			}
		})
	}
}

// Cursors wander while a writer adds keys and versions around them.
func TestMovesBesideAWriter(t *testing.T) {
	t.Run("anywhere", func(t *testing.T) {
		movesBesideAWriter(t, func(i int64) []byte { return []byte(numbered(i)) })
	})
	t.Run("mostly after all others", func(t *testing.T) {
		movesBesideAWriter(t, func(i int64) []byte {
			if i%7 == 0 {
				return []byte(numbered(i))
			}
			return fmt.Appendf(nil, "%05d", i)
		})
	})
}

func movesBesideAWriter(t *testing.T, key func(i int64) []byte) {
	t.Helper()
	n := int64(8000)
	if testing.Short() {
		n /= 4
	}
	es := make([]entry, n)
	for i := range es {
		seq := ikey.Seq(i + 1)
		es[i] = entry{ikey.Key{User: key(int64(seq)), Trailer: ikey.MakeTrailer(seq, ikey.Set)}, strconv.Itoa(i)}
	}
	added := slices.Clone(es)
	sortEntries(es)
	tb := New(nil, 0, 0)
	var published atomic.Int64
	var wg sync.WaitGroup
	for reader := range uint64(2) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(reader, 3))
			var c Cursor
			for last := int64(0); last < n; {
				last = published.Load()
				c.Reset(tb, ikey.Seq(last))
				if wrong := wander(&c, rng, visible(es, ikey.Seq(last)), 2000, func() []byte {
					return key(rng.Int64N(n) + 1)
				}, ikey.Seq(last)); wrong != "" {
					t.Errorf("at %d: %s", last, wrong)
					return
				}
				c.Close()
				runtime.Gosched() // otherwise the writer would wait long for a single processor
			}
		})
	}
	for i, e := range added {
		tb.Add(e.k.User, bloomblock.HashKey(e.k.User), e.k.Trailer.Seq(), ikey.Set, []byte(e.v))
		published.Store(int64(i + 1))
		if i%64 == 0 {
			runtime.Gosched()
		}
	}
	tb.Freeze() // under the cursors
	wg.Wait()
}

func TestACursorIsUsedAgain(t *testing.T) {
	one, two := newTable(t, nil, 0), newTable(t, nil, 0)
	add(one, "a", 1, ikey.Set, "one")
	add(two, "b", 1, ikey.Set, "two")
	var c Cursor
	if c.First() || c.Last() || c.SeekGE(ikey.Search(nil, 1)) || c.SeekLT(ikey.Search([]byte("z"), 1)) || c.Next() ||
		c.Prev() {
		t.Error("the zero Cursor stands somewhere")
	}
	c.Reset(one, 1)
	if got, want := all(&c, c.First()), "a@1:SET=one "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	c.Last()
	must(t, c.Close())
	if c.First() || c.Last() || c.SeekGE(ikey.Search(nil, 1)) || c.SeekLT(ikey.Search([]byte("z"), 1)) || c.Next() ||
		c.Prev() {
		t.Error("a closed cursor stands somewhere")
	}
	moved := c // as a slice of cursors does that grows
	moved.Reset(two, 1)
	c.Reset(one, 1)
	if got, want := all(&moved, moved.First())+all(&c, c.First()), "b@1:SET=two a@1:SET=one "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAUsedCursorAllocatesNothing(t *testing.T) {
	tb := newTable(t, nil, 0)
	for i := range 1000 {
		add(tb, strconv.Itoa(i%500), ikey.Seq(i), ikey.Set, "v")
	}
	var c Cursor
	k := ikey.Search([]byte("250"), ikey.MaxSeq)
	if n := testing.AllocsPerRun(100, func() {
		c.Reset(tb, ikey.MaxSeq)
		if !c.SeekGE(k) || !c.Next() || !c.SeekLT(k) || !c.Prev() || !c.First() || !c.Last() {
			t.Error("a move finds nothing")
		}
		for c.Prev() {
		}
		for ok := c.SeekGE(k); ok; ok = c.Next() {
		}
		c.Close()
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
