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

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// AddRange adds a range tombstone that is in a record of its own.
func (t *Table) AddRange(start, end []byte, seq ikey.Seq) {
	t.AddOps(seq, []Op{{Seq: seq, Kind: ikey.RangeDelete, Key: start, Value: end}})
}

// covering asks each tombstone.
func covering(ts []rangedel.Tombstone, key []byte, seq ikey.Seq) (newest ikey.Seq) {
	for _, d := range ts {
		if d.Seq <= seq && bytes.Compare(d.Start, key) <= 0 && (d.End == nil || bytes.Compare(key, d.End) < 0) {
			newest = max(newest, d.Seq)
		}
	}
	return newest
}

// rangeKeys returns bounds and keys in order: prefixes of each other, the empty key, and the last possible one.
func rangeKeys() [][]byte {
	keys := [][]byte{
		{},
		{0},
		{0, 0},
		[]byte("a"), []byte("a\x00"), []byte("ab"), []byte("b"),
		{0xff},
		bytes.Repeat([]byte{0xff}, 20),
	}
	for i := range 12 {
		keys = append(keys, fmt.Appendf(nil, "key%02d", i))
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys
}

// checkRanges compares the tombstones of a table for each key, at each sequence number, with asking each tombstone.
func checkRanges(t *testing.T, r *RangeDels, ts []rangedel.Tombstone, largest ikey.Seq) {
	t.Helper()
	keys := rangeKeys()
	for seq := ikey.Seq(0); seq <= largest+1; seq++ {
		for _, key := range keys {
			want := covering(ts, key, seq)
			if got := r.Covering(key, seq); got != want {
				t.Fatalf("%v over %q at %d: got %d, want %d", ts, key, seq, got, want)
			}
			lo, hi, got := r.Stretch(key, seq)
			if got != want || bytes.Compare(lo, key) > 0 || hi != nil && bytes.Compare(key, hi) >= 0 {
				t.Fatalf("%v: stretch of %q at %d: got %d in [%q, %q), want %d", ts, key, seq, got, lo, hi, want)
			}
			for _, k := range keys {
				if bytes.Compare(lo, k) <= 0 && (hi == nil || bytes.Compare(k, hi) < 0) &&
					covering(ts, k, seq) != want {
					t.Fatalf("%v: [%q, %q) around %q at %d has %d, but %q %d",
						ts, lo, hi, key, seq, want, k, covering(ts, k, seq))
				}
			}
		}
	}
}

// Random tombstones. Those of every moment stay as they were.
func TestRangeDelsAgainstEachTombstone(t *testing.T) {
	testkit.Long(t)
	keys := rangeKeys()
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 0))
		tb := newTable(t, nil, 0)
		checkRanges(t, tb.RangeDels(), nil, 1)
		var ts []rangedel.Tombstone
		var moments []*RangeDels
		wide := rng.IntN(2) == 0
		for i := range ikey.Seq(1 + rng.IntN(25)) {
			from := rng.IntN(len(keys))
			to := from + 1 + rng.IntN(len(keys)-from)
			if !wide {
				to = min(to, from+1+rng.IntN(3))
			}
			d := rangedel.Tombstone{Start: keys[from], Seq: i + 1}
			if to < len(keys) {
				d.End = keys[to]
			}
			start, end := bytes.Clone(d.Start), bytes.Clone(d.End)
			tb.AddRange(start, end, d.Seq)
			for _, b := range [][]byte{start, end} {
				for j := range b {
					b[j] = '!' // the caller's own
				}
			}
			ts, moments = append(ts, d), append(moments, tb.RangeDels())
		}
		for i, r := range moments {
			checkRanges(t, r, ts[:i+1], ikey.Seq(len(ts)))
		}
		checkList(t, rng, tb.RangeDels(), ts)
		if tb.Len() != len(ts) || tb.Keys() != 0 {
			t.Fatalf("Len, Keys = %d, %d, want %d, 0", tb.Len(), tb.Keys(), len(ts))
		}
	}
}

