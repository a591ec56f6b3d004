package memtable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

func add(t *Table, key string, seq ikey.Seq, kind ikey.Kind, value string) {
	t.Add([]byte(key), bloomblock.HashKey([]byte(key)), seq, kind, []byte(value))
}

func get(t *Table, key string, seq ikey.Seq) string {
	v, kind, ok := t.Get([]byte(key), bloomblock.HashKey([]byte(key)), seq)
	if !ok {
		return "none"
	}
	return kind.String() + " " + string(v)
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

func TestGet(t *testing.T) {
	tb := New(nil, 0)
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
	}{
		{"the newest version is found", "a", ikey.MaxSeq, "SET five"},
		{"a version is visible at its own sequence", "a", 5, "SET five"},
		{"a reader before it sees the older one", "a", 4, "DEL "},
		{"a tombstone is a hit", "a", 3, "DEL "},
		{"the oldest is at the end of the chain", "a", 2, "SET one"},
		{"before the first version there is none", "a", 0, "none"},
		{"the empty key is a key", "", 6, "SET of the empty key"},
		{"the empty value is a value", "empty", 9, "SET "},
		{"other kinds come back as they are", "end", 9, "RANGEDEL f"},
		{"a key that was never added is not there", "b", 9, "none"},
		{"a prefix of a key is another key", "emp", 9, "none"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := get(tb, test.key, test.seq); got != test.want {
				t.Errorf("Get(%q, %d) = %q, want %q", test.key, test.seq, got, test.want)
			}
		})
	}
	if n, k := tb.Len(), tb.Keys(); n != 6 || k != 4 {
		t.Errorf("Len, Keys = %d, %d, want 6, 4", n, k)
	}
	if lo, hi := tb.Seqs(); lo != 1 || hi != 8 {
		t.Errorf("Seqs = %d, %d, want 1, 8", lo, hi)
	}
}

func TestNilIsTheEmptyKey(t *testing.T) {
	tb := New(nil, 0)
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
	tb := New(nil, 0)
	c := tb.Iter(ikey.MaxSeq)
	if c.First() || c.SeekGE(ikey.Search([]byte("a"), ikey.MaxSeq)) || c.Next() {
		t.Error("a cursor of an empty table stands somewhere")
	}
	if lo, hi := tb.Seqs(); lo != 0 || hi != 0 {
		t.Errorf("Seqs = %d, %d, want 0, 0", lo, hi)
	}
	if p := tb.CommonPrefix(); len(p) != 0 {
		t.Errorf("CommonPrefix = %q, want none", p)
	}
	if n := tb.Bytes(); n > 8<<10 {
		t.Errorf("Bytes = %d, want at most 8 KiB", n)
	}
}

func TestAVersionThatComesLateTakesItsPlace(t *testing.T) {
	tb := New(nil, 0)
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
	if lo, hi := tb.Seqs(); lo != 1 || hi != 9 {
		t.Errorf("Seqs = %d, %d, want 1, 9", lo, hi)
	}
}

func TestSeek(t *testing.T) {
	tb := New([]byte("p/"), 0)
	for i, k := range []string{"p/b", "p/a", "zz", "a", "p", "p/b"} {
		add(tb, k, ikey.Seq(i+1), ikey.Set, "")
	}
	for _, test := range []struct {
		name, user string
		at, seq    ikey.Seq // of the search, of the cursor
		want       string
	}{
		{"from the empty key all are seen", "", 9, 9, "a@4:SET= p@5:SET= p/a@2:SET= p/b@6:SET= p/b@1:SET= zz@3:SET= "},
		{"a key between two goes to the second", "p/", 9, 9, "p/a@2:SET= p/b@6:SET= p/b@1:SET= zz@3:SET= "},
		{"a key before the prefix", "b", 9, 9, "p@5:SET= p/a@2:SET= p/b@6:SET= p/b@1:SET= zz@3:SET= "},
		{"an older place in a key skips its newer versions", "p/b", 5, 9, "p/b@1:SET= zz@3:SET= "},
		{"a place behind all versions of a key is in the next", "p/b", 0, 9, "zz@3:SET= "},
		{"the cursor's sequence hides what is newer", "p/b", 9, 5, "p/b@1:SET= zz@3:SET= "},
		{"a key without a visible version is passed over", "p", 9, 4, "p/a@2:SET= p/b@1:SET= zz@3:SET= "},
		{"the last key", "zz", 9, 9, "zz@3:SET= "},
		{"behind the last key there is nothing", "zzz", 9, 9, ""},
	} {
		for _, frozen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, frozen %v", test.name, frozen), func(t *testing.T) {
				if frozen {
					tb.Freeze()
				}
				c := tb.Iter(test.seq)
				if got := all(c, c.SeekGE(ikey.Search([]byte(test.user), test.at))); got != test.want {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
			if !frozen {
				// Freeze is for ever: begin again with an equal table.
				old := tb
				tb = New([]byte("p/"), 0)
				c := old.Iter(ikey.MaxSeq)
				for ok := c.First(); ok; ok = c.Next() {
					k := c.Key()
					tb.Add(k.User, bloomblock.HashKey(k.User), k.Trailer.Seq(), k.Trailer.Kind(), c.Value())
				}
			}
		}
	}
}

