package sstable

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

func at(it *Iter) kv {
	return kv{string(it.Key().User), it.Key().Trailer, string(it.Value())}
}

func checkIter(t *testing.T, r *Reader, o IterOptions, kvs []kv) {
	t.Helper()
	it := r.Iter(o)
	i := 0
	for ok := it.First(); ok; ok = it.Next() {
		if i >= len(kvs) || at(it) != kvs[i] {
			t.Fatalf("forward: version %d is %.40q@%d", i, it.Key().User, it.Key().Trailer)
		}
		i++
	}
	if i != len(kvs) || it.Err() != nil {
		t.Fatalf("forward: %d versions, want %d: %v", i, len(kvs), it.Err())
	}
	checkLanes(t, it, kvs)
	for ok := it.Last(); ok; ok = it.Prev() {
		if i--; i < 0 || at(it) != kvs[i] {
			t.Fatalf("backward: version %d is %.40q@%d", i, it.Key().User, it.Key().Trailer)
		}
	}
	if i != 0 || it.Err() != nil {
		t.Fatalf("backward: %d versions left: %v", i, it.Err())
	}
	for range effortFor(kvs) {
		v := kvs[rand.IntN(len(kvs))]
		k := ikey.Key{User: []byte(v.key[:rand.IntN(len(v.key)+1)]), Trailer: v.t + ikey.Trailer(rand.IntN(3)) - 1}
		if rand.IntN(2) == 0 {
			k.User = []byte(v.key)
		}
		if rand.IntN(4) == 0 {
			k.User = append(k.User, byte(rand.Uint32()))
		}
		want, _ := slices.BinarySearchFunc(kvs, k, func(v kv, k ikey.Key) int { return ikey.Compare(v.ikey(), k) })
		if ok := it.SeekGE(k); ok != (want < len(kvs)) || ok && at(it) != kvs[want] {
			t.Fatalf("SeekGE(%.40q@%d) = %v, %.40q", k.User, k.Trailer, ok, it.Key().User)
		} else if ok && want > 0 {
			if !it.Prev() || at(it) != kvs[want-1] {
				t.Fatalf("Prev after SeekGE(%.40q@%d) = %.40q", k.User, k.Trailer, it.Key().User)
			}
		}
		if ok := it.SeekLT(k); ok != (want > 0) || ok && at(it) != kvs[want-1] {
			t.Fatalf("SeekLT(%.40q@%d) = %v, %.40q", k.User, k.Trailer, ok, it.Key().User)
		} else if ok && want < len(kvs) {
			if !it.Next() || at(it) != kvs[want] {
				t.Fatalf("Next after SeekLT(%.40q@%d) = %.40q", k.User, k.Trailer, it.Key().User)
			}
		}
	}
	must(t, it.Close())
}