// Many tombstones over many keys, so that lists grow, are shared and part again. Random keys are asked, also as of
// older moments.
func TestManyRangeDelsAgainstEachTombstone(t *testing.T) {
	testkit.LongUnderRace(t)
	seeds := uint64(30)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		tb := newTable(t, nil, 0)
		var ts []rangedel.Tombstone
		var moments []*RangeDels
		keys, width := 20+rng.IntN(300), 1+rng.IntN(300)
		bound := func(i int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(i)) }
		for i := range 400 {
			from := rng.IntN(keys)
			d := rangedel.Tombstone{Start: bound(from), End: bound(from + 1 + rng.IntN(width)), Seq: ikey.Seq(i + 1)}
			tb.AddRange(d.Start, d.End, d.Seq)
			ts, moments = append(ts, d), append(moments, tb.RangeDels())
		}
		for range 3000 {
			i := rng.IntN(len(moments))
			if rng.IntN(2) == 0 {
				i = len(moments) - 1
			}
			key, seq := bound(rng.IntN(keys+10)), ikey.Seq(rng.IntN(402))
			want := covering(ts[:i+1], key, seq)
			if got := moments[i].Covering(key, seq); got != want {
				t.Fatalf("seed %d, after %d, over %x at %d: got %d, want %d", seed, i+1, key, seq, got, want)
			}
			lo, hi, got := moments[i].Stretch(key, seq)
			if got != want || covering(ts[:i+1], lo, seq) != want || bytes.Compare(lo, key) > 0 ||
				hi != nil && bytes.Compare(key, hi) >= 0 {
				t.Fatalf("seed %d, after %d: stretch of %x at %d: got %d in [%x, %x), want %d",
					seed, i+1, key, seq, got, lo, hi, want)
			}
		}
	}
}

// checkList compares lists for some sets of snapshots with the list of exactly the tombstones that one may keep.
func checkList(t *testing.T, rng *rand.Rand, r *RangeDels, ts []rangedel.Tombstone) {
	t.Helper()
	largest := ikey.Seq(len(ts))
	var every []ikey.Seq
	for seq := range largest + 1 {
		every = append(every, seq)
	}
	if got, want := fmt.Sprint(r.List(every)), fmt.Sprint(rangedel.Fragmented(ts)); got != want {
		t.Fatalf("%v: list of all\ngot  %s\nwant %s", ts, got, want)
	}
	for range 5 {
		var snapshots []ikey.Seq
		for _, seq := range every {
			if rng.IntN(4) == 0 {
				snapshots = append(snapshots, seq)
			}
		}
		var kept []rangedel.Tombstone // of each fragment the newest for each reader
		for _, f := range rangedel.Fragmented(ts) {
			for _, seq := range append(slices.Clone(snapshots), ikey.MaxSeq) {
				kept = append(kept, rangedel.Tombstone{Start: f.Start, End: f.End, Seq: f.Newest(seq)})
			}
		}
		if got, want := fmt.Sprint(r.List(snapshots)), fmt.Sprint(rangedel.Fragmented(kept)); got != want {
			t.Fatalf("%v: list for %v\ngot  %s\nwant %s", ts, snapshots, got, want)
		}
	}
}

func TestRangeDels(t *testing.T) {
	tb := newTable(t, nil, 0)
	if r := tb.RangeDels(); r != nil || r.Covering(nil, ikey.MaxSeq) != 0 || r.List(nil) != nil {
		t.Error("an empty table has range tombstones")
	}
	add(tb, "b", 1, ikey.Set, "one")
	tb.AddRange([]byte("a"), []byte("c"), 3)
	add(tb, "b", 4, ikey.Set, "four")
	tb.AddRange(nil, nil, 7)
	if got := get(tb, "b", ikey.MaxSeq); got != "SET four" {
		t.Errorf("Get = %s: it must not look at range tombstones", got)
	}
	if n, k := tb.Len(), tb.Keys(); n != 4 || k != 1 {
		t.Errorf("Len, Keys = %d, %d, want 4, 1", n, k)
	}
	for _, test := range []struct {
		snapshots []ikey.Seq
		want      string
	}{
		{nil, "[{[] [] [7]}]"},
		{[]ikey.Seq{3}, "[{[] [97] [7]} {[97] [99] [3 7]} {[99] [] [7]}]"},
		{[]ikey.Seq{1, 2}, "[{[] [] [7]}]"},
		{[]ikey.Seq{7, 9}, "[{[] [] [7]}]"},
	} {
		if got := fmt.Sprint(tb.RangeDels().List(test.snapshots)); got != test.want {
			t.Errorf("list for %v: got %s, want %s", test.snapshots, got, test.want)
		}
	}
	tb.Freeze()
	defer func() {
		if recover() == nil {
			t.Error("AddRange after Freeze does not panic")
		}
	}()
	tb.AddRange([]byte("a"), nil, 9)
}

