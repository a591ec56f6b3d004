package tests

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/deadkeys"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A brittleStore has several runs of many blocks with tombstones of both kinds, and the expected contents.
type brittleStore struct {
	mem  *vfstest.Mem
	o    *bloomkv.Options
	want map[string]string
	keys []string // the keys of want
}

func newBrittleStore(t *testing.T) *brittleStore {
	t.Helper()
	s := &brittleStore{mem: vfstest.NewMem(), want: map[string]string{}}
	s.o = storetest.Tiny(s.mem)
	s.o.Durability, s.o.Compression = bloomkv.DurabilityNoSync, bloomkv.CompressionNone
	s.o.BlockSize, s.o.MemtableSize = 256, 1<<20
	db := storetest.Open(t, "db", s.o)
	rng := rand.New(rand.NewPCG(61, 62))
	key := func(i int) string { return fmt.Sprintf("key%03d", i) }
	for layer := range 4 {
		var w modelWrite
		for i := range 300 {
			switch {
			case layer == 0 || rng.IntN(12) == 0:
				w = append(w, modelOp{key: key(i), value: strings.Repeat(fmt.Sprint(layer, "/", i, "."), 8)})
			case rng.IntN(20) == 0:
				w = append(w, modelOp{key: key(i), del: true})
			}
		}
		if layer > 0 {
			w = append(w, modelOp{key: key(60 * layer), ranged: true, end: []byte(key(60*layer + 15))},
				modelOp{key: key(60*layer + 7), value: "back"})
		}
		must(t, errors.Join(db.ApplyWith(w.batch(), bloomkv.DurabilityNoSync), db.Flush(t.Context())))
		w.apply(s.want)
		if layer == 0 {
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		}
		storetest.Settle(t, db)
	}
	if runs := runsOf(db); runs != 4 {
		t.Fatalf("%d runs, want 4:\n%v", runs, db.Metrics())
	}
	must(t, db.Close())
	s.keys = slices.Sorted(maps.Keys(s.want))
	return s
}

// goes moves an iterator from one end to the other, and returns the number of keys it visited. They must be the right
// ones.
func (s *brittleStore) goes(it *bloomkv.Iterator, back bool) (n int, err error) {
	first, next := it.First, it.Next
	if back {
		first, next = it.Last, it.Prev
	}
	for ok := first(); ok; ok = next() {
		at := n
		if back {
			at = len(s.keys) - 1 - n
		}
		if n == len(s.keys) || string(it.Key()) != s.keys[at] || string(it.Value()) != s.want[s.keys[at]] {
			return n, fmt.Errorf("at key %d of %d, backward %v: %q = %.40q", n, len(s.keys), back, it.Key(), it.Value())
		}
		n++
	}
	return n, nil
}

// stops checks the promises of an iterator that was stopped by an error.
func stops(it *bloomkv.Iterator, cause error) error {
	err := it.Err()
	if !errors.Is(err, cause) {
		return fmt.Errorf("stopped by %w, want %w", err, cause)
	}
	for range 2 {
		if it.Next() || it.Prev() || it.Valid() || it.Key() != nil || it.Value() != nil || !errors.Is(it.Err(), cause) {
			return fmt.Errorf("it moved on to %q, valid %v, %w", it.Key(), it.Valid(), it.Err())
		}
	}
	return nil
}

// seeks seeks keys all over the store, in an order that reaches every position in several ways, and returns how many it
// found before an error.
func (s *brittleStore) seeks(it *bloomkv.Iterator, back bool) (n int, err error) {
	for i := range 60 {
		k := fmt.Appendf(nil, "key%03d", i*67%300)
		at, _ := slices.BinarySearch(s.keys, string(k))
		var ok bool
		if back {
			at--
			ok = it.SeekLT(k)
		} else {
			ok = it.SeekGE(k)
		}
		switch inside := at >= 0 && at < len(s.keys); {
		case it.Err() != nil:
			return n, nil //nolint:nilerr // the caller checks it.Err
		case ok != inside || ok && (string(it.Key()) != s.keys[at] || string(it.Value()) != s.want[s.keys[at]]):
			return n, fmt.Errorf("seek %s, backward %v: %v at %q, want position %d of %d", k, back, ok, it.Key(), at,
				len(s.keys))
		}
		n++
	}
	return n, nil
}

