package sstable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// TestEntriesOfABlockAscendStrictly gives blocks to checkBlock whose heads are in order and whose entries are not.
func TestEntriesOfABlockAscendStrictly(t *testing.T) {
	for _, kvs := range [][]kv{
		{set("a", 5, "x"), set("a", 5, "y")},
		{set("a", 5, "x"), set("a", 6, "y")},
		{set("a", 5, "x"), del("a", 6)},
		{set("prefixed2", 5, "x"), set("prefixed1", 5, "y")},
		{set("x12345678b", 5, "x"), set("x12345678a", 9, "y"), set("y", 1, "")},
		{set("x12345678aa", 5, "x"), set("x12345678a", 5, "y"), set("y", 1, "")},
		{set("x1\x00\x00", 5, "x"), set("x1\x00", 5, "y"), set("y", 1, "")},
	} {
		var b blockBuilder
		for _, v := range kvs {
			k := ikey.Key{User: []byte(v.key), Trailer: v.t}
			b.add(k, []byte(v.value), b.with(k, []byte(v.value)))
		}
		if err := checkBlock(b.append(nil), anySeq); !errors.Is(err, ErrOrder) && !errors.Is(err, errBlockHeads) {
			t.Errorf("%v: %v, want %v", kvs, err, ErrOrder)
		}
		if err := checkBlock(encode(sorted(kvs)[:1]), anySeq); err != nil {
			t.Errorf("%v: one entry alone: %v", kvs, err)
		}
	}
}

// TestAValueOfABlockIsNoLongerThanAnyThatIsWritten checks blocks of one entry, of zeros that are never touched.
func TestAValueOfABlockIsNoLongerThanAnyThatIsWritten(t *testing.T) {
	head := encode([]kv{set("a", 5, "")})
	for _, tt := range []struct {
		value int
		want  error
	}{{maxValue, nil}, {maxValue + 1, errEntryLength}, {maxPlain - len(head), errEntryLength}} {
		data := make([]byte, len(head)+tt.value)
		copy(data, head)
		if err := checkBlock(data, anySeq); !errors.Is(err, tt.want) {
			t.Errorf("value of %d bytes: %v, want %v", tt.value, err, tt.want)
		}
	}
}

func TestABoundInThePropertiesEndsInThem(t *testing.T) {
	for _, n := range []uint32{1, maxKey + 1} {
		b := (&Properties{}).append(nil)
		binary.LittleEndian.PutUint32(b[propertyWords*8:], n)
		if n > 1 {
			b = append(b, make([]byte, n)...)
		} else {
			b = b[:propertyWords*8+4]
		}
		if _, err := ParseProperties(b); err == nil || !strings.Contains(err.Error(), "bound of") {
			t.Errorf("a bound of %d bytes: %v, want an error", n, err)
		}
	}
}

func TestSequencesOfABlockAreThoseOfTheProperties(t *testing.T) {
	data := encode([]kv{set("a", 5, "x"), set("b", 7, "y"), set("c", 0, "")})
	for _, s := range []struct {
		span seqSpan
		ok   bool
	}{{seqSpan{0, 7}, true}, {seqSpan{0, 6}, false}, {seqSpan{1, 7}, false}, {seqSpan{6, 9}, false}} {
		if err := checkBlock(data, s.span); (err == nil) != s.ok {
			t.Errorf("sequences 0, 5 and 7 in %v: %v", s.span, err)
		}
	}
}