// An AddRange may not disturb what a Get of the table gives out, nor the other way round.
func TestRangesBesidePoints(t *testing.T) {
	tb := newTable(t, nil, 0)
	for i := range 2000 {
		add(tb, fmt.Sprintf("%04d", i), ikey.Seq(2*i+1), ikey.Set, strconv.Itoa(i))
		tb.AddRange(fmt.Appendf(nil, "%04d", i), fmt.Appendf(nil, "%04d", i+1), ikey.Seq(2*i+2))
	}
	for i := range 2000 {
		k := fmt.Appendf(nil, "%04d", i)
		if got, want := get(tb, string(k), ikey.MaxSeq), fmt.Sprint("SET ", i); got != want {
			t.Fatalf("Get(%s) = %s, want %s", k, got, want)
		}
		if got, want := tb.RangeDels().Covering(k, ikey.MaxSeq), ikey.Seq(2*i+2); got != want {
			t.Fatalf("Covering(%s) = %d, want %d", k, got, want)
		}
	}
}

func TestCoveringAllocatesNothing(t *testing.T) {
	tb := newTable(t, nil, 0)
	for i := range 1000 {
		tb.AddRange(binary.BigEndian.AppendUint64(nil, uint64(i%100)), nil, ikey.Seq(i+1))
	}
	key := binary.BigEndian.AppendUint64(nil, 50)
	if n := testing.AllocsPerRun(100, func() {
		r := tb.RangeDels()
		r.Covering(key, 500)
		r.Stretch(key, 500)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// One writer deletes and readers ask, each about what was published when it began.
func TestCoveringBesideAWriter(t *testing.T) {
	const n = 3000
	rng := rand.New(rand.NewPCG(5, 5))
	keys := rangeKeys()
	ts := make([]rangedel.Tombstone, n)
	for i := range ts {
		from := rng.IntN(len(keys) - 1)
		ts[i] = rangedel.Tombstone{
			Start: keys[from], End: keys[from+1+rng.IntN(len(keys)-from-1)],
			Seq: ikey.Seq(i + 1),
		}
	}
	tb := newTable(t, nil, 0)
	var published atomic.Int64
	var wg sync.WaitGroup
	for reader := range uint64(2) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(reader, 6))
			for last := int64(0); last < n; {
				last = published.Load()
				r, key := tb.RangeDels(), keys[rng.IntN(len(keys))]
				seq := ikey.Seq(rng.Int64N(last + 1))
				if got, want := r.Covering(key, seq), covering(ts[:last], key, seq); got != want {
					t.Errorf("over %q at %d of %d: got %d, want %d", key, seq, last, got, want)
					return
				}
				if lo, hi, got := r.Stretch(key, seq); got != covering(ts[:last], key, seq) {
					t.Errorf("stretch [%q, %q) of %q at %d of %d: got %d", lo, hi, key, seq, last, got)
					return
				}
				if rng.IntN(50) == 0 {
					if l := r.List([]ikey.Seq{seq}); l.Covering(key, seq) != covering(ts[:last], key, seq) {
						t.Errorf("a list for %d does not cover %q as the tombstones do", seq, key)
						return
					}
				}
				runtime.Gosched() // otherwise the writer would wait long for a single processor
			}
		})
	}
	for i, d := range ts {
		tb.AddRange(d.Start, d.End, d.Seq)
		published.Store(int64(i + 1))
		if i%16 == 0 {
			runtime.Gosched()
		}
	}
	wg.Wait()
}

