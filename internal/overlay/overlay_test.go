package overlay

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A base is a store of sorted keys, each its own value. After left moves it fails.
type base struct {
	keys []string
	at   int
	left int
}

func (b *base) found() bool {
	b.left--
	return b.left > 0 && b.at >= 0 && b.at < len(b.keys)
}

func (b *base) SeekGE(key []byte) bool {
	b.at, _ = slices.BinarySearch(b.keys, string(key))
	return b.found()
}

func (b *base) SeekLT(key []byte) bool {
	b.SeekGE(key)
	return b.Prev()
}

func (b *base) Last() bool    { b.at = len(b.keys) - 1; return b.found() }
func (b *base) Next() bool    { b.at++; return b.found() }
func (b *base) Prev() bool    { b.at--; return b.found() }
func (b *base) Key() []byte   { return []byte(b.keys[b.at]) }
func (b *base) Value() []byte { return b.Key() }

func (b *base) Err() error {
	if b.left <= 0 {
		return errors.New("the base has failed")
	}
	return nil
}

// TestWritesLieOverTheBase compares random moves over random operations with a sorted map.
func TestWritesLieOverTheBase(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	key := func() string { return fmt.Sprintf("%02d", rng.IntN(30)) }
	for range 2000 {
		model := map[string]string{}
		b := &base{left: 1 << 30}
		for range rng.IntN(20) {
			k := key()
			model[k] = k
		}
		b.keys = slices.Sorted(maps.Keys(model))
		lower, upper := key(), []byte(key())
		if rng.IntN(3) == 0 {
			upper = nil
		}
		inside := func(k string) bool { return lower <= k && (upper == nil || k < string(upper)) }
		b.keys = slices.DeleteFunc(b.keys, func(k string) bool { return !inside(k) })
		var w Writes
		var ops []byte
		for i := range rng.IntN(15) {
			k := key()
			switch rng.IntN(4) {
			case 0:
				ops = batch.AppendOp(ops, ikey.Delete, []byte(k), nil)
				delete(model, k)
			case 1:
				end := fmt.Sprintf("%s%d", k[:1], rng.IntN(12))
				if end <= k {
					continue
				}
				ops = batch.AppendOp(ops, ikey.RangeDelete, []byte(k), []byte(end))
				maps.DeleteFunc(model, func(other, _ string) bool { return k <= other && other < end })
			default:
				model[k] = fmt.Sprint("own ", i)
				ops = batch.AppendOp(ops, ikey.Set, []byte(k), []byte(model[k]))
			}
			if rng.IntN(3) == 0 {
				ops = batch.AppendOp(ops, ikey.Mark, nil, []byte(k))
			}
			if rng.IntN(2) == 0 {
				add(t, &w, ops)
			}
		}
		add(t, &w, ops)
		for _, k := range []string{key(), key()} {
			v, live, decided := w.Get([]byte(k))
			want, ok := model[k]
			if decided && (live != ok || live && string(v) != want) || !decided && ok && want != k {
				t.Fatalf("Get %s: %q, %v, %v, want %q, %v", k, v, live, decided, want, ok)
			}
		}
		keys := slices.DeleteFunc(slices.Sorted(maps.Keys(model)), func(k string) bool { return !inside(k) })
		c := w.Cursor(b, []byte(lower), upper)
		at := -1 // no key
		for range 30 {
			k := key()
			var ok bool
			what := rng.IntN(6)
			switch {
			case what == 0:
				at, _ = slices.BinarySearch(keys, k)
				ok = c.SeekGE([]byte(k))
			case what == 1:
				at, _ = slices.BinarySearch(keys, k)
				at--
				ok = c.SeekLT([]byte(k))
			case what == 2 || at < 0 || at >= len(keys): // only an absolute move may follow
				at, ok = len(keys)-1, c.Last()
			case what == 3:
				at--
				ok = c.Prev()
			default:
				at++
				ok = c.Next()
			}
			if want := at >= 0 && at < len(keys); ok != want || c.Err() != nil {
				t.Fatalf("move %d: %v, want %v: at %d of %q, %v", what, ok, want, at, keys, c.Err())
			}
			if ok && (string(c.Key()) != keys[at] || string(c.Value()) != model[keys[at]]) {
				t.Fatalf("move %d: %q = %q, want %q = %q", what, c.Key(), c.Value(), keys[at], model[keys[at]])
			}
		}
	}
}

func add(t *testing.T, w *Writes, ops []byte) {
	t.Helper()
	if err := w.Add(ops); err != nil {
		t.Fatal(err)
	}
}

// TestACursorStopsWhereItsBaseFails shows no key behind a failure, though the transaction has written some.
func TestACursorStopsWhereItsBaseFails(t *testing.T) {
	var w Writes
	add(t, &w, batch.AppendOp(batch.AppendOp(nil, ikey.Set, []byte("b"), nil), ikey.Set, []byte("y"), nil))
	b := &base{keys: []string{"a", "c", "d"}, left: 3}
	c := w.Cursor(b, nil, nil)
	var got []string
	for ok := c.SeekGE(nil); ok; ok = c.Next() {
		got = append(got, string(c.Key()))
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(got, want) || c.Err() == nil {
		t.Errorf("a cursor over a base that fails has %q, %v, want %q and an error", got, c.Err(), want)
	}
	b.left = 10
	if !c.SeekGE([]byte("x")) || c.Err() != nil || string(c.Key()) != "y" {
		t.Errorf("a seek after the failure: %v at %q", c.Err(), c.Key())
	}
}