// TestAnIteratorStopsAtAReadThatFailsAndSkipsNothing makes one read after the other fail, once or permanently, in a
// store whose tables are not loaded, until an iterator reaches the end.
func TestAnIteratorStopsAtAReadThatFailsAndSkipsNothing(t *testing.T) {
	s := newBrittleStore(t)
	type way struct {
		name string
		move func(it *bloomkv.Iterator, back bool) (int, error)
		all  int
		back bool
	}
	for _, w := range []way{
		{"forward", s.goes, len(s.keys), false},
		{"backward", s.goes, len(s.keys), true},
		{"seeking ≥", s.seeks, 60, false},
		{"seeking <", s.seeks, 60, true},
	} {
		for _, once := range []bool{true, false} {
			failed := 0
			for n := int64(0); ; n += int64(20 / storetest.AtStride(20)) {
				var count, armed atomic.Int64
				o := *s.o
				o.FS = vfstest.NewHook(s.mem.Kill(), func(op vfstest.Op) error {
					if armed.Load() == 0 || op.Kind != vfstest.OpReadAt && op.Kind != vfstest.OpOpen ||
						!strings.HasSuffix(op.Name, ".sst") {
						return nil
					}
					if i := count.Add(1) - 1; i == n || i > n && !once {
						return syscall.EIO
					}
					return nil
				})
				o.ReadOnly = true
				db := storetest.OpenCold(t, &o)
				armed.Store(1)
				it := db.Iter(bloomkv.IterOptions{})
				got, err := w.move(it, w.back)
				if err != nil {
					t.Fatalf("%s, failing read %d: %v", w.name, n, err)
				}
				broken := it.Err() != nil
				if broken != (count.Load() > n) || !broken && got != w.all {
					t.Fatalf("%s, failing read %d of %d: the iterator ended after %d of %d keys with %v", w.name, n,
						count.Load(), got, w.all, it.Err())
				}
				if broken {
					failed++
					if err := stops(it, syscall.EIO); err != nil {
						t.Fatalf("%s, failing read %d: %v", w.name, n, err)
					}
					armed.Store(0) // reads succeed again
					if got, err := s.goes(it, w.back != (n%2 == 0)); err != nil || got != len(s.keys) ||
						it.Err() != nil {
						t.Fatalf("%s, after failing read %d: %d of %d keys, %v, %v", w.name, n, got, len(s.keys), err,
							it.Err())
					}
				}
				if err := errors.Join(it.Close(), db.Close()); err != nil {
					t.Fatalf("%s, failing read %d: close: %v", w.name, n, err)
				}
				if !broken {
					break
				}
			}
			if failed < storetest.AtStride(20) {
				t.Errorf("only %d reads failed: the test tests little", failed)
			}
			t.Logf("%s, once %v: %d reads failed", w.name, once, failed)
		}
	}
}

// TestAnIteratorOfATransactionStopsAtAReadThatFails shows no key behind the failure, though the transaction has written
// some.
func TestAnIteratorOfATransactionStopsAtAReadThatFails(t *testing.T) {
	s := newBrittleStore(t)
	var left atomic.Int64
	left.Store(1 << 40)
	o := *s.o
	o.ReadOnly = true
	o.FS = vfstest.NewHook(s.mem.Kill(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpReadAt && strings.HasSuffix(op.Name, ".sst") && left.Add(-1) < 0 {
			return syscall.EIO
		}
		return nil
	})
	db := storetest.OpenCold(t, &o)
	undo := errors.New("undo")
	if err := db.Update(t.Context(), func(tx *bloomkv.Tx) error {
		must(t, errors.Join(tx.Put([]byte("a"), nil), tx.Put([]byte("z"), nil)))
		it := tx.Iter(bloomkv.IterOptions{})
		left.Store(20)
		n := 0
		for range it.All() {
			n++
		}
		if n < 2 || n > len(s.keys) {
			t.Errorf("%d keys of %d before the failure", n, len(s.keys)+2)
		}
		if err := stops(it, syscall.EIO); err != nil {
			t.Error(err)
		}
		if !it.SeekGE([]byte("y")) || string(it.Key()) != "z" || it.Err() != nil {
			t.Errorf("a seek after the failure: %q, %v", it.Key(), it.Err())
		}
		left.Store(1 << 40)
		if !it.Last() || string(it.Key()) != "z" || !it.Prev() || string(it.Key()) != s.keys[len(s.keys)-1] {
			t.Errorf("back from the end: %q, %v", it.Key(), it.Err())
		}
		return undo
	}); err != undo { //nolint:errorlint // returned as it is
		t.Error(err)
	}
	must(t, db.Close())
}

