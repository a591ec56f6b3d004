package sstable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

var must = testkit.Must

func span(start, end string, seqs ...ikey.Seq) rangedel.Fragment {
	return rangedel.Fragment{Start: []byte(start), End: []byte(end), Seqs: seqs}
}

func toTheEnd(start string, seqs ...ikey.Seq) rangedel.Fragment {
	return rangedel.Fragment{Start: []byte(start), Seqs: seqs}
}

// overlappingDels are range tombstones that overlap.
var overlappingDels = rangedel.List{
	span("a", "x", 1), span("b", "d", 2), span("c", "f", 3, 5), toTheEnd("c", 4), span("y", "z", 9),
}

// TestATableHasRangeDeletesThatOverlap also damages the flag that says so.
func TestATableHasRangeDeletesThatOverlap(t *testing.T) {
	for _, dels := range []rangedel.List{overlappingDels, smallDels} {
		file, i := buildWith(t, WriterOptions{ID: 1}, nil, dels)
		overlap := dels.Overlaps()
		lo, hi := dels.Bounds()
		if i.RangesOverlap != overlap || string(i.Smallest) != string(lo) || string(i.Largest) != string(hi) ||
			i.LargestInfinite != (hi == nil) {
			t.Errorf("overlap %v: info %+v", overlap, i)
		}
		r := newReader(file, i, 1<<20)
		if err := r.Verify(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if got := r.RangeDels().List(); !reflect.DeepEqual(got, dels) {
			t.Errorf("range deletes %v, want %v", got, dels)
		}
		for key := byte('a'); key <= 'z'; key++ {
			for seq := range ikey.Seq(12) {
				want := ikey.Seq(0)
				for _, f := range dels {
					if string(f.Start) <= string(key) && (f.End == nil || string(key) < string(f.End)) {
						want = max(want, f.Newest(seq))
					}
				}
				if got := r.RangeDels().Covering([]byte{key}, seq); got != want {
					t.Errorf("over %c at %d: got %d, want %d", key, seq, got, want)
				}
			}
		}
		f, err := parseFooter(file, uint64(len(file)))
		must(t, err)
		if want := map[bool]uint32{false: 1, true: 2}[overlap]; f.version != want || f.overlaps() != overlap {
			t.Errorf("version %d, flags %#x of fragments that overlap: %v", f.version, f.flags, overlap)
		}
		bad := slices.Clone(file[:uint64(len(file))-f.size()])
		f.version, f.flags = 2, f.flags^flagOverlap
		bad = f.append(bad, uint64(len(bad)))
		grown := uint64(len(bad) - len(file))
		i.Size, i.TailLen = i.Size+grown, i.TailLen+grown
		r = newReader(bad, i, 1<<20)
		if err := r.Load(1); !errors.Is(err, corrupt.Err) || !strings.Contains(err.Error(), "overlap") {
			t.Errorf("a false flag: got %v", err)
		}
	}
}

func TestInfoCoversVersionsAndRangeDeletes(t *testing.T) {
	for _, c := range []struct {
		name                 string
		kvs                  []kv
		dels                 rangedel.List
		smallest, largest    string
		exclusive, infinite  bool
		low, high            ikey.Seq
		entries, rangeDelete uint64
	}{
		{"versions alone", []kv{set("b", 3, ""), set("d", 2, "")}, nil, "b", "d", false, false, 2, 3, 2, 0},
		{
			"ranges inside the versions",
			[]kv{set("b", 3, ""), set("d", 2, "")},
			rangedel.List{span("bb", "c", 1, 9)},
			"b", "d", false, false, 1, 9, 2, 2,
		},
		{
			"a range that ends at the last key",
			[]kv{set("b", 3, "")},
			rangedel.List{span("b", "b\x00", 3)},
			"b", "b\x00",
			true, false, 3, 3, 1, 1,
		},
		{
			"a range that ends before the last key",
			[]kv{set("b", 3, "")},
			rangedel.List{span("", "b", 5)},
			"", "b",
			false, false, 3, 5, 1, 1,
		},
		{
			"ranges around the versions",
			[]kv{set("b", 3, "")},
			rangedel.List{span("a", "b", 5), span("x", "z", 4)},
			"a",
			"z", true, false, 3, 5, 1, 2,
		},
		{
			"a range without an end",
			[]kv{set("b", 3, "")},
			rangedel.List{toTheEnd("c", 2)},
			"b", "", false, true, 2, 3,
			1, 1,
		},
		{
			"a range over everything",
			[]kv{set("b", 3, "")},
			rangedel.List{toTheEnd("", 2)},
			"", "", false, true, 2, 3, 1,
			1,
		},
		{"one range and nothing else", nil, rangedel.List{span("a", "c", 7, 8)}, "a", "c", true, false, 7, 8, 0, 2},
		{
			"ranges without an end and nothing else", nil,
			rangedel.List{span("", "c", 7), toTheEnd("c", ikey.MaxSeq)},
			"",
			"", false, true, 7, ikey.MaxSeq, 0, 2,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, i := buildWith(t, WriterOptions{ID: 1, Filter: filterParams(t, 0.01)}, c.kvs, c.dels)
			if string(i.Smallest) != c.smallest || string(i.Largest) != c.largest ||
				i.LargestExclusive != c.exclusive || i.LargestInfinite != c.infinite {
				t.Errorf("bounds %q … %q, exclusive %v, infinite %v; want %q … %q, %v, %v",
					i.Smallest, i.Largest, i.LargestExclusive, i.LargestInfinite,
					c.smallest, c.largest, c.exclusive, c.infinite)
			}
			if i.Smallest == nil || (i.Largest == nil) != c.infinite {
				t.Errorf("bounds %#v … %#v: nil is for infinite alone", i.Smallest, i.Largest)
			}
			if i.MinSeq != c.low || i.MaxSeq != c.high || i.Entries != c.entries || i.RangeDeletes != c.rangeDelete {
				t.Errorf("sequences %d … %d of %d and %d, want %d … %d of %d and %d",
					i.MinSeq, i.MaxSeq, i.Entries, i.RangeDeletes,
					c.low, c.high, c.entries, c.rangeDelete)
			}
			r := newReader(file, i, 1<<20)
			p, err := r.Properties()
			if err != nil || p.MinSeq != c.low || p.MaxSeq != c.high || p.Entries != c.entries ||
				p.RangeDeletes != c.rangeDelete {
				t.Errorf("properties %+v, %v", p, err)
			}
			if len(c.kvs) == 0 && len(p.Smallest)+len(p.Largest) != 0 {
				t.Errorf("bounds of no versions: %q … %q", p.Smallest, p.Largest)
			}
			if got := r.RangeDels().List(); len(got) != len(c.dels) || len(got) > 0 && !reflect.DeepEqual(got, c.dels) {
				t.Errorf("range deletes %v, want %v", got, c.dels)
			}
			if err := r.Verify(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWriterRefusesRangesThatATableCannotHold(t *testing.T) {
	long := strings.Repeat("k", maxKey)
	for _, c := range []struct {
		name string
		dels rangedel.List
		want error // nil: any
	}{
		{"a range that ends where it starts", rangedel.List{span("a", "a", 1)}, ErrOrder},
		{"a range that ends before it starts", rangedel.List{span("b", "a", 1)}, ErrOrder},
		{"an end that is empty and not infinite", rangedel.List{span("", "", 1)}, ErrOrder},
		{"ranges out of order", rangedel.List{span("c", "d", 1), span("a", "b", 1)}, ErrOrder},
		{"a start too long", rangedel.List{span(long+"kk", "l", 1)}, ErrSize},
		{"an end too long", rangedel.List{span("k", long+"kk", 1)}, ErrSize},
		{"no tombstone", rangedel.List{span("a", "b")}, nil},
		{"sequence number 0", rangedel.List{span("a", "b", 0)}, ErrOrder},
		{"sequence numbers that fall", rangedel.List{span("a", "b", 3, 2)}, ErrOrder},
		{"a sequence number twice", rangedel.List{span("a", "b", 3, 3)}, ErrOrder},
		{"a sequence number of 57 bits", rangedel.List{span("a", "b", ikey.MaxSeq+1)}, ErrOrder},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := NewWriter(io.Discard, WriterOptions{})
			var err error
			for _, f := range c.dels {
				err = w.AddRangeDel(f)
			}
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if _, err := w.Finish(); err == nil {
				t.Error("and yet the table was finished")
			}
		})
	}
	if _, info := buildWith(t, WriterOptions{}, nil,
		rangedel.List{span(long, long+"\x00", 1), span(long+"k", "l", 1)}); info.RangeDeletes != 2 {
		t.Errorf("bounds just after the longest key: %+v", info)
	}
}

func TestTheWriterKeepsNothingOfARange(t *testing.T) {
	var buf bytes.Buffer
	w := NewWriter(&buf, WriterOptions{ID: 1})
	f := span("aaa", "bbb", 3, 4)
	for range 2 {
		must(t, w.AddRangeDel(f))
		copy(f.Start, "ccc")
		copy(f.End, "ddd")
		f.Seqs[0] = 1
	}
	info, err := w.Finish()
	must(t, err)
	if string(info.Smallest) != "aaa" || string(info.Largest) != "ddd" {
		t.Errorf("bounds %q … %q", info.Smallest, info.Largest)
	}
	r := newReader(buf.Bytes(), info, 0)
	must(t, r.Load(1))
	want := rangedel.List{span("aaa", "bbb", 3, 4), span("ccc", "ddd", 1, 4)}
	if got := r.RangeDels().List(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRangeDelsStayUntilClose(t *testing.T) {
	file, info, _ := small(t, None)
	r := newReader(file, info, 1<<20)
	if r.RangeDels() != nil || r.RangeDelBytes() != 0 {
		t.Error("range deletes before anything was read")
	}
	must(t, r.Load(1))
	l := r.RangeDels().List()
	if !reflect.DeepEqual(l, smallDels) || r.RangeDelBytes() != r.RangeDels().Bytes() || l.Bytes() == 0 {
		t.Errorf("got %v of %d bytes, want %v", l, r.RangeDelBytes(), smallDels)
	}
	dropIndex(r)
	if got := r.RangeDels().List(); len(got) != len(l) || &got[0] != &l[0] {
		t.Error("dropping the index changed the range deletes")
	}
	must(t, r.Load(1))
	if got := r.RangeDels().List(); &got[0] != &l[0] {
		t.Error("loading the index again changed the range deletes")
	}
	r.Close()
	if r.RangeDels() != nil || r.RangeDelBytes() != 0 {
		t.Error("range deletes after Close")
	}
	if !reflect.DeepEqual(l, smallDels) {
		t.Error("Close changed a list that was handed out")
	}
	must(t, r.Verify(t.Context(), nil)) // as the checker does
}

func TestVerifyLeavesRangeDelsAndNoPart(t *testing.T) {
	file, info, _ := small(t, None)
	r := newReader(file, info, 1<<20)
	must(t, r.Verify(t.Context(), nil))
	if n, _ := r.Parts(); n != 0 || !reflect.DeepEqual(r.RangeDels().List(), smallDels) {
		t.Errorf("%d parts of the index, range deletes %v", n, r.RangeDels().List())
	}
}

func TestVerifyReadsTheTailAgain(t *testing.T) {
	file, info, _ := small(t, None)
	p := partsOf(t, file)
	for _, at := range []uint64{p.index, p.dels, p.props, uint64(len(file)) - footerSize} {
		r := newReader(file, info, 1<<20)
		must(t, r.Load(0))
		file[at] ^= 1
		if err := r.Verify(t.Context(), nil); !errors.Is(err, corrupt.Err) {
			t.Errorf("byte %d damaged after it was loaded: %v", at, err)
		}
		file[at] ^= 1
	}
}

// hostileDels returns a range-delete block of two fragments. The names of the cases below have the offsets of its
// fields.
func hostileDels() []byte {
	var b []byte
	b = binary.LittleEndian.AppendUint32(b, 2)
	for _, f := range []rangedel.Fragment{span("aa", "bb", 1, 2), toTheEnd("cc", 3)} {
		b = appendFragment(b, &f)
	}
	return b
}

func TestEachFieldOfARangeDeleteIsChecked(t *testing.T) {
	put := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], v); return b }
	}
	seq := func(at int, v ikey.Seq) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint64(b[at:], uint64(v)); return b }
	}
	// 0 count, 4 start length, 8 "aa", 10 end length, 14 "bb", 16 n, 20 and 28 sequences; 36 start length, 40 "cc", 42
	// end length, 46 n, 50 sequence, 58 end
	for _, c := range []struct {
		name   string
		damage func([]byte) []byte
		want   string
	}{
		{"nothing", func([]byte) []byte { return nil }, "want at least 4"},
		{"no fragments", put(0, 0), "0 fragments"},
		{"no fragments and no bytes", func(b []byte) []byte { clear(b[:4]); return b[:4] }, "0 fragments"},
		{"one fragment too few", put(0, 1), "too many"},
		{"one fragment too many", put(0, 3), "do not fit"},
		{"as many fragments as there could be numbers", put(0, infinite), "do not fit"},
		{"a start that is longer than a key can be", put(4, maxBound+1), "bound of"},
		{"a start that is longer than the block", put(4, 1000), "cut off"},
		{"a start without an end of numbers", put(4, infinite), "bound of"},
		{"a start after its end", func(b []byte) []byte { b[8] = 'x'; return b }, "range from"},
		{"a start that is its end", func(b []byte) []byte { b[8], b[9] = 'b', 'b'; return b }, "range from"},
		{"an end that is longer than a key can be", put(10, maxBound+1), "bound of"},
		{"an end that is longer than the block", put(10, 1000), "cut off"},
		{"no tombstones", put(16, 0), "without a tombstone"},
		{"more tombstones than bytes", put(16, 6), "cut off"},
		{"as many tombstones as there are numbers", put(16, infinite), "cut off"},
		{"sequence number 0", seq(20, 0), "range tombstone 0 after 0"},
		{"a first sequence number that is the second", seq(20, 2), "range tombstone 2 after 2"},
		{"a second sequence number below the first", seq(28, 0), "range tombstone 0 after 1"},
		{"a sequence number too large", seq(28, ikey.MaxSeq+1), "range tombstone"},
		{
			"a second start before the first", func(b []byte) []byte { b[40], b[41] = 'a', '0'; return b },
			"after one from",
		},
		{
			"a last fragment without tombstones", func(b []byte) []byte { return put(46, 0)(b[:50]) },
			"without a tombstone",
		},
		{"a byte too many", func(b []byte) []byte { return append(b, 0) }, "too many"},
		{"cut in the last sequence number", func(b []byte) []byte { return b[:57] }, "cut off"},
		{"cut in the number of tombstones", func(b []byte) []byte { return b[:48] }, "cut off"},
		{"cut in an end's length", func(b []byte) []byte { return b[:44] }, "cut off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if l, err := parseRangeDels(c.damage(hostileDels())); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, %v; want %q", l, err, c.want)
			}
		})
	}
	if l, err := parseRangeDels(hostileDels()); err != nil || len(l.List()) != 2 {
		t.Fatalf("undamaged: %v, %v", l, err)
	}
}

