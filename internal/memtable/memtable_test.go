package memtable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

var must = testkit.Must

func add(t *Table, key string, seq ikey.Seq, kind ikey.Kind, value string) {
	t.Add([]byte(key), bloomblock.HashKey([]byte(key)), seq, kind, []byte(value))
}

func get(t *Table, key string, seq ikey.Seq) string {
	v, trailer, ok := t.Get([]byte(key), bloomblock.HashKey([]byte(key)), seq)
	if !ok {
		return "none"
	}
	return trailer.Kind().String() + " " + string(v)
}

func TestGet(t *testing.T) {
	tb := newTable(t, nil, 0)
	add(tb, "a", 1, ikey.Set, "one")
	add(tb, "a", 3, ikey.Delete, "")
	add(tb, "a", 5, ikey.Set, "five")
	add(tb, "", 6, ikey.Set, "of the empty key")
	add(tb, "empty", 7, ikey.Set, "")
	add(tb, "end", 8, ikey.RangeDelete, "f")
	for _, test := range []struct {
		name, key string
		seq       ikey.Seq
		want      string
		at        ikey.Seq
	}{
		{"the newest version is found", "a", ikey.MaxSeq, "SET five", 5},
		{"a version is visible at its own sequence", "a", 5, "SET five", 5},
		{"a reader before it sees the older one", "a", 4, "DEL ", 3},
		{"a tombstone is a hit", "a", 3, "DEL ", 3},
		{"the oldest is at the end of the chain", "a", 2, "SET one", 1},
		{"before the first version there is none", "a", 0, "none", 0},
		{"the empty key is a key", "", 6, "SET of the empty key", 6},
		{"the empty value is a value", "empty", 9, "SET ", 7},
		{"other kinds come back as they are", "end", 9, "RANGEDEL f", 8},
		{"a key that was never added is not there", "b", 9, "none", 0},
		{"a prefix of a key is another key", "emp", 9, "none", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := get(tb, test.key, test.seq); got != test.want {
				t.Errorf("Get(%q, %d) = %q, want %q", test.key, test.seq, got, test.want)
			}
			if _, trailer, _ := tb.Get([]byte(test.key), bloomblock.HashKey([]byte(test.key)),
				test.seq); trailer.Seq() != test.at {
				t.Errorf("Get(%q, %d) finds sequence %d, want %d", test.key, test.seq, trailer.Seq(), test.at)
			}
		})
	}
	if n, k := tb.Len(), tb.Keys(); n != 6 || k != 4 {
		t.Errorf("Len, Keys = %d, %d, want 6, 4", n, k)
	}
}

func TestNilIsTheEmptyKey(t *testing.T) {
	tb := newTable(t, nil, 0)
	tb.Add(nil, bloomblock.HashKey(nil), 1, ikey.Set, nil)
	if v, _, ok := tb.Get([]byte{}, bloomblock.HashKey([]byte{}), 1); !ok || len(v) != 0 {
		t.Errorf("Get(empty) = %q, %v, want an empty value", v, ok)
	}
	c := tb.Iter(1)
	if !c.SeekGE(ikey.Search(nil, 1)) || len(c.Key().User) != 0 {
		t.Error("the cursor does not find the empty key")
	}
}

func TestAnEmptyTable(t *testing.T) {
	tb := newTable(t, nil, 0)
	c := tb.Iter(ikey.MaxSeq)
	if c.First() || c.SeekGE(ikey.Search([]byte("a"), ikey.MaxSeq)) || c.Next() {
		t.Error("a cursor of an empty table stands somewhere")
	}
	if p := tb.CommonPrefix(); len(p) != 0 {
		t.Errorf("CommonPrefix = %q, want none", p)
	}
	if n := tb.Bytes(); n > 8<<10 {
		t.Errorf("Bytes = %d, want at most 8 KiB", n)
	}
	newTable(t, nil, 1000) // its index is too large for a chunk, so there is none to give back
}

