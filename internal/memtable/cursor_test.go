package memtable

import (
	"bytes"
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

// Iter returns a cursor over all versions at or below seq. It stands at no version yet.
func (t *Table) Iter(seq ikey.Seq) *Cursor {
	c := new(Cursor)
	c.Reset(t, seq, false)
	return c
}

// all prints what a cursor sees from its position on.
func all(c *Cursor, ok bool) string {
	var b bytes.Buffer
	for ; ok; ok = c.Next() {
		k := c.Key()
		fmt.Fprintf(&b, "%s@%d:%s=%s ", k.User, k.Trailer.Seq(), k.Trailer.Kind(), c.Value())
	}
	return b.String()
}

type entry struct {
	k ikey.Key
	v string
}

func sortEntries(es []entry) {
	slices.SortFunc(es, func(a, b entry) int { return ikey.Compare(a.k, b.k) })
}

func TestSeek(t *testing.T) {
	testkit.Script(t, "testdata/seek.txt", func(t *testing.T, input string) string {
		tb := newTable(t, []byte("p/"), 0)
		for i, k := range []string{"p/b", "p/a", "zz", "a", "p", "p/b"} {
			add(tb, k, ikey.Seq(i+1), ikey.Set, "")
		}
		way, rest, _ := strings.Cut(input, " ")
		target, seq, _ := strings.Cut(rest, " seq ")
		user, at, _ := strings.Cut(target, "@")
		number := func(text string) ikey.Seq {
			n, err := strconv.ParseUint(text, 10, 64)
			must(t, err)
			return ikey.Seq(n)
		}
		k := ikey.Search([]byte(user), ikey.MaxSeq) // before all versions of the key
		if at != "max" {
			k.Trailer = ikey.MakeTrailer(number(at), ikey.Set)
		}
		seen := func() string {
			var lines [2][]string
			for i, newest := range [2]bool{false, true} {
				var c Cursor
				c.Reset(tb, number(seq), newest)
				seek, step := c.SeekGE, c.Next
				if way == "lt" {
					seek, step = c.SeekLT, c.Prev
				}
				for ok := seek(k); ok; ok = step() {
					lines[i] = append(lines[i], fmt.Sprintf("%s@%d", c.Key().User, c.Key().Trailer.Seq()))
				}
				must(t, c.Close())
			}
			return strings.Join(lines[0], " ") + "\n" + strings.Join(lines[1], " ")
		}
		got := seen()
		tb.Freeze()
		if frozen := seen(); frozen != got {
			t.Errorf("frozen: got\n%s\nwant\n%s", frozen, got)
		}
		return got
	})
}

func TestASeekAllocatesNothing(t *testing.T) {
	tb := newTable(t, nil, 0)
	for i := range 1000 {
		add(tb, strconv.Itoa(i), ikey.Seq(i), ikey.Set, "v")
	}
	c, k := tb.Iter(ikey.MaxSeq), ikey.Search([]byte("500"), ikey.MaxSeq)
	if n := testing.AllocsPerRun(100, func() {
		for ok := c.SeekGE(k); ok; ok = c.Next() {
		}
	}); n != 0 {
		t.Errorf("SeekGE and Next allocate %v times", n)
	}
}

// A cursor at S sees exactly the versions up to S, however much is added while it walks.
func TestCursorsBesideAWriter(t *testing.T) {
	const n = 6000
	var es []entry // in order, all that will ever be there
	for i := int64(1); i <= n; i++ {
		es = append(es,
			entry{
				ikey.Key{User: []byte(numbered(i)), Trailer: ikey.MakeTrailer(ikey.Seq(i), ikey.Set)},
				strconv.FormatInt(i, 10),
			})
	}
	sortEntries(es)
	tb := newTable(t, nil, 0)
	var published atomic.Int64
	var wg sync.WaitGroup
	for r := range 2 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(r), 1))
			for last := int64(0); last < n; {
				last = published.Load()
				s := ikey.Seq(last)
				var want []entry
				for _, e := range es {
					if e.k.Trailer.Seq() <= s {
						want = append(want, e)
					}
				}
				c := tb.Iter(s)
				var ok bool
				from := 0
				if r == 0 || len(want) == 0 {
					ok = c.First()
				} else {
					from = rng.IntN(len(want))
					ok = c.SeekGE(want[from].k)
				}
				for i, e := range want[from:] {
					if !ok || ikey.Compare(c.Key(), e.k) != 0 || string(c.Value()) != e.v {
						t.Errorf("cursor at %d: entry %d is not %s@%d", s, from+i, e.k.User, e.k.Trailer.Seq())
						return
					}
					ok = c.Next()
				}
				if ok {
					t.Errorf("cursor at %d: %s@%d after the last", s, c.Key().User, c.Key().Trailer.Seq())
					return
				}
			}
		})
	}
	for i := int64(1); i <= n; i++ {
		add(tb, numbered(i), ikey.Seq(i), ikey.Set, strconv.FormatInt(i, 10))
		published.Store(i)
		if i%64 == 0 {
			runtime.Gosched()
		}
	}
	tb.Freeze() // under the cursors
	wg.Wait()
}