// checkLanes walks over all versions and back, in lanes where there are any. Each lane has an end at random.
func checkLanes(t *testing.T, it *Iter, kvs []kv) {
	t.Helper()
	i := 0
	for ok := it.First(); ok; ok = it.Next() {
		if i >= len(kvs) || at(it) != kvs[i] {
			t.Fatalf("beside lanes: version %d is %.40q@%d", i, it.Key().User, it.Key().Trailer)
		}
		upper := []byte(kvs[rand.IntN(len(kvs)-i)+i].key)
		if rand.IntN(3) == 0 {
			upper = nil
		}
		if it.EnterLane(upper) {
			key := slices.Clone(it.Key().User)
			for {
				k, value, ok := it.NextPlain(key)
				if !ok {
					break
				}
				key = k
				i++
				beyond := upper != nil && string(key) >= string(upper)
				if got := (kv{string(key), plainSet, string(value)}); got != kvs[i] || beyond {
					t.Fatalf("in a lane before %.40q: version %d is %.40q", upper, i, key)
				}
			}
			it.LeaveLane()
			if at(it) != kvs[i] {
				t.Fatalf("after a lane: version %d is %.40q@%d", i, it.Key().User, it.Key().Trailer)
			}
		}
		i++
	}
	if i != len(kvs) || it.Err() != nil {
		t.Fatalf("with lanes: %d versions, want %d: %v", i, len(kvs), it.Err())
	}
	i--
	for ok := it.Last(); ok; ok = it.Prev() {
		if i < 0 || at(it) != kvs[i] {
			t.Fatalf("beside lanes back: version %d is %.40q@%d", i, it.Key().User, it.Key().Trailer)
		}
		lower := []byte(kvs[rand.IntN(i+1)].key)
		if rand.IntN(3) == 0 {
			lower = nil
		}
		key, ok := it.EnterLaneBack(lower, []byte("any"))
		if !ok {
			i--
			continue
		}
		for first := true; ; first = false {
			k, value, ok := it.PrevPlain(key)
			if !ok {
				if first {
					t.Fatalf("a lane back from version %d is empty", i)
				}
				break
			}
			key = k
			newest := i == 0 || kvs[i-1].key != kvs[i].key
			beyond := lower != nil && string(key) <= string(lower)
			if got := (kv{string(key), plainSet, string(value)}); got != kvs[i] || !newest || beyond {
				t.Fatalf("in a lane behind %.40q: version %d is %.40q", lower, i, key)
			}
			i--
		}
		it.LeaveLane()
		if at(it) != kvs[i] {
			t.Fatalf("after a lane back: version %d is %.40q@%d", i, it.Key().User, it.Key().Trailer)
		}
		i--
	}
	if i != -1 || it.Err() != nil {
		t.Fatalf("with lanes back: %d versions left: %v", i+1, it.Err())
	}
}

func TestAPooledCursorAllocatesNothing(t *testing.T) {
	var kvs []kv
	for i := range 4000 {
		kvs = append(kvs, set(fmt.Sprintf("key%05d", i), ikey.Seq(i%2), "0123456789"))
	}
	file, info := build(t, WriterOptions{ID: 1, Codec: S2}, kvs)
	r, other := newReader(file, info, 1<<20), newReader(file, info, 1<<20)
	var it Iter
	n := 0
	for _, o := range []IterOptions{{}, {NoFill: true}, {Bypass: true, ReadAhead: 8 << 10}, {Bypass: true}} {
		walk := func() {
			n = (n + 577) % len(kvs)
			for _, r := range []*Reader{r, other} {
				it.Reset(r, o)
				if !it.SeekGE(kvs[n].ikey()) || string(it.Key().User) != kvs[n].key || !it.SeekLT(kvs[n+1-n%2].ikey()) {
					t.Fatalf("%v at %q, want %q", it.Err(), it.Key().User, kvs[n].key)
				}
				for range 200 {
					if !it.Next() {
						break
					}
				}
				must(t, it.Close())
			}
		}
		for range 20 {
			walk()
		}
		if got := testing.AllocsPerRun(100, walk); got > 0 {
			t.Errorf("%+v: %v allocations", o, got)
		}
	}
}

func TestACursorCanBeUsedAgain(t *testing.T) {
	file, info, kvs := small(t, S2)
	bad, badInfo, _ := small(t, S2)
	bad[3] ^= 1
	var it Iter
	for _, o := range []IterOptions{{}, {NoFill: true}, {Bypass: true}} {
		for range 3 {
			it.Reset(newReader(bad, badInfo, 1<<20), o) // without a Close before
			if it.First() || !errors.Is(it.Err(), corrupt.Err) {
				t.Fatalf("a damaged block is served: %v", it.Err())
			}
			if err := it.Close(); !errors.Is(err, corrupt.Err) {
				t.Fatal(err)
			}
			r := newReader(file, info, 1<<20)
			it.Reset(r, o)
			if it.Err() != nil {
				t.Fatalf("an error of another table: %v", it.Err())
			}
			i := 0
			for ok := it.First(); ok; ok = it.Next() {
				if at(&it) != kvs[i] {
					t.Fatalf("version %d is %v", i, at(&it))
				}
				i++
			}
			if i != len(kvs) {
				t.Fatalf("%d versions, want %d: %v", i, len(kvs), it.Err())
			}
			it.Last()
		}
	}
	must(t, errors.Join(it.Close(), it.Close()))
	var zero Iter
	must(t, zero.Close())
}