func TestAddOpsAddsVersionsAndRanges(t *testing.T) {
	tb, key := newTable(t, nil, 0), []byte("b")
	tb.AddOps(1, []Op{
		{Seq: 1, Kind: ikey.Set, Key: key, Value: []byte("one"), Hash: bloomblock.HashKey(key)},
		{Seq: 2, Kind: ikey.RangeDelete, Key: []byte("a"), Value: []byte("c")},
		{Seq: 3, Kind: ikey.Delete, Key: key, Hash: bloomblock.HashKey(key)},
	})
	got := []any{get(tb, "b", 2), get(tb, "b", 3), tb.RangeDels().Covering(key, 9), tb.Len(), tb.Keys()}
	if want := []any{"SET one", "DEL ", ikey.Seq(2), 3, 1}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLargeKeysAndValues(t *testing.T) {
	testkit.Long(t)
	tb := newTable(t, []byte("k"), 0)
	rng := rand.New(rand.NewPCG(1, 1))
	want := map[string][]byte{}
	for i, size := range []int{
		0, 1, 3000, 5000, 64 << 10, 300 << 10, 1<<19 - 1, 1 << 19, maxChunk - versionHeader - 1, maxChunk, 5 << 20,
		100,
	} {
		for _, keyLen := range []int{1, 1<<10 - 1, 1 << 10, 64 << 10} { // shape has lengths up to 2¹⁰ and 2¹⁹
			k, v := bytes.Repeat([]byte{byte('a' + i)}, keyLen), make([]byte, size)
			for j := range v {
				v[j] = byte(rng.Uint32())
			}
			tb.Add(k, bloomblock.HashKey(k), 1, ikey.Set, v)
			want[string(k)] = v
		}
	}
	add(tb, "b", 2, ikey.Set, "newer")
	for k, v := range want {
		got, _, ok := tb.Get([]byte(k), bloomblock.HashKey([]byte(k)), 1)
		if !ok || !bytes.Equal(got, v) {
			t.Errorf("key of %d bytes %q: got %d bytes, want %d", len(k), k[0], len(got), len(v))
		}
		if cap(got) != len(got) {
			t.Errorf("a value has a capacity of %d bytes that are not its own", cap(got)-len(got))
		}
	}
	n, c := 0, tb.Iter(1)
	for ok := c.First(); ok; ok = c.Next() {
		if !bytes.Equal(c.Value(), want[string(c.Key().User)]) {
			t.Errorf("cursor at entry %d: wrong value", n)
		}
		n++
	}
	if n != len(want) {
		t.Errorf("the cursor saw %d entries, want %d", n, len(want))
	}
}

// TestAPairOf116BytesTakesAtMost162 fills tables, of which each expects what the one before had.
func TestAPairOf116BytesTakesAtMost162(t *testing.T) {
	testkit.Long(t)
	rng, keys := rand.New(rand.NewPCG(1, 2)), 0
	for _, size := range []int64{32 << 20, 32 << 20} {
		tb, n := NewIn(NewMemory(), nil, keys, size), 0
		for ; tb.Bytes() < size; n++ {
			k := fmt.Sprintf("%016x", rng.Uint64())
			add(tb, k, ikey.Seq(n+1), ikey.Set, k+strings.Repeat(".", 84))
		}
		if each := float64(tb.Bytes()) / float64(n); each > 162 {
			t.Errorf("%d pairs of 116 bytes take %.1f each", n, each)
		}
		keys = tb.Keys()
	}
}

func TestTheTableFindsThePrefixOfItsKeys(t *testing.T) {
	testkit.LongUnderRace(t)
	for _, test := range []struct {
		name, given, want string
		key               func(i int) string
	}{
		{"zero-padded numbers", "", "00000000000", func(i int) string { return fmt.Sprintf("%016d", i*7919%10000) }},
		{"a few strangers at both ends", "", "tenant/items/", func(i int) string {
			switch i % 100 {
			case 0:
				return fmt.Sprint("a", i)
			case 1:
				return fmt.Sprint("z", i)
			}
			return fmt.Sprintf("tenant/items/0%03d/%d", i*7919%1000, i)
		}},
		{
			"a wrong guess is given up", "user/", "object",
			func(i int) string { return fmt.Sprint("object/", "ab"[i%2:i%2+1], i) },
		},
		{"the first keys are others", "", "tenant/items/", func(i int) string {
			if i < 2*sampleSize-1 {
				return fmt.Sprint("abc"[i%3:], i)
			}
			return fmt.Sprintf("tenant/items/0%03d/%d", i*7919%1000, i)
		}},
		{"no common prefix", "", "", func(i int) string { return strconv.Itoa(i % 10) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			tb := newTable(t, []byte(test.given), 0)
			for i := range 10000 {
				add(tb, test.key(i), ikey.Seq(i), ikey.Set, "")
			}
			// One byte less than the longest: keys move on.
			if got := string(tb.CommonPrefix()); got != test.want {
				t.Errorf("CommonPrefix = %q, want %q", got, test.want)
			}
			if got := string(tb.prefix); got != test.want {
				t.Errorf("heads are taken after %q, want %q", got, test.want)
			}
			tree := tb.tree
			if tb.rehead(); tb.tree != tree {
				t.Error("the tree was made anew after the same prefix")
			}
		})
	}
}

func TestThePrefixIsThatOfAllButTheOutermostKeys(t *testing.T) {
	keys := make([][]byte, 2*16)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "tenant/%02d", i)
	}
	keys[0], keys[1], keys[30], keys[31] = []byte("a"), []byte("b"), []byte("u"), []byte("z")
	if got := string(sharedPrefix(keys)); got != "tenant" {
		t.Errorf("got %q, want %q", got, "tenant")
	}
	if one, two := sharedPrefix(keys[2:3]), sharedPrefix(keys[2:4]); one != nil || string(two) != "tenant/" {
		t.Errorf("of one key %q, of two %q, want none and %q", one, two, "tenant/")
	}
}