func TestManySeeksAtOnceOnAFrozenTable(t *testing.T) {
	tb := newTable(t, nil, 0)
	for i := range 3000 {
		add(tb, fmt.Sprintf("the same head %06d", i), ikey.Seq(i), ikey.Set, "")
	}
	tb.Freeze()
	var wg sync.WaitGroup
	for g := range 100 { // more than there are probes
		wg.Go(func() {
			c := tb.Iter(ikey.MaxSeq)
			for i := g; i < 3000; i += 97 {
				k := fmt.Sprintf("the same head %06d", i)
				if !c.SeekGE(ikey.Search([]byte(k), ikey.MaxSeq)) || string(c.Key().User) != k {
					t.Errorf("SeekGE does not find %s", k)
				}
			}
		})
	}
	wg.Wait()
}

func TestAVersionThatComesLateTakesItsPlace(t *testing.T) {
	tb := newTable(t, nil, 0)
	add(tb, "k", 5, ikey.Set, "five")
	add(tb, "k", 9, ikey.Set, "nine")
	old := tb.Iter(ikey.MaxSeq)
	ok := old.First() // holds the chain as it is now
	add(tb, "k", 7, ikey.Set, "seven")
	add(tb, "k", 1, ikey.Set, "one")
	add(tb, "k", 9, ikey.Set, "again")
	want := "k@9:SET=again k@7:SET=seven k@5:SET=five k@1:SET=one "
	c := tb.Iter(ikey.MaxSeq)
	if got := all(c, c.First()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := all(old, ok), "k@9:SET=nine k@5:SET=five "; got != want {
		t.Errorf("a cursor that was there: got %s, want %s", got, want)
	}
	if got := get(tb, "k", 8); got != "SET seven" {
		t.Errorf("Get at 8 = %s, want SET seven", got)
	}
}

// Keys of all shapes and a prefix that suits few of them: against a sorted slice.
func TestAgainstASortedSlice(t *testing.T) {
	for _, shape := range []struct {
		name   string
		prefix string
		key    func(rng *rand.Rand) []byte
	}{
		{"numbers without a prefix", "", func(r *rand.Rand) []byte { return fmt.Appendf(nil, "%016d", r.IntN(3000)) }},
		{
			"numbers with a prefix of all", "00000000",
			func(r *rand.Rand) []byte { return fmt.Appendf(nil, "%016d", r.IntN(3000)) },
		},
		{
			"numbers with a prefix of none", "user/",
			func(r *rand.Rand) []byte { return fmt.Appendf(nil, "%016d", r.IntN(3000)) },
		},
		{
			"two tenants", "tenant/1/",
			func(r *rand.Rand) []byte { return fmt.Appendf(nil, "tenant/%d/%d", r.IntN(2), r.IntN(1500)) },
		},
		{"short strings of few letters", "ab", func(r *rand.Rand) []byte {
			k := make([]byte, r.IntN(12))
			for i := range k {
				k[i] = "a\x00b\xff"[r.IntN(4)]
			}
			return k
		}},
		{"heads that are all equal", "", func(r *rand.Rand) []byte {
			k := make([]byte, 40)
			k[0], k[39], k[38] = byte('a'+r.IntN(2)*25), byte(r.IntN(256)), byte(r.IntN(8))
			return k
		}},
	} {
		t.Run(shape.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, 8))
			tb := newTable(t, []byte(shape.prefix), 0)
			var es []entry
			for seq := ikey.Seq(1); seq <= 3000; seq++ {
				k, kind, v := shape.key(rng), ikey.Kind(rng.IntN(2)), fmt.Sprint(seq)
				tb.Add(k, bloomblock.HashKey(k), seq, kind, []byte(v))
				es = append(es, entry{ikey.Key{User: k, Trailer: ikey.MakeTrailer(seq, kind)}, v})
			}
			sortEntries(es)
			for _, at := range []ikey.Seq{0, 1, 100, 4000, ikey.MaxSeq} {
				var want []entry
				for _, e := range es {
					if e.k.Trailer.Seq() <= at {
						want = append(want, e)
					}
				}
				c := tb.Iter(at)
				check(t, c, c.First(), want)
				for range 100 {
					k := ikey.Search(shape.key(rng), ikey.Seq(rng.IntN(6000)))
					i, _ := slices.BinarySearchFunc(want, k,
						func(e entry, k ikey.Key) int { return ikey.Compare(e.k, k) })
					check(t, c, c.SeekGE(k), want[i:min(i+70, len(want))])
				}
			}
			for i, e := range es {
				if i > 0 && bytes.Equal(es[i-1].k.User, e.k.User) {
					continue
				}
				want := e.k.Trailer.Kind().String() + " " + e.v
				if got := get(tb, string(e.k.User), ikey.MaxSeq); got != want {
					t.Fatalf("Get(%q) = %s, want %s", e.k.User, got, want)
				}
			}
		})
	}
}

