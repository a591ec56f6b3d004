package sstable

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
	checkPairs(t, it, kvs)
	for ok := it.Last(); ok; ok = it.Prev() {
		if i--; i < 0 || at(it) != kvs[i] {
			t.Fatalf("backward: version %d is %.40q@%d", i, it.Key().User, it.Key().Trailer)
		}
	}
	if i != 0 || it.Err() != nil {
		t.Fatalf("backward: %d versions left: %v", i, it.Err())
	}
	rng := seeded()
	for range effortFor(kvs) {
		v := kvs[rng.IntN(len(kvs))]
		k := ikey.Key{User: []byte(v.key[:rng.IntN(len(v.key)+1)]), Trailer: v.t + ikey.Trailer(rng.IntN(3)) - 1}
		if rng.IntN(2) == 0 {
			k.User = []byte(v.key)
		}
		if rng.IntN(4) == 0 {
			k.User = append(k.User, byte(rng.Uint32()))
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
	if st := it.stats; st.CacheHits+st.Mapped > st.Blocks {
		t.Errorf("%+v: more blocks in the cache and mapped than searched", st)
	}
	must(t, it.Close())
	if _, held, _ := r.cache.Held(); held > 0 {
		t.Errorf("a closed cursor holds %d blocks", held)
	}
}

// checkPairs walks over all versions and back, in series where there are any. Each series has an end and a reader at
// random, and must lead to each version that it may lead to.
func checkPairs(t *testing.T, it *Iter, kvs []kv) {
	t.Helper()
	rng, i := seeded(), 0
	for ok := it.First(); ok; ok = it.Next() {
		if i >= len(kvs) || at(it) != kvs[i] {
			t.Fatalf("beside series: version %d is %.40q@%d", i, it.Key().User, it.Key().Trailer)
		}
		i = checkSeries(t, rng, it, kvs, i) + 1
	}
	if i != len(kvs) || it.Err() != nil {
		t.Fatalf("with series: %d versions, want %d: %v", i, len(kvs), it.Err())
	}
	i--
	for ok := it.Last(); ok; ok = it.Prev() {
		if i < 0 || at(it) != kvs[i] {
			t.Fatalf("beside series back: version %d is %.40q@%d", i, it.Key().User, it.Key().Trailer)
		}
		i = checkSeriesBack(t, rng, it, kvs, i) - 1
	}
	if i != -1 || it.Err() != nil {
		t.Fatalf("with series back: %d versions left: %v", i+1, it.Err())
	}
}

// readerOf returns the last sequence number, that of one of the versions around version i, or the one before.
func readerOf(rng *rand.Rand, kvs []kv, i int) ikey.Seq {
	if rng.IntN(2) == 0 {
		return ikey.MaxSeq
	}
	seq := kvs[min(i+rng.IntN(4), len(kvs)-1)].t.Seq()
	return seq - min(seq, ikey.Seq(rng.IntN(2)))
}

// checkSeries walks over a series from version i on, and returns the version that it leads to. A series may go on in
// the next block.
func checkSeries(t *testing.T, rng *rand.Rand, it *Iter, kvs []kv, i int) int {
	t.Helper()
	seq := readerOf(rng, kvs, i)
	upper := []byte(kvs[rng.IntN(len(kvs)-i)+i].key)
	if rng.IntN(3) == 0 {
		upper = nil
	}
	visible := func(v kv) bool { return v.t.Seq() <= seq }
	number, before := it.at, i-it.i // versions before the block
	// The series leads to version j, if it leads anywhere. It must if that is in the block, and may if the block is
	// over.
	next := func() (j int, must, may bool) {
		if it.at != number {
			number, before = it.at, i
		}
		for j = i + 1; j < len(kvs) && (kvs[j].key == kvs[i].key || !visible(kvs[j])); j++ {
		}
		ok := j < len(kvs) && (upper == nil || kvs[j].key < string(upper)) && kvs[j].t.Kind() == ikey.Set
		return j, ok && j-before < it.b.n, ok && j == i+1 && j-before == it.b.n
	}
	if !visible(kvs[i]) || kvs[i].t.Kind() != ikey.Set {
		return i
	}
	if !it.EnterPairs(upper, seq) {
		if _, must, _ := next(); must {
			t.Fatalf("no series before %.40q from version %d for a reader at %d", upper, i, seq)
		}
		return i
	}
	for {
		j, must, may := next()
		ok := it.Advance()
		if must && !ok || ok && !must && !may {
			t.Fatalf("in a series before %.40q from version %d for a reader at %d: %v", upper, i, seq, ok)
		}
		if !ok {
			break
		}
		i = j
		key, value := it.Pair()
		if string(key) != kvs[i].key || string(value) != kvs[i].value {
			t.Fatalf("in a series before %.40q: version %d is %.40q", upper, i, key)
		}
	}
	it.LeavePairs()
	if at(it) != kvs[i] {
		t.Fatalf("after a series: version %d is %.40q@%d", i, it.Key().User, it.Key().Trailer)
	}
	return i
}

// checkSeriesBack walks over a series from version i on back, and returns the version that it leads to.
func checkSeriesBack(t *testing.T, rng *rand.Rand, it *Iter, kvs []kv, i int) int {
	t.Helper()
	seq := readerOf(rng, kvs, i)
	lower := []byte(kvs[rng.IntN(i+1)].key)
	if rng.IntN(3) == 0 {
		lower = nil
	}
	before := i - it.i // versions before the block
	shown := func() bool {
		v := kvs[i]
		return i > before && v.t.Seq() <= seq && v.t.Kind() == ikey.Set && kvs[i-1].key != v.key &&
			(lower == nil || kvs[i-1].key > string(lower))
	}
	ok := it.EnterPairsBack(lower, seq)
	if ok != shown() {
		t.Fatalf("a series behind %.40q from version %d for a reader at %d: %v", lower, i, seq, ok)
	}
	if !ok {
		return i
	}
	for {
		want := shown()
		ok := it.Advance()
		if ok != want {
			t.Fatalf("a series behind %.40q from version %d for a reader at %d: %v, want %v", lower, i, seq, ok, want)
		}
		if !ok {
			break
		}
		key, value := it.Pair()
		if string(key) != kvs[i].key || string(value) != kvs[i].value {
			t.Fatalf("in a series behind %.40q: version %d is %.40q", lower, i, key)
		}
		i--
	}
	it.LeavePairs()
	if at(it) != kvs[i] {
		t.Fatalf("after a series back: version %d is %.40q@%d", i, it.Key().User, it.Key().Trailer)
	}
	return i
}

// TestPairsGoOnInCachedBlocks walks over a table in one series, with an end and without, and with long keys, of which
// fewer are made at once.
func TestPairsGoOnInCachedBlocks(t *testing.T) {
	for _, prefix := range []int{0, 200, 3000} {
		var kvs []kv
		for i := range 300 {
			kvs = append(kvs, set(fmt.Sprintf("%s%07d", strings.Repeat("p", prefix), i), 0, strings.Repeat("v", 100)))
		}
		file, info := build(t, WriterOptions{ID: 1, partSize: defaultPartSize}, kvs)
		it := newReader(file, info, 64<<20).Iter(IterOptions{})
		for _, cached := range []bool{false, true} {
			for _, end := range []int{len(kvs), len(kvs) / 2, len(kvs) / 3} {
				if !it.First() || it.b.n >= len(kvs)/4 {
					t.Fatalf("%d entries in the first block", it.b.n)
				}
				first, want := it.b.n, end
				var upper []byte
				if end < len(kvs) {
					upper = []byte(kvs[end].key)
				}
				if !cached {
					want = first
				}
				if !it.EnterPairs(upper, ikey.MaxSeq) {
					t.Fatal("there is no series")
				}
				shown := 1
				for ; it.Advance(); shown++ {
					if key, value := it.Pair(); string(key) != kvs[shown].key || string(value) != kvs[shown].value {
						t.Fatalf("pair %d: %.40q = %.40q", shown, key, value)
					}
				}
				if it.LeavePairs(); shown != want || at(it) != kvs[shown-1] {
					t.Errorf("cached %v, prefix %d: a series before pair %d shows %d pairs, want %d, and ends at %.40q",
						cached, prefix, end, shown, want, it.Key().User)
				}
			}
			for ok := it.First(); ok; ok = it.Next() { // now all blocks are cached
			}
		}
		must(t, it.Close())
	}
}

// TestPairsGoOnBeforeAHeadLikeTheBytesBeforeIt has blocks whose first head equals what is in front of the heads.
func TestPairsGoOnBeforeAHeadLikeTheBytesBeforeIt(t *testing.T) {
	found := 0
	for n := 20; n < 60; n++ {
		var kvs []kv
		for i := range n {
			kvs = append(kvs, set(fmt.Sprintf("AAAA%04d", i), 0, strings.Repeat("v", 100)))
		}
		for i := range 100 {
			key := fmt.Sprintf("aaaaaaaa%c%07d", 'a'+min(i, 1), i)
			kvs = append(kvs, set(key, ikey.Seq(n%2), strings.Repeat("v", 100)))
		}
		kvs[n].key = strings.Repeat("a", 16)
		file, info := build(t, WriterOptions{ID: 1}, kvs)
		it := newReader(file, info, 64<<20).Iter(IterOptions{})
		for ok := it.First(); ok; ok = it.Next() {
			if it.i == 0 && it.b.prefix == 8 && string(it.key) == kvs[n].key {
				found++
			}
		}
		for range 4 { // with other ends
			checkPairs(t, it, kvs)
		}
		must(t, it.Close())
	}
	if found == 0 {
		t.Error("there is no such block")
	}
}

func TestAPooledCursorAllocatesNothing(t *testing.T) {
	var kvs []kv
	for i := range 4000 {
		kvs = append(kvs, set(fmt.Sprintf("key%05d", i), ikey.Seq(i%2), "0123456789"))
	}
	file, info := build(t, WriterOptions{ID: 1, Codec: S2, partSize: defaultPartSize}, kvs)
	r, other := newReader(file, info, 1<<20), newReader(file, info, 1<<20)
	var it Iter
	n := 0
	for _, o := range []IterOptions{{}, {Bypass: true}} {
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
	for _, o := range []IterOptions{{}, {Bypass: true}} {
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

// TestPairsHaveKeysOfEveryLength has keys of one length in each block: the bytes behind a head are copied apart.
func TestPairsHaveKeysOfEveryLength(t *testing.T) {
	for n := 2; n < 20; n++ {
		var kvs []kv
		for i := range 100 {
			key := fmt.Sprintf("%c%0*d", 'a'+i/4, n-1, i%4) // no bytes that all share
			kvs = append(kvs, set(key[:len(key)-1]+string(rune('0'+i%4)), 0, "twenty bytes of data"))
		}
		file, info := build(t, WriterOptions{ID: 1}, kvs)
		it := newReader(file, info, 64<<20).Iter(IterOptions{})
		for range 4 { // with other ends
			checkPairs(t, it, kvs)
		}
		must(t, it.Close())
	}
}

// TestASeekBehindTheOldestVersionStaysInTheTable seeks the version before one that would be the last.
func TestASeekBehindTheOldestVersionStaysInTheTable(t *testing.T) {
	kvs := []kv{set("a", 2, "v"), set("z", 9, "v"), set("z", 5, "v")}
	for _, values := range []string{"v", strings.Repeat("v", 5000)} { // in one block, and in three
		for i := range kvs {
			kvs[i].value = values
		}
		file, info := build(t, WriterOptions{ID: 1}, kvs)
		it := newReader(file, info, 64<<20).Iter(IterOptions{})
		if ok := it.SeekLT(ikey.Key{User: []byte("z")}); !ok || at(it) != kvs[2] || it.Err() != nil {
			t.Errorf("%v, %v, want the oldest version", ok, it.Err())
		}
		must(t, it.Close())
	}
}