func TestTheTailFillsItsChunks(t *testing.T) {
	tb := newTable(t, nil, 0)
	for i := range 2*tailChunk + 1 {
		add(tb, fmt.Sprintf("%04d", i), ikey.Seq(i+1), ikey.Set, "")
	}
	if n := len(tb.tail.chunks); n != 3 {
		t.Errorf("%d chunks for two full ones and a key, want 3", n)
	}
}

func TestDistinctHeadsAreCounted(t *testing.T) {
	for _, test := range []struct {
		prefix, keys string // sorted
		want         int
	}{
		{"", "", 1}, // the empty key, whose head is 0
		{"", " \x00", 1},
		{"", "a a", 1},
		{"", "a b", 2},
		{"", "12345678x 12345678y 12345679", 2},
		{"1234", "12345678x 12345678y 12345679", 3},
		{"m", "a b n o", 2},
	} {
		keys := bytes.Split([]byte(test.keys), []byte(" "))
		if got := distinct([]byte(test.prefix), keys); got != test.want {
			t.Errorf("%q after %q: %d, want %d", keys, test.prefix, got, test.want)
		}
	}
}

// Without this, a lookup would wait for a flush or a scan that holds the lock.
func TestGetReturnsWhileTheLockIsHeld(t *testing.T) {
	tb := newTable(t, nil, 0)
	for i := range 1000 {
		add(tb, strconv.Itoa(i), ikey.Seq(i), ikey.Set, "v")
	}
	tb.mu.Lock()
	defer tb.mu.Unlock()
	done := make(chan string)
	go func() { done <- get(tb, "500", ikey.MaxSeq) + ", " + get(tb, "absent", ikey.MaxSeq) }()
	select {
	case got := <-done:
		if got != "SET v, none" {
			t.Errorf("got %s", got)
		}
	case <-time.After(testkit.Patience):
		t.Error("Get waits for the lock")
	}
	add := make(chan struct{})
	go func() { // an overwrite does not touch the tree either
		tb.Add([]byte("500"), bloomblock.HashKey([]byte("500")), 2000, ikey.Set, nil)
		close(add)
	}()
	select {
	case <-add:
	case <-time.After(testkit.Patience):
		t.Error("overwriting waits for the lock")
	}
}

func TestGetAllocatesNothing(t *testing.T) {
	tb := newTable(t, nil, 0)
	for i := range 1000 {
		add(tb, strconv.Itoa(i), ikey.Seq(i), ikey.Set, "v")
	}
	for _, key := range []string{"500", "absent"} {
		k := []byte(key)
		h := bloomblock.HashKey(k)
		if n := testing.AllocsPerRun(100, func() { tb.Get(k, h, ikey.MaxSeq) }); n != 0 {
			t.Errorf("Get(%s) allocates %v times", key, n)
		}
	}
}