// TestACompressedBlockSaysHowLongItIs compares the length in the header of each codec with that of the decoded block.
func TestACompressedBlockSaysHowLongItIs(t *testing.T) {
	for _, n := range []int{1, 255, 256, 257, 65535, 65791, 65792, 1 << 20} {
		src := bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n]
		for _, c := range []Codec{S2, Zstd} {
			b, used := compress(nil, src, c)
			if used == None {
				continue
			}
			for _, d := range []int{-1, 0, 1, 64 << 20} {
				if err := checkDecoded(b, used, n+d); (err == nil) != (d == 0) {
					t.Errorf("%v of %d bytes: want %d: %v", used, n, n+d, err)
				}
			}
		}
	}
	e, err := zstd.NewWriter(nil)
	must(t, err)
	for n := range 20 { // a frame that is cut off, or has no length
		b := e.EncodeAll(make([]byte, 3000), nil)
		if n < len(b) && checkDecoded(b[:min(n, 6)], Zstd, 3000) == nil {
			t.Errorf("%d bytes of a frame say a length", min(n, 6))
		}
		if checkDecoded(b[:min(n, len(b))], S2, 3000) == nil {
			t.Errorf("%d bytes of a zstd frame are s2 of 3000 bytes", n)
		}
	}
	var stream bytes.Buffer
	w, err := zstd.NewWriter(&stream)
	must(t, err)
	for range 3 {
		if _, err := w.Write(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		must(t, w.Flush())
	}
	must(t, w.Close())
	if err := checkDecoded(stream.Bytes(), Zstd, 3000); !errors.Is(err, errDecoded) {
		t.Errorf("a frame that says no length: %v, want %v", err, errDecoded)
	}
}

// TestNoBlockIsDecodedToMoreThanTheLimit writes values that the codecs shrink without bound, and reads them back.
func TestNoBlockIsDecodedToMoreThanTheLimit(t *testing.T) {
	testkit.LongUnderRace(t)
	for _, c := range []Codec{S2, Zstd} {
		for _, n := range []int{1 << 10, 64 << 10, 1 << 20, 8 << 20} {
			kvs := []kv{set("a", 1, string(make([]byte, n))), set("b", 1, strings.Repeat("ab", n/2))}
			file, info := build(t, WriterOptions{ID: 1, Codec: c}, kvs)
			if uint64(2*n) > maxRatio*info.Size || uint64(2*n) < 2*info.Size {
				t.Errorf("%v: two values of %d bytes in a file of %d", c, n, info.Size)
			}
			r := newReader(file, info, 32<<20)
			for _, v := range kvs {
				if got, ok, err := get(r, v.key, 9); err != nil || !ok || got.value != v.value {
					t.Errorf("%v: value of %d bytes: %v, %v", c, n, ok, err)
				}
			}
			if err := r.Verify(t.Context(), nil); err != nil {
				t.Errorf("%v: %v", c, err)
			}
		}
	}
	fixed := func(stored, decoded uint32) []byte {
		b := binary.LittleEndian.AppendUint32(nil, 1)
		for _, v := range []uint32{0, stored, decoded, 1} {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return append(b, 'a')
	}
	if _, err := parseIndex(fixed(100, 100*maxRatio), 105, 0); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if _, err := parseIndex(fixed(100, 100*maxRatio+1), 105, 0); err == nil {
		t.Error("an index claims more than the limit and is believed")
	}
}

// differing has other facts than the file, and counts its calls.
type differing struct {
	t     *testing.T
	info  Info
	calls int
}

func (d *differing) Check(i Info) error {
	d.calls++
	if fmt.Sprint(i) != fmt.Sprint(d.info) {
		d.t.Errorf("the file says %+v, its writer %+v", i, d.info)
	}
	return errors.New("the manifest has another")
}

// TestATailAgreesWithTheManifest asks Meta.Check at every way to load a tail.
func TestATailAgreesWithTheManifest(t *testing.T) {
	file, info, kvs := small(t, S2)
	m := metaOf(info)
	info.FilterRate = 0
	facts := &differing{t: t, info: info}
	m.Check = facts.Check
	o := newReader(file, info, 1<<20)
	r := NewReader(bytes.NewReader(file), m, o.cache, o.parts, o.domain)
	it := r.Iter(IterOptions{})
	it.First()
	_, _, getErr := get(r, kvs[0].key, 9)
	_, propertiesErr := r.Properties()
	for what, err := range map[string]error{
		"load": r.Load(0), "get": getErr, "cursor": it.Close(), "properties": propertiesErr,
		"verify": r.Verify(t.Context(), nil),
	} {
		if !errors.Is(err, corrupt.Err) || !strings.Contains(err.Error(), "the manifest has another") {
			t.Errorf("%s: %v, want damage that says so", what, err)
		}
	}
	if facts.calls != 5 {
		t.Errorf("%d calls, want 5", facts.calls)
	}
}
