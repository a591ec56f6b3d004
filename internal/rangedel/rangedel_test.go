package rangedel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// parse reads tombstones or fragments written as "a-c@3,7 c-∞@9". The start "^" is nil.
func parse(t *testing.T, text string) List {
	t.Helper()
	var l List
	for word := range strings.FieldsSeq(text) {
		stretch, numbers, ok := strings.Cut(word, "@")
		start, end, ok2 := strings.Cut(stretch, "-")
		if !ok || !ok2 {
			t.Fatalf("%q is not a fragment", word)
		}
		f := Fragment{Start: []byte(start), End: []byte(end)}
		if start == "^" {
			f.Start = nil
		}
		if end == "∞" {
			f.End = nil
		}
		for number := range strings.SplitSeq(numbers, ",") {
			var seq ikey.Seq
			if _, err := fmt.Sscan(number, &seq); err != nil {
				t.Fatalf("%q: %v", word, err)
			}
			f.Seqs = append(f.Seqs, seq)
		}
		l = append(l, f)
	}
	return l
}

func text(l List) string {
	var words []string
	for _, f := range l {
		start, end := string(f.Start), string(f.End)
		if f.Start == nil {
			start = "^"
		}
		if f.End == nil {
			end = "∞"
		}
		var numbers []string
		for _, seq := range f.Seqs {
			numbers = append(numbers, fmt.Sprint(seq))
		}
		words = append(words, start+"-"+end+"@"+strings.Join(numbers, ","))
	}
	return strings.Join(words, " ")
}