// Readers look for what the writer has published while tree, index, arena and prefix all grow under them.
func TestGetBesideAWriter(t *testing.T) {
	const n = 20000
	tb := newTable(t, nil, 0)
	var published atomic.Int64
	var wg sync.WaitGroup
	for r := range 2 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(r), 0))
			for p := int64(0); p < n; p = published.Load() {
				if p == 0 {
					runtime.Gosched()
					continue
				}
				i := rng.Int64N(p) + 1
				want := fmt.Sprint("SET ", i)
				if got := get(tb, numbered(i), ikey.Seq(i)); got != want {
					t.Errorf("Get(%s, %d) = %s, want %s", numbered(i), i, got, want)
					return
				}
				if got := get(tb, fmt.Sprint("absent", i), ikey.MaxSeq); got != "none" {
					t.Errorf("Get(absent) = %s", got)
					return
				}
			}
		})
	}
	for i := int64(1); i <= n; i++ {
		add(tb, numbered(i), ikey.Seq(i), ikey.Set, strconv.FormatInt(i, 10))
		published.Store(i)
	}
	wg.Wait()
}

// numbered returns the key of operation i; three in four are overwritten later.
func numbered(i int64) string { return fmt.Sprintf("key/%012d", i*2654435761%8000) }

func TestAddAfterFreezeIsABug(t *testing.T) {
	tb := newTable(t, nil, 0)
	tb.Freeze()
	defer func() {
		if recover() == nil {
			t.Error("Add after Freeze does not panic")
		}
	}()
	add(tb, "k", 1, ikey.Set, "")
}

// The memory budget freezes memtables by Bytes, so Bytes must agree with the heap.
func TestBytesIsTheMemoryTaken(t *testing.T) {
	testkit.LongUnderRace(t)
	for _, test := range []struct {
		name        string
		keys, value int
		ascending   bool
	}{
		{"many small entries, shuffled", 50_000, 20, false},
		{"many small entries, ascending", 50_000, 20, true},
		{"some large entries", 1000, 20_000, false},
		{"few entries", 500, 10, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			order := rand.New(rand.NewPCG(1, 1)).Perm(test.keys)
			value, key := make([]byte, test.value), make([]byte, 16)
			before := heap()
			tb := New(nil, 0, 0)
			for i, j := range order {
				if test.ascending {
					j = i
				}
				binary.BigEndian.PutUint64(key[8:], uint64(j))
				tb.Add(key, bloomblock.HashKey(key), ikey.Seq(i), ikey.Set, value)
			}
			got, want := tb.Bytes(), heap()-before
			if d := float64(got) / float64(want); d < 0.9 || d > 1.15 {
				t.Errorf("Bytes = %d, the heap grew by %d: %.2f of it, want 0.9 to 1.15", got, want, d)
			}
			if net := int64(test.keys * (16 + test.value)); test.keys > 1000 {
				t.Logf("%d bytes per entry over %d of key and value", (got-net)/int64(test.keys), net/int64(test.keys))
			}
			runtime.KeepAlive(order)
			runtime.KeepAlive(tb)
		})
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestTheFirstIndexHasNoMoreKeysThanTheTableWill begins a table after one that was much larger. It has capacity for as
// many keys as it can have, and hardly more.
func TestTheFirstIndexHasNoMoreKeysThanTheTableWill(t *testing.T) {
	const size = 1 << 20
	tb := NewIn(NewMemory(), nil, 10_000_000, size)
	defer tb.Release()
	if n := tb.Bytes(); n > size/2 {
		t.Errorf("an empty table takes %d bytes of %d", n, size)
	}
	for key := []byte("0000"); tb.Bytes() < size; {
		binary.BigEndian.PutUint32(key, uint32(tb.Len()))
		tb.Add(key, bloomblock.HashKey(key), 1, ikey.Delete, nil)
	}
	if most, limit := tb.Keys(), tb.index.Load().limit(); limit < most || limit > most*4/3 {
		t.Errorf("the table is full with %d keys, its index has capacity for %d", most, limit)
	}
}

func TestASampleIsSmallAndOfAllKeys(t *testing.T) {
	var s sample
	const n = 10_000
	for i := range uint32(n) {
		s.add(ref(i), i)
		if len(s.keys) > sampleSize {
			t.Fatalf("%d of %d keys, want at most %d", len(s.keys), i+1, sampleSize)
		}
	}
	last := ref(0)
	for i, key := range s.keys {
		if gap := key - last; i > 0 && (gap == 0 || gap > 4*n/sampleSize*2) {
			t.Errorf("keys %d to %d are not sampled", last, key)
		}
		last = key
	}
	if len(s.keys) < sampleSize/2 || last < n*9/10 {
		t.Errorf("%d keys up to %d, want at least %d up to the last", len(s.keys), last, sampleSize/2)
	}
}
