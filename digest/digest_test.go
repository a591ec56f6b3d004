package digest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
)

const seed bloomblock.Seed = 7

// part returns a part with the keys "k<from>" to "k<to-1>", in steps of 2, with a filter of up to three units.
func part(tb testing.TB, id uint64, from, to int, rates ...float64) *Part {
	tb.Helper()
	p := &Part{ID: id, Lo: key(from), Hi: key(to), Exclusive: true}
	b := bloomblock.Builder{Seed: seed}
	for i := from; i < to; i += 2 {
		b.Add(bloomblock.HashKey(key(i)))
		p.Keys++
	}
	if len(rates) == 0 {
		return p
	}
	params, err := bloomblock.ParamsNested(rates...)
	if err == nil {
		err = p.SetFilter(b.AppendBlock(nil, params))
	}
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func key(i int) []byte { return fmt.Appendf(nil, "k%06d", i) }

func digestOf(tb testing.TB, runs ...[]*Part) *Digest {
	tb.Helper()
	d, err := New(seed, runs)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// sample returns a digest with each kind of part: with and without a filter, range tombstones alone, no end.
func sample(tb testing.TB) *Digest {
	tb.Helper()
	gone := &Part{Deleted: []Range{{key(10), key(20)}, {key(90), nil}}}
	ribbon := part(tb, 4, 600, 900)
	b := bloomblock.Builder{Seed: seed}
	for i := 600; i < 900; i += 2 {
		b.Add(bloomblock.HashKey(key(i)))
	}
	params, err := bloomblock.ParamsRibbon(0.05)
	if err == nil {
		err = ribbon.SetFilter(b.AppendBlock(nil, params))
	}
	if err != nil {
		tb.Fatal(err)
	}
	return digestOf(tb,
		[]*Part{part(tb, 0, 0, 40, 0.01)},
		[]*Part{part(tb, 1, 0, 100, 0.1, 0.01, 0.001), part(tb, 2, 200, 300)},
		[]*Part{gone},
		[]*Part{part(tb, 3, 0, 200, 0.1), ribbon},
	)
}

func written(tb testing.TB, d *Digest) []byte {
	tb.Helper()
	var b bytes.Buffer
	if n, err := d.WriteTo(&b); err != nil || n != d.Size() || n != int64(b.Len()) {
		tb.Fatalf("wrote %d of %d bytes, %d by Size: %v", n, b.Len(), d.Size(), err)
	}
	return b.Bytes()
}

// TestTheFormatStays compares the bytes of a digest with those that were written before.
func TestTheFormatStays(t *testing.T) {
	d := sample(t)
	if b := written(t, d); len(b) != 1553 || checksum(b[:len(b)-4]) != 0x9bcc5cd7 || d.ID() != 0x47da180928c81512 {
		t.Errorf("%d bytes with checksum %#x and id %#x", len(b), checksum(b[:len(b)-4]), d.ID())
	}
}

// TestAMarkTravels sends digests with marks, and patches between them.
func TestAMarkTravels(t *testing.T) {
	plain := sample(t)
	marked := func(mark string) *Digest {
		t.Helper()
		d, err := plain.Marked([]byte(mark))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	one, two := marked("one"), marked(strings.Repeat("2", maxMark))
	if one.ID() == plain.ID() || one.ID() == two.ID() || marked("").ID() != plain.ID() || plain.Mark() != nil {
		t.Errorf("ids %x, %x and %x; without a mark %q", plain.ID(), one.ID(), two.ID(), plain.Mark())
	}
	if none := marked(""); none.Mark() != nil {
		t.Errorf("the mark of length 0 is %v, want nil", none.Mark())
	}
	if again, err := one.Marked([]byte("other")); err != nil || again.ID() != marked("other").ID() {
		t.Errorf("marked twice: id %x, %v", again.ID(), err)
	}
	if _, err := plain.Marked(make([]byte, maxMark+1)); err == nil {
		t.Error("a longer mark was taken")
	}
	for _, from := range []*Digest{plain, one, two} {
		for _, to := range []*Digest{plain, one, two} {
			read, err := Read(bytes.NewReader(written(t, from)))
			if err != nil || string(read.Mark()) != string(from.Mark()) {
				t.Fatalf("read: mark %q, %v, want %q", read.Mark(), err, from.Mark())
			}
			p, err := to.Since(from)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if n, err := p.WriteTo(&b); err != nil || n != p.Size() {
				t.Fatalf("wrote %d bytes of %d: %v", n, p.Size(), err)
			}
			if p, err = ReadPatch(&b); err != nil {
				t.Fatal(err)
			}
			got, err := read.Apply(p)
			if err != nil || string(got.Mark()) != string(to.Mark()) || !bytes.Equal(written(t, got), written(t, to)) {
				t.Errorf("patched from %q: mark %q, %v, want %q", from.Mark(), got.Mark(), err, to.Mark())
			}
		}
	}
	for what, b := range map[string][]byte{
		"no length": {isMark}, "an empty mark": {isMark, 0, 0}, "a short mark": {isMark, 2, 0, 'm'},
		"a long mark": append([]byte{isMark, 1, 1}, make([]byte, maxMark+1)...),
	} {
		if m, err := (&source{b: b}).mark(); err == nil {
			t.Errorf("%s: read %d bytes, want an error", what, len(m))
		}
	}
}

func TestQuestionsGoFromNewToOld(t *testing.T) {
	d := sample(t)
	for _, test := range []struct {
		name string
		key  []byte
		want bool
	}{
		{"in the newest part", key(0), true},
		{"in a part newer than the range tombstone", key(98), true},
		{"deleted in older parts", key(150), false},
		{"in a part without a filter", key(251), true},
		{"before a part without a filter", key(199), false},
		{"under the tombstone without an end", key(602), false},
		{"below all bounds", []byte("a"), false},
		{"beyond all bounds", []byte("z"), false},
		{"the empty key", nil, false},
	} {
		if got := d.MayContain(test.key); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	if !d.MayContainAny([][]byte{key(150), key(0)}) || d.MayContainAny([][]byte{key(150), key(602)}) ||
		d.MayContainAny(nil) {
		t.Error("MayContainAny differs from MayContain")
	}
	if d.Keys() != 20+50+50+100+150 || d.Rate() != 1 {
		t.Errorf("%d keys, rate %v", d.Keys(), d.Rate())
	}
}

// TestManyRunsAreAllAsked asks a digest with more runs than one round takes.
func TestManyRunsAreAllAsked(t *testing.T) {
	var runs [][]*Part
	for i := range 3 * partRuns {
		runs = append(runs, []*Part{part(t, uint64(i)+1, 1000+2*i, 1002+2*i, 0.01)})
	}
	d := digestOf(t, runs...)
	for i := range 3 * partRuns {
		if !d.MayContain(key(1000 + 2*i)) {
			t.Errorf("key of run %d is denied", i)
		}
	}
}

// TestEveryFlippedByteOfADigestIsAnError changes each byte, and cuts the digest at each length.
func TestEveryFlippedByteOfADigestIsAnError(t *testing.T) {
	d, err := sample(t).Marked([]byte("mark"))
	if err != nil {
		t.Fatal(err)
	}
	whole := written(t, d)
	for i := range whole {
		for _, bit := range []byte{1, 0x80, 0xff} {
			b := bytes.Clone(whole)
			b[i] ^= bit
			if _, err := Read(bytes.NewReader(b)); !errors.Is(err, corrupt.Err) {
				t.Fatalf("byte %d: %v", i, err)
			}
		}
		if _, err := Read(bytes.NewReader(whole[:i])); !errors.Is(err, corrupt.Err) {
			t.Fatalf("%d bytes: %v", i, err)
		}
	}
}

// TestALaterVersionIsNotDamage changes the version and makes the checksum right.
func TestALaterVersionIsNotDamage(t *testing.T) {
	b := written(t, sample(t))
	b[8]++
	reseal(b)
	if _, err := Read(bytes.NewReader(b)); !errors.Is(err, corrupt.ErrUnsupportedVersion) ||
		errors.Is(err, corrupt.Err) {
		t.Errorf("got %v", err)
	}
}

// reseal makes the checksums of header and directory right, and the id of a digest, if the directory is there.
func reseal(b []byte) {
	if len(b) < headerSize {
		return
	}
	if n := binary.LittleEndian.Uint64(b[40:]); n <= uint64(len(b)-headerSize) {
		directory := b[headerSize:][:n]
		binary.LittleEndian.PutUint32(b[48:], checksum(directory))
		if string(b[:8]) == magicDigest {
			seed := bloomblock.Seed(binary.LittleEndian.Uint64(b[16:]))
			binary.LittleEndian.PutUint64(b[24:], identity(seed, directory))
		}
	}
	binary.LittleEndian.PutUint32(b[52:], checksum(b[:52]))
}

func TestInvalidPartsAreRefused(t *testing.T) {
	lacking := part(t, 1, 0, 100, 0.1, 0.01)
	lacking.Units = lacking.Units[:1]
	for _, run := range [][]*Part{
		{part(t, 1, 0, 100, 0.1), part(t, 2, 99, 200, 0.1)},
		{part(t, 1, 100, 200, 0.1), part(t, 2, 0, 100, 0.1)},
		{{Keys: 1}, part(t, 2, 0, 100, 0.1)},
		{{Keys: 1, Lo: key(1), Hi: key(0)}},
		{{Keys: 1, Lo: key(1), Hi: key(1), Exclusive: true}},
		{lacking},
		{{Deleted: []Range{{key(2), key(1)}}}},
		{{Deleted: []Range{{key(2), key(2)}}}},
		{{Deleted: []Range{{key(0), nil}, {key(1), key(2)}}}},
		{{Deleted: []Range{{key(0), key(3)}, {key(1), key(2)}}}},
	} {
		if _, err := New(seed, [][]*Part{run}); err == nil {
			t.Errorf("parts from %q are accepted", run[0].Lo)
		}
	}
}

func TestAFilterBlockOfAnotherSizeIsRefused(t *testing.T) {
	params, err := bloomblock.ParamsFor(0.1)
	if err != nil {
		t.Fatal(err)
	}
	var b bloomblock.Builder
	block := b.AppendBlock(nil, params)
	for _, bad := range [][]byte{nil, block[:len(block)-1], append(block, 0)} {
		if err := new(Part).SetFilter(bad); err == nil {
			t.Errorf("a block of %d bytes is accepted, want %d", len(bad), len(block))
		}
	}
}

// TestAPartIsCheckedOnce makes a second digest of a part while the first could be asked, which must not write the part.
func TestAPartIsCheckedOnce(t *testing.T) {
	p := part(t, 1, 0, 100, 0.1)
	digestOf(t, []*Part{p})
	p.Units[0][0]++ // another check would fail
	digestOf(t, []*Part{p})
}

func TestRangeTombstonesAloneHaveNoRate(t *testing.T) {
	gone, some := &Part{Deleted: []Range{{key(10), nil}}}, part(t, 1, 0, 100, 0.1)
	if got, want := digestOf(t, []*Part{gone}, []*Part{some}).Rate(), some.Header.Rate(1); got != want {
		t.Errorf("rate %v, want %v", got, want)
	}
}

// TestAPatchKeepsWhatStays makes patches between digests that share parts in several ways.
func TestAPatchKeepsWhatStays(t *testing.T) {
	a, b, c := part(t, 1, 0, 100, 0.1, 0.01, 0.001), part(t, 2, 100, 200, 0.1, 0.01), part(t, 3, 200, 300, 0.1)
	mem := func(to int) *Part { return part(t, 0, 0, to, 0.1) }
	other := part(t, 2, 100, 202, 0.1) // the number of another part, but not its content
	for _, test := range []struct {
		name     string
		from, to [][]*Part
		fresh    []*Part // the parts whose filters are in the patch
	}{
		{"nothing to nothing", nil, nil, nil},
		{"nothing to something", nil, [][]*Part{{a, b}}, []*Part{a, b}},
		{"something to nothing", [][]*Part{{a, b}}, nil, nil},
		{"the same", [][]*Part{{a, b}, {c}}, [][]*Part{{a, b}, {c}}, nil},
		{"a run more", [][]*Part{{b}}, [][]*Part{{a}, {b}}, []*Part{a}},
		{"runs merged", [][]*Part{{a}, {b}, {c}}, [][]*Part{{a, b, c}}, nil},
		{"a run divided", [][]*Part{{a, b, c}}, [][]*Part{{c}, {b}, {a}}, nil},
		{"the first of a run is gone", [][]*Part{{a, b, c}}, [][]*Part{{b, c}}, nil},
		{"one in the middle is gone", [][]*Part{{a.cut(1), b.cut(1), c}}, [][]*Part{{a.cut(1), c}}, nil},
		{"runs of as many units merged", [][]*Part{{a.cut(1)}, {b.cut(1)}}, [][]*Part{{a.cut(1), b.cut(1)}}, nil},
		{"a part twice", [][]*Part{{a}}, [][]*Part{{a}, {a}}, []*Part{a}},
		{"fewer units", [][]*Part{{a, b}}, [][]*Part{{a.cut(1), b.cut(1)}}, nil},
		{"no units", [][]*Part{{a, b}}, [][]*Part{{a.cut(0), b}}, nil},
		{"more units", [][]*Part{{a.cut(1), b}}, [][]*Part{{a, b}}, []*Part{a}},
		{"a memtable", [][]*Part{{mem(10)}, {a}}, [][]*Part{{mem(10)}, {a}}, []*Part{mem(10)}},
		{"an equal number", [][]*Part{{a, b}}, [][]*Part{{a, other}}, []*Part{other}},
	} {
		t.Run(test.name, func(t *testing.T) {
			older, newer := digestOf(t, test.from...), digestOf(t, test.to...)
			p, err := newer.Since(older)
			if err != nil {
				t.Fatal(err)
			}
			var wire bytes.Buffer
			if n, err := p.WriteTo(&wire); err != nil || n != p.Size() || n != int64(wire.Len()) {
				t.Fatalf("wrote %d of %d bytes, %d by Size: %v", n, wire.Len(), p.Size(), err)
			}
			_, parts := p.encoded()
			if !slices.EqualFunc(parts, test.fresh, func(a, b *Part) bool {
				return bytes.Equal(appendPart(nil, true, a), appendPart(nil, true, b))
			}) {
				t.Errorf("%d parts in the patch, want %d", len(parts), len(test.fresh))
			}
			whole := wire.Bytes()
			if p, err = ReadPatch(&wire); err != nil {
				t.Fatal(err)
			}
			got, err := older.Apply(p)
			if err != nil || !bytes.Equal(written(t, got), written(t, newer)) {
				t.Fatalf("applied: %v", err)
			}
			if newer.id != older.id {
				if _, err := newer.Apply(p); !errors.Is(err, ErrMismatch) {
					t.Errorf("applied twice: %v", err)
				}
			}
			for i := range whole {
				b := bytes.Clone(whole)
				b[i] ^= 0x10
				if _, err := ReadPatch(bytes.NewReader(b)); !errors.Is(err, corrupt.Err) {
					t.Fatalf("byte %d: %v", i, err)
				}
			}
		})
	}
}

func TestAPatchOfAnotherStoreIsRefused(t *testing.T) {
	mine := sample(t)
	other, err := New(seed+1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Since(mine); !errors.Is(err, ErrMismatch) {
		t.Errorf("Since: %v", err)
	}
	p, err := mine.Since(mine)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Apply(p); !errors.Is(err, ErrMismatch) {
		t.Errorf("Apply: %v", err)
	}
}

// TestAFilterMayHaveASeedOfItsOwn asks a run whose filter was built with another seed, as the store does if the bits of
// a filter miss its rate, beside one with the seed of the digest, and alone.
func TestAFilterMayHaveASeedOfItsOwn(t *testing.T) {
	own := part(t, 1, 0, 1000, 0.01)
	other := &Part{ID: 2, Keys: 500, Lo: key(0), Hi: key(1000)}
	b := bloomblock.Builder{Seed: seed + 1}
	for i := range 500 {
		b.Add(bloomblock.HashKey(key(2*i + 1)))
	}
	params, err := bloomblock.ParamsFor(0.01)
	if err == nil {
		err = other.SetFilter(b.AppendBlock(nil, params))
	}
	if err != nil {
		t.Fatal(err)
	}
	both, alone := digestOf(t, []*Part{own}, []*Part{other}), digestOf(t, []*Part{other})
	passed := 0
	for i := range 1000 {
		if !both.MayContain(key(i)) || i%2 == 1 && !alone.MayContain(key(i)) {
			t.Fatalf("key %d is denied", i)
		}
		if i%2 == 0 && alone.MayContain(key(i)) {
			passed++
		}
	}
	if passed > 30 { // 5 are expected
		t.Errorf("%d of 500 absent keys pass, the rate is %v", passed, alone.Rate())
	}
}