func TestFragmented(t *testing.T) {
	for _, test := range []struct{ name, tombstones, want string }{
		{"none", "", ""},
		{"one", "a-c@5", "a-c@5"},
		{"two that do not meet", "c-d@2 a-b@1", "a-b@1 c-d@2"},
		{"two that touch stay two", "b-c@2 a-b@1", "a-b@1 b-c@2"},
		{"two of one sequence that touch are one", "b-c@1 a-b@1", "a-c@1"},
		{"two that overlap are cut", "a-c@1 b-d@2", "a-b@1 b-c@1,2 c-d@2"},
		{"one inside another", "a-d@2 b-c@1", "a-b@2 b-c@1,2 c-d@2"},
		{"the same range three times", "a-b@3 a-b@1 a-b@2", "a-b@1,2,3"},
		{"a repetition counts once", "a-c@1 a-c@1 b-d@1", "a-d@1"},
		{"an end without a bound", "b-∞@1 a-∞@2", "a-b@2 b-∞@1,2"},
		{"all keys", "^-∞@1", "^-∞@1"},
		{"the empty key", "-a@1 ^-b@2", "-a@1,2 a-b@2"},
		{"some end and others continue", "a-d@2 b-c@1 b-c@3 c-e@4", "a-b@2 b-c@1,2,3 c-d@2,4 d-e@4"},
		{"those that cover nothing are dropped", "b-a@1 c-c@2 d-e@0 f-g@7", "f-g@7"},
		{"one begins where an equal one ends", "a-b@1 b-c@1 a-c@2", "a-c@1,2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := text(Fragmented(parse(t, test.tombstones).Tombstones())); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestNewest(t *testing.T) {
	for _, test := range []struct {
		seqs      []ikey.Seq
		seq, want ikey.Seq
	}{
		{nil, 5, 0},
		{[]ikey.Seq{3}, 2, 0},
		{[]ikey.Seq{3}, 3, 3},
		{[]ikey.Seq{3}, ikey.MaxSeq, 3},
		{[]ikey.Seq{3, 5, 9}, 2, 0},
		{[]ikey.Seq{3, 5, 9}, 4, 3},
		{[]ikey.Seq{3, 5, 9}, 5, 5},
		{[]ikey.Seq{3, 5, 9}, 8, 5},
		{[]ikey.Seq{3, 5, 9}, 9, 9},
	} {
		f := Fragment{Seqs: test.seqs}
		if got := f.Newest(test.seq); got != test.want {
			t.Errorf("newest of %v at %d: got %d, want %d", test.seqs, test.seq, got, test.want)
		}
	}
}

// TestAgainstEachTombstone compares lists of random tombstones over few keys, at each key and sequence, with a check of
// each tombstone.
func TestAgainstEachTombstone(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	keys := [][]byte{nil}
	for _, key := range []string{"\x00", "\x00\x00", "a", "a\x00", "aa", "ab", "b", "c", "\xff", "\xff\xff"} {
		keys = append(keys, []byte(key))
	}
	for range 3000 {
		var ts []Tombstone
		for range rng.IntN(8) {
			i, j := rng.IntN(len(keys)), rng.IntN(len(keys)+1)
			ts = append(ts, Tombstone{Start: keys[i], Seq: ikey.Seq(rng.IntN(10))})
			if j < len(keys) {
				ts[len(ts)-1].End = keys[j]
				if keys[j] == nil {
					ts[len(ts)-1].End = []byte{}
				}
			}
		}
		over := func(key []byte) []ikey.Seq { // the sequence numbers of all tombstones over key
			var seqs []ikey.Seq
			for _, d := range ts {
				if d.Seq > 0 && bytes.Compare(d.Start, key) <= 0 && before(key, d.End) {
					seqs = append(seqs, d.Seq)
				}
			}
			slices.Sort(seqs)
			return slices.Compact(seqs)
		}
		l := Fragmented(ts)
		for i, f := range l {
			if len(f.Seqs) == 0 || !before(f.Start, f.End) ||
				i > 0 && (l[i-1].End == nil || bytes.Compare(l[i-1].End, f.Start) > 0) {
				t.Fatalf("%v: bad list %s", ts, text(l))
			}
			if i > 0 && bytes.Equal(l[i-1].End, f.Start) && slices.Equal(l[i-1].Seqs, f.Seqs) {
				t.Fatalf("%v: equal neighbours in %s", ts, text(l))
			}
		}
		for _, key := range keys {
			want := over(key)
			from, to, newest := l.Stretch(key, ikey.MaxSeq)
			if newest != last(want) {
				t.Fatalf("%v around %q: got %v, want the last of %v", ts, key, newest, want)
			}
			for _, k := range keys {
				in := bytes.Compare(from, k) <= 0 && before(k, to)
				if in && !slices.Equal(over(k), want) || bytes.Equal(k, key) && !in {
					t.Fatalf("%v: [%q, %q) around %q, and %q: %v", ts, from, to, key, k, in)
				}
			}
			for seq := ikey.Seq(0); seq <= 10; seq++ {
				at, _ := slices.BinarySearch(want, seq+1)
				covering := last(want[:at])
				if got := l.Covering(key, seq); got != covering {
					t.Fatalf("%v over %q at %d: got %d, want %d", ts, key, seq, got, covering)
				}
				if a, b, got := l.Stretch(key, seq); got != covering || !bytes.Equal(a, from) || !bytes.Equal(b, to) {
					t.Fatalf("%v: stretch of %q at %d: got %d in [%q, %q), want %d", ts, key, seq, got, a, b, covering)
				}
			}
		}
	}
}

// TestWhatIsWithinARangeCoversItsKeysAlone compares with the whole list, in which fragments may overlap.
func TestWhatIsWithinARangeCoversItsKeysAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 15))
	for range 500 {
		ts, snapshots := overlapping([]string{"comb", "nested", "staggered"}[rng.IntN(3)], 1+rng.IntN(20))
		l := FragmentedFor(snapshots[:rng.IntN(len(snapshots)+1)], ts)
		lo, hi := number(rng.IntN(30)), number(rng.IntN(40))
		if rng.IntN(4) == 0 {
			hi = nil
		}
		in := l.Within(lo, hi)
		for _, f := range in {
			outside := bytes.Compare(f.Start, lo) < 0 || !before(f.Start, f.End) || hi != nil && before(hi, f.End)
			if before(lo, hi) && outside {
				t.Fatalf("%v within [%x,%x): %v", l, lo, hi, f)
			}
		}
		for i := range 50 {
			key, want := number(i), ikey.Seq(0)
			if bytes.Compare(lo, key) <= 0 && before(key, hi) {
				want = covering(l, key, ikey.MaxSeq)
			}
			if got := covering(in, key, ikey.MaxSeq); got != want {
				t.Fatalf("%v within [%x,%x): %x has %d, want %d", l, lo, hi, key, got, want)
			}
		}
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	l := Fragmented(disjoint(1000))
	key := number(500)
	if n := testing.AllocsPerRun(100, func() {
		l.Covering(key, 9)
		l.Stretch(key, 9)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestBytes(t *testing.T) {
	l := parse(t, "a-bb@1,2 bb-∞@3")
	want := int64(2*unsafe.Sizeof(Fragment{})) + 5 + 3*8
	if l = slices.Clip(l); l.Bytes() != want {
		t.Errorf("got %d, want %d", l.Bytes(), want)
	}
	// Two stretches begin at a and at b. A segment tree over them has four nodes, of which three have a number each.
	l = parse(t, "a-b@3 a-∞@4 b-∞@5")
	x := NewIndex(l)
	want = l.Bytes() + int64(unsafe.Sizeof(Index{})+2*unsafe.Sizeof([]byte{})) + (2*2+2)*4 + 3*8
	if x.Bytes() != want {
		t.Errorf("the index takes %d, want %d", x.Bytes(), want)
	}
	l = parse(t, "a-b@3 b-c@4") // needs no more than the list
	if got, want := NewIndex(l).Bytes(), int64(unsafe.Sizeof(Index{}))+l.Bytes(); got != want {
		t.Errorf("an index without overlaps takes %d, want %d", got, want)
	}
	if x = nil; x.Bytes() != 0 {
		t.Errorf("no index takes %d", x.Bytes())
	}
}

func TestFragmentsAreCutIntoFewParts(t *testing.T) {
	ts := parse(t, "a-c@3 b-d@5 a-b@0").Tombstones()
	for _, test := range []struct {
		snapshots []ikey.Seq
		want      string
	}{
		{nil, "a-b@3 b-d@5"},
		{[]ikey.Seq{4}, "a-b@3 b-c@3,5 c-d@5"},
	} {
		if got := text(FragmentedFor(test.snapshots, ts)); got != test.want {
			t.Errorf("for %v: got %s, want %s", test.snapshots, got, test.want)
		}
	}
	if got := FragmentedFor(nil, ts[2:]); len(got) != 0 {
		t.Errorf("a tombstone that deletes nothing: %s", text(got))
	}
	for most, want := range map[int]bool{3: false, 4: true} { // the numbers of three parts
		if _, ok := fragmented(ts, most); ok != want {
			t.Errorf("at most %d numbers: %v, want %v", most, ok, want)
		}
	}
}

func number(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }

func disjoint(n int) []Tombstone {
	ts := make([]Tombstone, n)
	for i := range ts {
		ts[i] = Tombstone{number(2 * i), number(2*i + 1), ikey.Seq(i + 1)}
	}
	return ts
}

// An op makes one list. Quadratic time would be minutes here.
func BenchmarkFragmented(b *testing.B) {
	same := disjoint(100_000)
	for i := range same {
		same[i].Start, same[i].End = number(1), number(2)
	}
	for _, set := range []struct {
		name string
		ts   []Tombstone
	}{{"300,000 disjoint", disjoint(300_000)}, {"100,000 of the same range", same}} {
		b.Run(set.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Fragmented(set.ts)
			}
		})
	}
}

func BenchmarkCovering(b *testing.B) {
	l := Fragmented(disjoint(300_000))
	rng := rand.New(rand.NewPCG(1, 1))
	keys := make([][]byte, 1024)
	for i := range keys {
		keys[i] = number(rng.IntN(600_000))
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		l.Covering(keys[n%len(keys)], ikey.MaxSeq)
		n++
	}
}

// TestFragmentsForSnapshotsAreEnoughForTheirReaders compares with the whole list, for every key and every reader.
func TestFragmentsForSnapshotsAreEnoughForTheirReaders(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	overlap := 0
	for range 400 {
		n, keys := 1+rng.IntN(60), 2+rng.IntN(60)
		var ts []Tombstone
		for range n {
			t := Tombstone{[]byte{byte(rng.IntN(keys))}, []byte{byte(rng.IntN(keys))}, ikey.Seq(rng.IntN(2 * n))}
			if rng.IntN(10) == 0 {
				t.End = nil
			}
			ts = append(ts, t)
		}
		var snapshots []ikey.Seq
		for range rng.IntN(n) {
			snapshots = append(snapshots, ikey.Seq(rng.IntN(2*n)))
		}
		slices.Sort(snapshots)
		snapshots = slices.Compact(snapshots)
		l, want := FragmentedFor(snapshots, ts), Fragmented(ts)
		got := NewIndex(l)
		for key := range keys {
			for _, reader := range append(snapshots, ikey.MaxSeq) {
				if g, w := got.Covering([]byte{byte(key)}, reader), want.Covering([]byte{byte(key)}, reader); g != w {
					t.Fatalf("%v: snapshots %v: key %d at %d: got %d, want %d", ts, snapshots, key, reader, g, w)
				}
			}
		}
		if l.Overlaps() {
			overlap++
		}
		for i, f := range l {
			if len(f.Seqs) > len(snapshots)+1 || i > 0 && bytes.Compare(l[i-1].Start, f.Start) > 0 {
				t.Fatalf("%v: snapshots %v: %s", ts, snapshots, text(l))
			}
		}
	}
	if overlap < 20 {
		t.Errorf("%d lists overlap: the test has lost its point", overlap)
	}
}

func TestTombstonesOverEachOtherTakeTheMemoryOfTheirEdges(t *testing.T) {
	var ts []Tombstone
	for i := range 2000 {
		start, end := fmt.Appendf(nil, "%04d", i), fmt.Appendf(nil, "%04d", 9999-i)
		ts = append(ts, Tombstone{start, end, ikey.Seq(i + 1)})
	}
	l := FragmentedFor([]ikey.Seq{10, 1000}, ts)
	if n := l.Bytes(); n > 1<<20 {
		t.Errorf("%d fragments take %d bytes, want at most 1 MiB", len(l), n)
	}
	if n := Fragmented(ts).Bytes(); n < 8<<20 {
		t.Errorf("the whole list takes %d bytes: the test has lost its point", n)
	}
}

// TestAnIndexFindsWhatCoversAKey compares indexes of tombstones that are not cut with a check of each tombstone.
func TestAnIndexFindsWhatCoversAKey(t *testing.T) {
	testkit.Long(t)
	rng := rand.New(rand.NewPCG(3, 4))
	key := func(i int) []byte { return []byte{byte(i)} }
	for range 300 {
		var l List
		for range rng.IntN(20) {
			i := rng.IntN(30)
			f := Fragment{Start: key(i), End: key(i + 1 + rng.IntN(30-i)), Seqs: []ikey.Seq{ikey.Seq(1 + rng.IntN(20))}}
			if rng.IntN(5) == 0 {
				f.End = nil
			}
			if rng.IntN(3) == 0 {
				f.Seqs = append(f.Seqs, f.Seqs[0]+3)
			}
			l = append(l, f)
		}
		slices.SortStableFunc(l, func(a, b Fragment) int { return bytes.Compare(a.Start, b.Start) })
		x := NewIndex(l)
		if (x == nil) != (len(l) == 0) || text(x.List()) != text(l) {
			t.Fatalf("the list of the index is %s, want %s", text(x.List()), text(l))
		}
		for i := range 32 {
			lo, hi, _ := x.Stretch(key(i), 9)
			if bytes.Compare(lo, key(i)) > 0 || !before(key(i), hi) {
				t.Fatalf("%s: the stretch of %d is [%v, %v)", text(l), i, lo, hi)
			}
			for seq := range ikey.Seq(26) {
				want := covering(l, key(i), seq)
				_, _, newest := x.Stretch(key(i), seq)
				if got := x.Covering(key(i), seq); got != want || newest != want {
					t.Fatalf("%s: over %d at %d: got %d, stretch %d, want %d", text(l), i, seq, got, newest, want)
				}
				for k := range 32 {
					in := bytes.Compare(lo, key(k)) <= 0 && before(key(k), hi)
					if other := covering(l, key(k), seq); in && other != want {
						t.Fatalf("%s: %d and %d are in [%v, %v): %d and %d", text(l), i, k, lo, hi, want, other)
					}
				}
			}
		}
		if len(l) > 0 {
			lo, hi := l.Bounds()
			for k := range 32 {
				if covering(l, key(k), 99) > 0 && (bytes.Compare(key(k), lo) < 0 || !before(key(k), hi)) {
					t.Fatalf("%s: the bounds are [%v, %v)", text(l), lo, hi)
				}
			}
		}
	}
}

// covering returns the newest of l over key up to seq.
func covering(l List, key []byte, seq ikey.Seq) (newest ikey.Seq) {
	for _, f := range l {
		if bytes.Compare(f.Start, key) <= 0 && before(key, f.End) {
			newest = max(newest, f.Newest(seq))
		}
	}
	return newest
}

// overlapping returns n tombstones of a shape, with the snapshots between them.
func overlapping(shape string, n int) (ts []Tombstone, snapshots []ikey.Seq) {
	for i := range n {
		lo, hi := i, 4*n-i // nested
		switch shape {
		case "staggered":
			hi = i + n
		case "comb":
			lo = (i * 7919) % (2 * n)
			hi = lo + n/2
		case "the same":
			lo, hi = 1, 2
		}
		ts = append(ts, Tombstone{number(lo), number(hi), ikey.Seq(2 * i)})
		snapshots = append(snapshots, ikey.Seq(2*i+1))
	}
	return ts, snapshots
}

// TestTombstonesWithASnapshotAfterEachTakeSpaceInProportion has all readers see something else.
func TestTombstonesWithASnapshotAfterEachTakeSpaceInProportion(t *testing.T) {
	for _, shape := range []string{"nested", "staggered", "comb", "the same"} {
		for _, n := range []int{10, 100, 1000, 10_000} {
			ts, snapshots := overlapping(shape, n)
			l := FragmentedFor(snapshots, ts)
			numbers := 0
			for _, f := range l {
				numbers += len(f.Seqs)
			}
			if numbers > maxCut*n {
				t.Errorf("%s: %d numbers for %d tombstones, want at most %d", shape, numbers, n, maxCut*n)
			}
			x := NewIndex(l)
			if most := int64(n) * int64(250+16*bits.Len(uint(n))); x.Bytes() > most {
				t.Errorf("%s: the index of %d tombstones takes %d bytes, want at most %d", shape, n, x.Bytes(), most)
			}
			rng := rand.New(rand.NewPCG(1, uint64(n)))
			for range 200 {
				key, seq := number(rng.IntN(4*n)), snapshots[rng.IntN(n)]
				want := ikey.Seq(0)
				for _, d := range ts {
					if d.Seq <= seq && bytes.Compare(d.Start, key) <= 0 && before(key, d.End) {
						want = max(want, d.Seq)
					}
				}
				if got := x.Covering(key, seq); got != want {
					t.Fatalf("%s of %d: over %x at %d: got %d, want %d", shape, n, key, seq, got, want)
				}
			}
		}
	}
}

// An op makes the list and the index for as many snapshots as there are tombstones. Quadratic time would be minutes
// here.
func BenchmarkFragmentedFor(b *testing.B) {
	for _, shape := range []string{"nested", "staggered", "comb"} {
		for _, n := range []int{10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", shape, n), func(b *testing.B) {
				ts, snapshots := overlapping(shape, n)
				b.ReportAllocs()
				for b.Loop() {
					NewIndex(FragmentedFor(snapshots, ts))
				}
			})
		}
	}
}