func TestRangeDelsOfAnotherPlaceOrNumberAreSeen(t *testing.T) {
	file, info, kvs := small(t, None)
	p := partsOf(t, file)
	for _, c := range []struct {
		name   string
		damage func(b []byte)
	}{
		{"another number of them in the properties", func(b []byte) { b[p.props+16]++ }},
		{"another length in the footer", func(b []byte) { b[len(b)-footerSize+40]++ }},
		{"no length in the footer", func(b []byte) { clear(b[len(b)-footerSize+40:][:8]) }},
		{"a length in the footer that takes all of the properties", func(b []byte) {
			f := b[len(b)-footerSize:]
			n := binary.LittleEndian.Uint64(f[40:]) + binary.LittleEndian.Uint64(f[48:])
			binary.LittleEndian.PutUint64(f[40:], n)
			binary.LittleEndian.PutUint64(f[48:], 0)
		}},
	} {
		b := bytes.Clone(file)
		c.damage(b)
		fixSums(b)
		r := newReader(b, info, 0)
		if err := r.Load(0); !errors.Is(err, corrupt.Err) {
			t.Errorf("%s: %v", c.name, err)
		}
		if r.RangeDels() != nil {
			t.Errorf("%s: they are served", c.name)
		}
		if _, _, err := get(r, kvs[0].key, ikey.MaxSeq); !errors.Is(err, corrupt.Err) {
			t.Errorf("%s: Get: %v", c.name, err)
		}
	}
}

func TestPropertiesOfNoVersionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(p *Properties)
	}{
		{"no range deletes either", func(p *Properties) { p.RangeDeletes = 0 }},
		{"a block", func(p *Properties) { p.Blocks = 1 }},
		{"a delete", func(p *Properties) { p.Deletes = 1 }},
		{"a filter key", func(p *Properties) { p.FilterKeys = 1 }},
		{"an entry without a block", func(p *Properties) { p.Entries = 1 }},
		{"a smallest key", func(p *Properties) { p.Smallest = []byte("k") }},
		{"a largest key", func(p *Properties) { p.Largest = []byte("k") }},
		{"bytes of keys", func(p *Properties) { p.RawKeyBytes = 1 }},
		{"bytes of values", func(p *Properties) { p.RawValueBytes = 1 }},
		{"sequence numbers the wrong way round", func(p *Properties) { p.MinSeq = 9 }},
		{"a sequence number too large", func(p *Properties) { p.MaxSeq = ikey.MaxSeq + 1 }},
	} {
		p := Properties{RangeDeletes: 2, MinSeq: 3, MaxSeq: 4, BlockSize: 4096}
		if _, err := ParseProperties(p.append(nil)); err != nil {
			t.Fatal(err)
		}
		c.damage(&p)
		if got, err := ParseProperties(p.append(nil)); err == nil {
			t.Errorf("%s: accepted: %+v", c.name, got)
		}
	}
}