// TestMovesAfterAReadThatFailed moves in any order after errors: an absolute move tries again, and the others stay at
// the error.
func TestMovesAfterAReadThatFailed(t *testing.T) {
	s := newBrittleStore(t)
	storetest.Uncached(t)
	stopped := 0
	for seed := range uint64(storetest.Seeds(60)) {
		rng := rand.New(rand.NewPCG(seed, 63))
		var failing atomic.Bool
		o := *s.o
		o.FS = vfstest.NewHook(s.mem.Kill(), func(op vfstest.Op) error {
			if failing.Load() && (op.Kind == vfstest.OpReadAt || op.Kind == vfstest.OpOpen) {
				return syscall.EIO
			}
			return nil
		})
		o.ReadOnly = true
		db := storetest.OpenCold(t, &o)
		it := db.Iter(bloomkv.IterOptions{})
		at, fresh, broken := -1, true, false
		for step := range 150 {
			failing.Store(rng.IntN(3) == 0)
			k := fmt.Appendf(nil, "key%03d", rng.IntN(310))
			i, _ := slices.BinarySearch(s.keys, string(k))
			var ok bool
			absolute := true
			switch rng.IntN(8) {
			case 0:
				at, ok = 0, it.First()
			case 1:
				at, ok = len(s.keys)-1, it.Last()
			case 2:
				at, ok = i, it.SeekGE(k)
			case 3:
				at, ok = i-1, it.SeekLT(k)
			case 4, 5:
				if fresh {
					at = -1
				}
				absolute = fresh
				at, ok = min(at+1, len(s.keys)), it.Next()
			default:
				if fresh {
					at = len(s.keys)
				}
				absolute = fresh
				at, ok = max(at-1, -1), it.Prev()
			}
			fresh = false
			switch inside := at >= 0 && at < len(s.keys); {
			case broken && !absolute: // stays broken
				if err := stops(it, syscall.EIO); err != nil || ok {
					t.Fatalf("seed %d, step %d: got %v, %v", seed, step, ok, err)
				}
			case it.Err() != nil:
				if err := stops(it, syscall.EIO); err != nil || ok || !failing.Load() {
					t.Fatalf("seed %d, step %d: got %v, failing %v, %v", seed, step, ok, failing.Load(), err)
				}
				broken = true
				stopped++
			case ok != inside || ok && (string(it.Key()) != s.keys[at] || string(it.Value()) != s.want[s.keys[at]]):
				t.Fatalf("seed %d, step %d: %v at %q, want position %d of %d", seed, step, ok, it.Key(), at,
					len(s.keys))
			default:
				broken = false
			}
		}
		failing.Store(false)
		if err := it.Close(); err != nil && !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
		must(t, db.Close())
	}
	if stopped < storetest.AtStride(60) {
		t.Errorf("%d moves failed: the test tests little", stopped)
	}
	t.Logf("%d moves failed", stopped)
}

// TestAnIteratorStopsAtADamagedBlockAndSkipsNothing damages each block of each table.
func TestAnIteratorStopsAtADamagedBlockAndSkipsNothing(t *testing.T) {
	s := newBrittleStore(t)
	db := storetest.Open(t, "db", s.o)
	data := map[string]int{} // sizes of the data blocks
	for _, table := range db.Tables() {
		end, err := readerOf(t, s.o.FS, "db", table.File).ApproximateOffset(deadkeys.Beyond)
		must(t, err)
		data[table.File] = int(end)
	}
	must(t, db.Close())
	blocks, unread := 0, 0
	for name, end := range data {
		if kind, _ := filename.Parse(name); kind != filename.Table {
			t.Fatal(name)
		}
		for at := 10; at < end; at += 280 * 20 / storetest.AtStride(20) {
			o := *s.o
			mem := s.mem.Kill()
			storetest.Rewrite(t, mem, filepath.Join("db", name), func(b []byte) []byte { b[at] ^= 0x10; return b })
			o.FS, o.ReadOnly = mem, true
			db := storetest.Open(t, "db", &o)
			var after [2]int
			hidden := false
			for i, back := range []bool{false, true} {
				it := db.Iter(bloomkv.IterOptions{})
				n, err := s.goes(it, back)
				if err == nil && n == len(s.keys) && it.Err() == nil { // no one needs keys hidden by a range tombstone
					hidden = true
					must(t, it.Close())
					continue
				}
				if err == nil {
					err = stops(it, bloomkv.ErrCorruption)
				}
				var damage *bloomkv.CorruptionError
				if closeErr := it.Close(); err != nil || n == len(s.keys) || !errors.As(closeErr, &damage) ||
					damage.File != name || damage.Offset > int64(at) {
					t.Fatalf("%s, byte %d, backward %v: after %d of %d keys %v, closed with %v", name, at, back, n,
						len(s.keys), err, closeErr)
				}
				after[i] = n
			}
			if hidden {
				unread++
				must(t, db.Close())
				continue
			}
			// The keys behind the damage can still be reached by seeking.
			if after[1] > 0 {
				it, n := db.Iter(bloomkv.IterOptions{}), 0
				for ok := it.SeekGE([]byte(s.keys[len(s.keys)-after[1]])); ok; ok = it.Next() {
					n++
				}
				if err := it.Close(); n < after[1]-8 || err != nil && !errors.Is(err, bloomkv.ErrCorruption) {
					t.Errorf("%s, byte %d: %d of %d keys after the damage, %v", name, at, n, after[1], err)
				}
			}
			if after[0]+after[1] > len(s.keys) {
				t.Errorf("%s, byte %d: %d keys forward and %d backward, of %d", name, at, after[0], after[1],
					len(s.keys))
			}
			blocks++
			must(t, db.Close())
		}
	}
	if blocks < storetest.AtStride(20) || unread > max(1, blocks/8) {
		t.Errorf("%d damaged bytes were read, and %d were not: the test tests little", blocks, unread)
	}
	t.Logf("%d damaged bytes were read, and %d were not", blocks, unread)
}
