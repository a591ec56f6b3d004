package memtable

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// Iter returns a cursor over the newest versions at or below seq. It stands at no version yet.
func (t *Table) Iter(seq ikey.Seq) *Cursor {
	c := new(Cursor)
	c.Reset(t, seq)
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
			var seen []string
			c := tb.Iter(number(seq))
			seek, step := c.SeekGE, c.Next
			if way == "lt" {
				seek, step = c.SeekLT, c.Prev
			}
			for ok := seek(k); ok; ok = step() {
				seen = append(seen, fmt.Sprintf("%s@%d", c.Key().User, c.Key().Trailer.Seq()))
			}
			must(t, c.Close())
			return strings.Join(seen, " ")
		}
		got := seen()
		tb.Freeze()
		if frozen := seen(); frozen != got {
			t.Errorf("frozen: got\n%s\nwant\n%s", frozen, got)
		}
		return got
	})
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

func TestACursorThatStandsNowhereDoesNotMove(t *testing.T) {
	tb := newTable(t, nil, 0)
	add(tb, "a", 1, ikey.Set, "")
	add(tb, "b", 2, ikey.Set, "")
	c := tb.Iter(2)
	c.SeekGE(ikey.Search([]byte("a"), 2))
	if c.Reset(tb, 2); c.Next() || c.Prev() {
		t.Error("it moves from where it was before")
	}
	c.SeekGE(ikey.Search([]byte("a"), 2))
	for c.Next() {
	}
	if c.Prev() || c.Next() {
		t.Error("it moves from behind the last key")
	}
	c.First()
	if c.Prev() || c.Next() || c.Prev() {
		t.Error("it moves from before the first key")
	}
	c.First()
	if must(t, c.Close()); c.Next() || c.Prev() {
		t.Error("a closed cursor moves")
	}
}

// TestACursorLocksATableThatMayChange looks at the lock while a window is being filled.
func TestACursorLocksATableThatMayChange(t *testing.T) {
	tb := newTable(t, nil, 0)
	for _, frozen := range []bool{false, true} {
		c := tb.Iter(1)
		c.start(false, minTake)
		if free := tb.mu.TryLock(); free != frozen {
			t.Errorf("frozen: %v, the lock is free: %v", frozen, free)
		} else if free {
			tb.mu.Unlock()
		}
		if c.stop(false); !frozen {
			tb.Freeze()
		}
	}
}

func TestTwoSearchesHaveTheirOwnKeys(t *testing.T) {
	tb := newTable(t, nil, 0)
	a, b := tb.take([]byte("a")), tb.take([]byte("b"))
	if x, y := string(tb.keyOf(a.first)), string(tb.keyOf(b.first)); x != "a" || y != "b" {
		t.Errorf("the keys are %q and %q", x, y)
	}
	tb.give(a)
	tb.give(b)
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
