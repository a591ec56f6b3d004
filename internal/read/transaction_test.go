package read

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/deadkeys"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// TestATransactionHasReadWhatItsCursorWalkedOver moves cursors over the keys b, d and f.
func TestATransactionHasReadWhatItsCursorWalkedOver(t *testing.T) {
	r := newReader(t)
	for i, k := range []string{"b", "d", "f"} {
		r.Tree.Load().Mem.Add([]byte(k), r.Hash([]byte(k)).Mixed, ikey.Seq(i+1), ikey.Set, nil)
	}
	r.Tree.Publish(3)
	const end = "end" // of all keys
	for _, tt := range []struct {
		lower, upper string
		moves        []string
		want         []string
	}{
		{"", end, []string{"first", "next"}, []string{"-d\x00"}},
		{"", end, []string{"first", "next", "next", "next"}, []string{"-end"}},
		{"", end, []string{"last", "prev"}, []string{"d-end"}},
		{"", end, []string{"last", "prev", "prev", "prev"}, []string{"-end"}},
		{"", end, []string{"seek c"}, []string{"c-d\x00"}},
		{"", end, []string{"seek z"}, []string{"z-end"}},
		{"", end, []string{"below e"}, []string{"d-e"}},
		{"", end, []string{"below a"}, []string{"-a"}},
		{"", end, []string{"first", "next", "prev"}, []string{"-d\x00", "b-d"}},
		{"", end, []string{"last", "prev", "next"}, []string{"d-end", "d-f\x00"}},
		{"c", "f", []string{"first", "next"}, []string{"c-f"}},
		{"c", "f", []string{"last"}, []string{"d-f"}},
		{"c", "f", []string{"last", "prev"}, []string{"c-f"}},
	} {
		var got []string
		over := &Writes{Walked: func(lo, hi []byte) {
			if hi == nil {
				hi = []byte(end)
			}
			got = append(got, fmt.Sprintf("%s-%s", lo, hi))
		}}
		upper := []byte(tt.upper)
		if tt.upper == end {
			upper = nil
		}
		c, err := r.Open([]byte(tt.lower), upper, true, Newest, over)
		must(t, err)
		for _, m := range tt.moves {
			switch m {
			case "first":
				c.First()
			case "last":
				c.Last()
			case "next":
				c.Next()
			case "prev":
				c.Prev()
			default:
				if key := []byte(m[len(m)-1:]); m[0] == 's' {
					c.SeekGE(key)
				} else {
					c.SeekLT(key)
				}
			}
		}
		c.Close()
		if !slices.Equal(got, tt.want) {
			t.Errorf("[%s, %s): %q walk over %q, want %q", tt.lower, tt.upper, tt.moves, got, tt.want)
		}
	}
}

func TestWritesOfATransactionRefuseWhatIsNoOperation(t *testing.T) {
	var w Writes
	if _, live, decided := w.Get(key(1)); live || decided {
		t.Error("a key is known before an operation")
	}
	if err := w.Add([]byte{0xff}); err == nil {
		t.Error("an operation that is none is added")
	}
}

// TestKeysThatATransactionDeletesAreNotKnownToBeDead walks over more of them than make a range of dead keys.
func TestKeysThatATransactionDeletesAreNotKnownToBeDead(t *testing.T) {
	r := newReader(t)
	var ops []byte
	for i := range 3 * deadkeys.Worth {
		r.Tree.Load().Mem.Add(key(i), r.Hash(key(i)).Mixed, ikey.Seq(i+1), ikey.Set, nil)
		ops = batch.AppendOp(ops, ikey.Delete, key(i), nil)
	}
	r.Tree.Publish(3 * deadkeys.Worth)
	w := &Writes{Walked: func(_, _ []byte) {}}
	must(t, w.Add(ops))
	for _, move := range []func(*Cursor) bool{(*Cursor).First, (*Cursor).Last} {
		for _, over := range []*Writes{w, w, nil} {
			c, err := r.Open(nil, nil, true, Newest, over)
			must(t, err)
			if at := move(c); at != (over == nil) {
				t.Errorf("with deletes %v: at a key %v", over != nil, at)
			}
			c.Close()
		}
	}
	if n := r.DeadKeys.Len(); n > 0 {
		t.Errorf("%d ranges are known to be dead", n)
	}
}

// TestARangeThatATransactionDeletesIsNotKnownToBeDead seeks, from within a range that a transaction has deleted, over
// keys that the store has deleted beside it.
func TestARangeThatATransactionDeletesIsNotKnownToBeDead(t *testing.T) {
	const n = 2 * deadkeys.Worth // alive, but for the transaction, in the middle of as many dead keys on both sides
	r := newReader(t)
	for i := range 3 * n {
		kind := ikey.Delete
		if i >= n && i < 2*n {
			kind = ikey.Set
		}
		r.Tree.Load().Mem.Add(key(i), r.Hash(key(i)).Mixed, ikey.Seq(i+1), kind, nil)
	}
	r.Tree.Publish(3 * n)
	w := &Writes{Walked: func(_, _ []byte) {}}
	must(t, w.Add(batch.AppendOp(nil, ikey.RangeDelete, key(n), key(2*n))))
	for _, move := range []func(*Cursor) bool{
		func(c *Cursor) bool { return c.SeekGE(key(n)) },
		func(c *Cursor) bool { return c.SeekLT(key(2 * n)) },
	} {
		for _, over := range []*Writes{w, nil} {
			c, err := r.Open(nil, nil, true, Newest, over)
			must(t, err)
			if at := move(c); at != (over == nil) {
				t.Errorf("with a deleted range %v: at a key %v", over != nil, at)
			}
			c.Close()
		}
	}
}