// rangeShapes are n range deletes as programs issue them, and the worst they could do.
var rangeShapes = []struct {
	name  string
	n     int
	shape func(i, n int) (start, end int)
}{
	{"300,000 disjoint ascending", 300_000, func(i, _ int) (int, int) { return 2 * i, 2*i + 1 }},
	{"300,000 disjoint shuffled", 300_000, func(i, n int) (int, int) { i = i * 7919 % n; return 2 * i, 2*i + 1 }},
	{"300,000 that touch", 300_000, func(i, _ int) (int, int) { return i, i + 1 }},
	{"100,000 of the same range", 100_000, func(int, int) (int, int) { return 1, 2 }},
	{"100,000 from the start to a growing key", 100_000, func(i, _ int) (int, int) { return 0, i + 1 }},
	{"100,000 each inside the last", 100_000, func(i, n int) (int, int) { return i, 2*n - i }},
	{"100,000 each around the last", 100_000, func(i, n int) (int, int) { return n - i, n + i + 1 }},
	{"100,000 sliding windows of 100", 100_000, func(i, _ int) (int, int) { return i, i + 100 }},
	{"5,000 wide and random", 5_000, func(i, n int) (int, int) {
		a, b := i*7919%n, i*6101%n
		return min(a, b), max(a, b) + 1
	}},
}

// TestRangeDelsOfRecords reads at the ends of records, also what was published before others came.
func TestRangeDelsOfRecords(t *testing.T) {
	testkit.Long(t)
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 2))
		tb := newTable(t, nil, 0)
		type moment struct {
			dels *RangeDels
			n    int
		}
		var ts []rangedel.Tombstone
		ends, moments := []ikey.Seq{0}, []moment{{}}
		keys, seq, largest := 10+rng.IntN(100), ikey.Seq(0), 1+rng.IntN(30)
		bound := func(i int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(i)) }
		for range 40 {
			first := seq + 1
			for range 1 + rng.IntN(largest) {
				from := rng.IntN(keys)
				seq++
				d := rangedel.Tombstone{Start: bound(from), End: bound(from + 1 + rng.IntN(keys)), Seq: seq}
				tb.AddOps(first, []Op{{Seq: seq, Kind: ikey.RangeDelete, Key: d.Start, Value: d.End}})
				ts = append(ts, d)
				moments = append(moments, moment{tb.RangeDels(), len(ts)})
			}
			ends = append(ends, seq)
		}
		for range 3000 {
			// Readers have read at the end of a record since before the next one began.
			end, key := rng.IntN(len(ends)), bound(rng.IntN(2*keys))
			m := moments[int(ends[end])+rng.IntN(len(ts)+1-int(ends[end]))]
			want := covering(ts[:m.n], key, ends[end])
			if got := m.dels.Covering(key, ends[end]); got != want {
				t.Fatalf("seed %d, after %d, over %x at %d: got %d, want %d", seed, m.n, key, ends[end], got, want)
			}
			if _, _, got := m.dels.Stretch(key, ends[end]); got != want {
				t.Fatalf("seed %d, after %d, stretch of %x: got %d, want %d", seed, m.n, key, got, want)
			}
		}
	}
}

// A record may have as many range tombstones as fit into half a memtable.
func TestRangeDelsOfOneRecordTakeLittleMemory(t *testing.T) {
	s, tb := rangeShapes[len(rangeShapes)-1], newTable(t, nil, 0)
	before := heap()
	for i := range s.n {
		start, end := s.shape(i, s.n)
		tb.AddOps(1, []Op{{
			Seq: ikey.Seq(i + 1), Kind: ikey.RangeDelete,
			Key:   binary.BigEndian.AppendUint64(nil, uint64(start)),
			Value: binary.BigEndian.AppendUint64(nil, uint64(end)),
		}})
	}
	taken, got := heap()-before, tb.Bytes()
	if most := int64(400 * s.n); taken > most || got > most {
		t.Errorf("%d tombstones take %d bytes, %d by Bytes, want at most %d", s.n, taken, got, most)
	}
	t.Logf("%d bytes each, %d by Bytes", taken/int64(s.n), got/int64(s.n))
	runtime.KeepAlive(tb)
}