// check compares the next entries of a cursor.
func check(t *testing.T, c *Cursor, ok bool, want []entry) {
	t.Helper()
	for i, e := range want {
		if !ok {
			t.Fatalf("the cursor ends at %d of %d", i, len(want))
		}
		if ikey.Compare(c.Key(), e.k) != 0 || string(c.Value()) != e.v {
			t.Fatalf("entry %d: got %q@%d = %s, want %q@%d = %s", i, c.Key().User, c.Key().Trailer.Seq(), c.Value(),
				e.k.User, e.k.Trailer.Seq(), e.v)
		}
		ok = c.Next()
	}
	if ok && len(want) == 0 {
		t.Fatalf("the cursor stands on %q, want nothing", c.Key().User)
	}
}

// TestATableKnowsHowMuchOfItItsFlushHasRead reads all versions of a frozen table twice, as a flush that is tried again.
func TestATableKnowsHowMuchOfItItsFlushHasRead(t *testing.T) {
	tb := newTable(t, nil, 0)
	const n = 10*flushStep + 7
	for i := range n {
		add(tb, strconv.Itoa(i/3), ikey.Seq(i+1), ikey.Set, "")
	}
	tb.Freeze()
	for range 2 {
		src, read := tb.Flush(), uint64(0)
		for ok := src.First(); ok; ok = src.Next() {
			if got, want := tb.Flushed(), read-read%flushStep; got != want {
				t.Fatalf("when %d versions were passed: %d, want %d", read, got, want)
			}
			read++
		}
		if got := tb.Flushed(); read != n || got != n {
			t.Errorf("at the end, after %d versions: %d, want both %d", read, got, n)
		}
		must(t, src.Close())
	}
}