func TestATableWithoutVersionsAnswersEveryCall(t *testing.T) {
	dels := rangedel.List{span("a", "c", 7, 8), toTheEnd("x", 9)}
	for _, o := range []WriterOptions{{ID: 1}, {ID: 2, Filter: filterParams(t, 0.1, 0.01), Codec: Zstd}} {
		file, info := buildWith(t, o, nil, dels)
		for _, m := range []Meta{
			metaOf(info),
			{Name: "x", ID: info.ID, Size: info.Size, TailLen: info.TailLen, FilterLen: info.FilterLen, Seq: 5},
		} {
			r := newReader(file, info, 1<<20)
			r.meta, r.seq = m, m.Seq
			for _, load := range []float64{2, 0} {
				must(t, r.Load(load))
				for _, key := range []string{"", "a", "b", "c", "zzzzzzzzzzzz"} {
					if _, ok, err := get(r, key, ikey.MaxSeq); ok || err != nil {
						t.Errorf("Get(%q) = %v, %v", key, ok, err)
					}
					if n, err := r.ApproximateOffset([]byte(key)); n != 0 || err != nil {
						t.Errorf("ApproximateOffset(%q) = %d, %v", key, n, err)
					}
					if maybe, probed := r.Keys.MayContain(bloomblock.HashKey([]byte(key))); probed && maybe {
						t.Errorf("the filter of no keys says maybe to %q", key)
					}
					for _, o := range []IterOptions{{}, {Bypass: true}} {
						it := r.Iter(o)
						k := ikey.Search([]byte(key), 9)
						if it.First() || it.Last() || it.SeekGE(k) || it.SeekLT(k) {
							t.Errorf("a cursor stands at %v", it.Key())
						}
						must(t, it.Close())
					}
				}
			}
			if (r.Filter() != nil) != (o.Filter != bloomblock.Params{}) {
				t.Errorf("filter %v", r.Keys.State())
			}
			if got := r.RangeDels().Covering([]byte("b"), ikey.MaxSeq); m.Seq == 0 && got != 8 ||
				m.Seq != 0 && got != 5 {
				t.Errorf("b is covered by %d", got)
			}
			if err := r.Verify(t.Context(), func(ikey.Key, []byte) error { return errors.New("called") }); err != nil {
				t.Error(err)
			}
			if err := r.Dump(io.Discard, true); err != nil {
				t.Error(err)
			}
			if err := r.Load(0.5); err != nil {
				t.Error(err)
			}
			dropIndex(r)
			r.Close()
		}
		for i := range file {
			file[i] ^= 1 << (i % 8)
			if !mustBeHonest(t, fmt.Sprintf("byte %d", i), file, info, nil, dels) {
				t.Fatalf("byte %d: not seen", i)
			}
			file[i] ^= 1 << (i % 8)
		}
	}
}
