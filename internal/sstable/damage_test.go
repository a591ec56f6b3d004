package sstable

import (
	"bytes"
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

// smallDels holds the range tombstones of small.
var smallDels = rangedel.List{
	{Start: []byte("key"), End: []byte("key003"), Seqs: []ikey.Seq{3}},
	{Start: []byte("key003"), End: []byte("key0031"), Seqs: []ikey.Seq{3, 5, 1 << 40}},
	{Start: []byte("key9"), Seqs: []ikey.Seq{ikey.MaxSeq}},
}

var smallRule = PrefixLen(5)

var anySeq = seqSpan{0, ikey.MaxSeq}

// small builds a table with every feature and few bytes, and its index in one part.
func small(tb testing.TB, c Codec) ([]byte, Info, []kv) {
	tb.Helper()
	return smallWith(tb, c, defaultPartSize)
}

// smallInParts does the same with an index in parts.
func smallInParts(tb testing.TB, c Codec) ([]byte, Info) {
	tb.Helper()
	file, info, _ := smallWith(tb, c, 1)
	if !info.IndexInParts {
		tb.Fatal("the index is not in parts")
	}
	return file, info
}

func smallWith(tb testing.TB, c Codec, partSize int) ([]byte, Info, []kv) {
	tb.Helper()
	var kvs []kv
	for i := range 36 {
		kvs = append(kvs, set(fmt.Sprintf("key%03d", i), ikey.Seq(i%3), strings.Repeat("value", i%7)),
			del(fmt.Sprintf("key%03d", i), 7))
	}
	kvs = sorted(kvs)
	o := WriterOptions{
		ID: 0x0123456789abcdef, BlockSize: 512, Codec: c, Filter: filterParams(tb, 0.05, 0.01),
		Prefix: smallRule, partSize: partSize,
	}
	file, info := buildWith(tb, o, kvs, smallDels)
	return file, info, kvs
}

// mustBeHonest checks that each answer of a table is right or an error matching corrupt.Err.
func mustBeHonest(t *testing.T, what string, file []byte, info Info, kvs []kv, dels rangedel.List) (damaged bool) {
	t.Helper()
	honest := func(err error) {
		t.Helper()
		if !errors.Is(err, corrupt.Err) {
			t.Fatalf("%s: error is not damage: %v", what, err)
		}
		damaged = true
	}
	r := newReader(file, info, 1<<20)
	if err := r.Load(0); err != nil {
		honest(err)
	}
	if err := r.LoadPrefixes(smallRule, 0); err != nil {
		honest(err)
	}
	for _, err := range []error{r.Keys.State().Damage, r.Prefixes.State().Damage} {
		if err != nil {
			honest(err)
		}
	}
	if got := r.RangeDels().List(); got != nil && !reflect.DeepEqual(got, dels) || r.Loaded() && len(got) != len(dels) {
		t.Fatalf("%s: range deletes %v, want %v", what, got, dels)
	}
	for _, v := range kvs {
		if maybe, _ := r.Keys.MayContain(bloomblock.HashKey([]byte(v.key))); !maybe {
			t.Fatalf("%s: the filter denies %q", what, v.key)
		}
		if maybe, _ := r.Prefixes.MayContain(bloomblock.HashKey(smallRule.Of([]byte(v.key)))); !maybe {
			t.Fatalf("%s: the prefix filter denies the prefix of %q", what, v.key)
		}
		if got, ok, err := get(r, v.key, v.t.Seq()); err != nil {
			honest(err)
		} else if !ok || got != v {
			t.Fatalf("%s: Get(%q) = %q, %v", what, v.key, got.value, ok)
		}
	}
	for _, o := range []IterOptions{{}, {Bypass: true}} {
		it := r.Iter(o)
		i := 0
		for ok := it.First(); ok; ok = it.Next() {
			if at(it) != kvs[i] {
				t.Fatalf("%s: version %d is %q", what, i, it.Key().User)
			}
			i++
		}
		if err := it.Close(); err != nil {
			honest(err)
		} else if i != len(kvs) {
			t.Fatalf("%s: %d versions, want %d", what, i, len(kvs))
		}
	}
	if err := r.Verify(t.Context(), nil); err != nil {
		honest(err)
	} else if damaged {
		t.Fatalf("%s: Verify does not see it", what)
	}
	return damaged
}

func TestEveryFlippedByteIsSeen(t *testing.T) {
	testkit.Long(t)
	for _, o := range []struct {
		codec    Codec
		partSize int
	}{{None, 0}, {S2, 0}, {Zstd, 0}, {None, 1}, {S2, 100}} {
		c := o.codec
		file, info, kvs := smallWith(t, c, o.partSize)
		if mustBeHonest(t, "undamaged", file, info, kvs, smallDels) {
			t.Fatal("undamaged, and yet")
		}
		must(t, newReader(file, info, 0).VerifySums(t.Context()))
		for i := range file {
			file[i] ^= 1 << (i % 8)
			if !mustBeHonest(t, fmt.Sprintf("%v: byte %d of %d", c, i, len(file)), file, info, kvs, smallDels) {
				t.Fatalf("%v: byte %d of %d: not seen", c, i, len(file))
			}
			_, err := Open(bytes.NewReader(file), int64(len(file)), "x")
			if err != nil && !errors.Is(err, corrupt.Err) {
				t.Fatalf("Open: byte %d: %v", i, err)
			}
			if err := newReader(file, info, 0).VerifySums(t.Context()); !errors.Is(err, corrupt.Err) {
				t.Fatalf("%v: byte %d of %d: VerifySums: %v, want damage", c, i, len(file), err)
			}
			file[i] ^= 1 << (i % 8)
		}
	}
}

func TestEveryTruncationIsSeen(t *testing.T) {
	testkit.Long(t)
	for partSize := range 2 {
		file, info, kvs := smallWith(t, S2, partSize)
		for n := range file {
			if !mustBeHonest(t, fmt.Sprintf("%d bytes left", n), file[:n], info, kvs, smallDels) {
				t.Fatalf("%d bytes left: not seen", n)
			}
			if _, err := Open(bytes.NewReader(file[:n]), int64(n), "x"); !errors.Is(err, corrupt.Err) {
				t.Fatalf("Open of %d bytes: %v", n, err)
			}
		}
	}
}

func TestSwappedBlocksAreSeen(t *testing.T) {
	kvs := sorted(func() (kvs []kv) {
		for i := range 200 {
			kvs = append(kvs, set(fmt.Sprintf("key%04d", i), 0, "0123456789"))
		}
		return kvs
	}())
	file, info := build(t, WriterOptions{ID: 1, BlockSize: 512}, kvs)
	other, _ := build(t, WriterOptions{ID: 2, BlockSize: 512}, kvs)
	r := newReader(file, info, 0)
	must(t, r.Load(1))
	x := wholeIndex(t, r)
	o1, n1, _ := x.extent(1)
	o2, n2, _ := x.extent(2)
	if n1 != n2 {
		t.Fatalf("blocks of %d and %d bytes, want equal ones for this test", n1, n2)
	}
	swapped := slices.Clone(file)
	copy(swapped[o1:], file[o2:o2+uint64(n2)+trailerSize])
	copy(swapped[o2:], file[o1:o1+uint64(n1)+trailerSize])
	if !mustBeHonest(t, "blocks swapped", swapped, info, kvs, nil) {
		t.Fatal("swapped blocks are not seen")
	}
	foreign := slices.Clone(file)
	copy(foreign[o1:], other[o1:o1+uint64(n1)+trailerSize])
	if !mustBeHonest(t, "a block of another table", foreign, info, kvs, nil) {
		t.Fatal("a foreign block is not seen")
	}
	if !mustBeHonest(t, "another table", other, info, kvs, nil) {
		t.Fatal("a foreign table is not seen")
	}
}

// failing is a file whose reads fail while on is set.
type failing struct {
	io.ReaderAt
	on bool
}

var errDisk = errors.New("disk on fire")

func (f *failing) ReadAt(b []byte, off int64) (int, error) {
	if f.on {
		return 0, errDisk
	}
	return f.ReaderAt.ReadAt(b, off)
}

func TestACursorReadsABlockAgainThatCouldNotBeRead(t *testing.T) {
	file, info, kvs := small(t, None)
	r := newReader(file, info, 1<<20)
	must(t, r.Load(0))
	wholeIndex(t, r)
	f := &failing{bytes.NewReader(file), true}
	r.file = f
	it := r.Iter(IterOptions{Bypass: true})
	if it.First() || !errors.Is(it.Err(), errDisk) {
		t.Errorf("%v, want %v", it.Err(), errDisk)
	}
	f.on = false
	if !it.First() || at(it) != kvs[0] {
		t.Errorf("%v, want the first key", it.Err())
	}
	must(t, it.Close())
}

func TestErrorsOfTheFileAreNotDamageAndPass(t *testing.T) {
	file, info, kvs := small(t, None)
	r := newReader(file, info, 1<<20)
	f := &failing{bytes.NewReader(file), true}
	r.file = f
	check := func(err error) {
		t.Helper()
		if f.on != errors.Is(err, errDisk) || errors.Is(err, corrupt.Err) {
			t.Fatalf("failing %v: %v", f.on, err)
		}
	}
	for _, f.on = range []bool{true, false, true, false} {
		check(r.Load(0))
		_, _, err := get(r, kvs[0].key, kvs[0].t.Seq())
		check(err)
		it := r.Iter(IterOptions{Bypass: true})
		it.Last()
		check(it.Err())
		check(it.Close())
		check(r.Verify(t.Context(), nil))
		dropIndex(r)
		_, err = r.ApproximateOffset([]byte(kvs[0].key))
		check(err)
		dropIndex(r)
		r.Keys.Reduce(r.Keys.Forms(1))
		if s := r.Keys.State(); s.Damage != nil {
			t.Fatal(s.Damage)
		}
	}
}

// A failsOnce is a file that fails at the write after some others, and that takes those behind it.
type failsOnce struct{ after int }

func (w *failsOnce) Write(b []byte) (int, error) {
	if w.after--; w.after == -1 {
		return 0, errDisk
	}
	return len(b), nil
}

// TestNoFailedWriteOfATableIsLost writes a table of large and small blocks, the last of which is written at the end.
func TestNoFailedWriteOfATableIsLost(t *testing.T) {
	for n := 0; ; n++ {
		to := &failsOnce{n}
		w := NewWriter(to, WriterOptions{ID: 1, Filter: filterParams(t, 0.01)})
		var err error
		for i, size := range []int{writeSize + 1, writeSize, 200, writeSize} {
			key := ikey.Key{User: fmt.Append(nil, i), Trailer: ikey.MakeTrailer(1, ikey.Set)}
			err = errors.Join(err, w.Add(key, make([]byte, size)))
		}
		info, end := w.Finish()
		if to.after >= 0 {
			must(t, errors.Join(err, end))
			if n < 6 {
				t.Errorf("%d writes", n)
			}
			return
		}
		if !errors.Is(end, errDisk) || info.Size != 0 {
			t.Errorf("write %d fails: %v, a table of %d bytes", n, end, info.Size)
		}
	}
}

// TestNoFlippedBitOfAFilterDeniesAKey flips each bit of the filters' region, padding and headers included.
func TestNoFlippedBitOfAFilterDeniesAKey(t *testing.T) {
	testkit.Long(t)
	ribbon, err := bloomblock.ParamsRibbon(0.01, 0.001)
	must(t, err)
	var kvs []kv
	for i := range 700 {
		kvs = append(kvs, set(fmt.Sprintf("key%05d", i), 0, "v"))
	}
	for _, p := range []bloomblock.Params{filterParams(t, 0.01, 0.001), ribbon} {
		file, info := build(t, WriterOptions{ID: 1, BlockSize: 1 << 10, Filter: p}, kvs)
		whole := newReader(file, info, 0)
		if err := whole.Load(0); err != nil || whole.Keys.State().Units != 2 {
			t.Fatalf("%+v, %v: want two units", whole.Keys.State(), err)
		}
		for i := info.filterOff() * 8; i < (info.filterOff()+info.FilterLen)*8; i++ {
			file[i/8] ^= 1 << (i % 8)
			r := newReader(file, info, 1<<20)
			if err := r.Load(0); err != nil {
				t.Fatalf("bit %d: %v", i, err) // a damaged filter is no error of lookups
			}
			if damage := r.Keys.State().Damage; !errors.Is(damage, corrupt.Err) {
				t.Fatalf("bit %d: damage %v, want one that is seen", i, damage)
			}
			for _, v := range kvs {
				if maybe, _ := r.Keys.MayContain(bloomblock.HashKey([]byte(v.key))); !maybe {
					t.Fatalf("bit %d: the filter denies %q", i, v.key)
				}
			}
			if got, ok, err := get(r, kvs[i%700].key, 0); err != nil || !ok || got != kvs[i%700] {
				t.Fatalf("bit %d: %q, %v, %v", i, got.value, ok, err)
			}
			file[i/8] ^= 1 << (i % 8)
		}
	}
}