type entry struct {
	k ikey.Key
	v string
}

func sortEntries(es []entry) {
	slices.SortFunc(es, func(a, b entry) int { return ikey.Compare(a.k, b.k) })
}

// Keys of all shapes and a prefix that suits few of them: against a sorted slice.
func TestAgainstASortedSlice(t *testing.T) {
	for _, shape := range []struct {
		name   string
		prefix string
		key    func(rng *rand.Rand) []byte
	}{
		{"numbers without a prefix", "", func(r *rand.Rand) []byte { return fmt.Appendf(nil, "%016d", r.IntN(3000)) }},
		{"numbers with a prefix of all", "00000000", func(r *rand.Rand) []byte { return fmt.Appendf(nil, "%016d", r.IntN(3000)) }},
		{"numbers with a prefix of none", "user/", func(r *rand.Rand) []byte { return fmt.Appendf(nil, "%016d", r.IntN(3000)) }},
		{"two tenants", "tenant/1/", func(r *rand.Rand) []byte { return fmt.Appendf(nil, "tenant/%d/%d", r.IntN(2), r.IntN(1500)) }},
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
			tb := New([]byte(shape.prefix), 0)
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
					i, _ := slices.BinarySearchFunc(want, k, func(e entry, k ikey.Key) int { return ikey.Compare(e.k, k) })
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

func TestLargeKeysAndValues(t *testing.T) {
	tb := New([]byte("k"), 0)
	rng := rand.New(rand.NewPCG(1, 1))
	want := map[string][]byte{}
	for i, size := range []int{0, 1, 3000, 5000, 64 << 10, 300 << 10, maxChunk - versionHeader - 1, maxChunk, 5 << 20, 100} {
		for _, keyLen := range []int{1, 64 << 10} {
			k, v := bytes.Repeat([]byte{byte('a' + i)}, keyLen), make([]byte, size)
			for j := range v {
				v[j] = byte(rng.Uint32())
			}
			tb.Add(k, bloomblock.HashKey(k), 1, ikey.Set, v)
			want[string(k)] = v
		}
	}
	for k, v := range want {
		got, _, ok := tb.Get([]byte(k), bloomblock.HashKey([]byte(k)), 1)
		if !ok || !bytes.Equal(got, v) {
			t.Errorf("key of %d bytes %q: got %d bytes, want %d", len(k), k[0], len(got), len(v))
		}
		if cap(got) != len(got) {
			t.Errorf("a value has room for %d bytes that are not its own", cap(got)-len(got))
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

func TestTheTableFindsThePrefixOfItsKeys(t *testing.T) {
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
		{"a wrong guess is given up", "user/", "object", func(i int) string { return fmt.Sprint("object/", "ab"[i%2:i%2+1], i) }},
		{"no common prefix", "", "", func(i int) string { return strconv.Itoa(i % 10) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			tb := New([]byte(test.given), 0)
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
		})
	}
}

// Without this, a lookup would wait for a flush or a scan that holds the lock.
func TestGetReturnsWhileTheLockIsHeld(t *testing.T) {
	tb := New(nil, 0)
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
	case <-time.After(10 * time.Second):
		t.Error("Get waits for the lock")
	}
	add := make(chan struct{})
	go func() { // an overwrite does not touch the tree either
		tb.Add([]byte("500"), bloomblock.HashKey([]byte("500")), 2000, ikey.Set, nil)
		close(add)
	}()
	select {
	case <-add:
	case <-time.After(10 * time.Second):
		t.Error("overwriting waits for the lock")
	}
}

func TestGetAllocatesNothing(t *testing.T) {
	tb := New(nil, 0)
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

func TestASeekAllocatesNothing(t *testing.T) {
	tb := New(nil, 0)
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

// Readers look for what the writer has published while tree, index, arena and prefix all grow under them.
func TestGetBesideAWriter(t *testing.T) {
	const n = 20000
	tb := New(nil, 0)
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

// numbered is the key of operation i; three in four are overwritten later.
func numbered(i int64) string { return fmt.Sprintf("key/%012d", i*2654435761%8000) }

// A cursor at S sees exactly the versions up to S, however much is added while it walks.
func TestCursorsBesideAWriter(t *testing.T) {
	const n = 6000
	var es []entry // in order, all that will ever be there
	for i := int64(1); i <= n; i++ {
		es = append(es, entry{ikey.Key{User: []byte(numbered(i)), Trailer: ikey.MakeTrailer(ikey.Seq(i), ikey.Set)}, strconv.FormatInt(i, 10)})
	}
	sortEntries(es)
	tb := New(nil, 0)
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
	tb := New(nil, 0)
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

func TestAddAfterFreezeIsABug(t *testing.T) {
	tb := New(nil, 0)
	tb.Freeze()
	defer func() {
		if recover() == nil {
			t.Error("Add after Freeze does not panic")
		}
	}()
	add(tb, "k", 1, ikey.Set, "")
}

// The memory budget rotates memtables by Bytes, so it must tell the truth about the heap.
func TestBytesIsTheMemoryTaken(t *testing.T) {
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
			tb := New(nil, 0)
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