func addShape(tb *Table, i, n int, shape func(i, n int) (int, int)) {
	var bounds [16]byte
	start, end := shape(i, n)
	binary.BigEndian.PutUint64(bounds[:], uint64(start))
	binary.BigEndian.PutUint64(bounds[8:], uint64(end))
	tb.AddRange(bounds[:8], bounds[8:], ikey.Seq(i+1))
}

// An op is one AddRange into a table that grows to n of them. A quadratic shape shows here. The time of
// a list of all is reported too.
func BenchmarkAddRange(b *testing.B) {
	for _, s := range rangeShapes {
		b.Run(s.name, func(b *testing.B) {
			tb, n := New(nil, 0, 0), 0
			var last *Table
			b.ReportAllocs()
			for b.Loop() {
				if n == s.n {
					tb, n, last = New(nil, 0, 0), 0, tb
				}
				addShape(tb, n, s.n, s.shape)
				n++
			}
			if last != nil {
				b.ReportMetric(float64(last.Bytes())/float64(s.n), "bytes-held/op")
			}
		})
	}
}

func BenchmarkRangeDels(b *testing.B) {
	for _, s := range rangeShapes {
		if testing.Short() {
			s.n = min(s.n, 20_000)
		}
		tb := New(nil, 0, 0)
		for i := range s.n {
			addShape(tb, i, s.n, s.shape)
		}
		rng := rand.New(rand.NewPCG(1, 1))
		keys := make([][]byte, 4096)
		for i := range keys {
			keys[i] = binary.BigEndian.AppendUint64(nil, uint64(rng.IntN(2*s.n)))
		}
		b.Run("covering/"+s.name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				tb.RangeDels().Covering(keys[n%len(keys)], ikey.MaxSeq)
				n++
			}
		})
		b.Run("list/"+s.name, func(b *testing.B) {
			for b.Loop() {
				tb.RangeDels().List(nil)
			}
		})
	}
}

func TestBytesCountsRangeTombstones(t *testing.T) {
	testkit.LongUnderRace(t)
	for _, s := range rangeShapes {
		s.n = min(s.n, 20_000)
		t.Run(strings.TrimLeft(s.name, "0123456789, "), func(t *testing.T) {
			before := heap()
			tb := New(nil, 0, 0)
			for i := range s.n {
				addShape(tb, i, s.n, s.shape)
			}
			got, want := tb.Bytes(), heap()-before
			most := 1.15
			if strings.Contains(s.name, "sliding") || strings.Contains(s.name, "random") {
				most = 2 // arrays that were shared count for as long as the table lives
			}
			if d := float64(got) / float64(want); d < 0.75 || d > most {
				t.Errorf("Bytes = %d, the heap grew by %d: %.2f of it, want 0.75 to %.2f", got, want, d, most)
			}
			t.Logf("%d bytes for each", want/int64(s.n))
			runtime.KeepAlive(tb)
		})
	}
}

// The index must not be asked about a table that has range tombstones only.
func TestATableOfRangeDeletesAlone(t *testing.T) {
	tb := newTable(t, nil, 0)
	tb.AddRange(nil, []byte("b"), 1)
	if _, _, ok := tb.Get([]byte("a"), bloomblock.HashKey([]byte("a")), ikey.MaxSeq); ok {
		t.Error("Get finds a version")
	}
	if c := tb.Iter(ikey.MaxSeq); c.First() {
		t.Error("a cursor finds a version")
	}
	if p := tb.CommonPrefix(); len(p) != 0 {
		t.Errorf("CommonPrefix = %q", p)
	}
}
