package sstable

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

func encode(kvs []kv) []byte {
	var b blockBuilder
	for _, v := range kvs {
		b.add(v.ikey(), []byte(v.value), b.with(v.ikey(), []byte(v.value)))
	}
	return b.append(nil)
}

func TestBlockFindsWhatASortedListFinds(t *testing.T) {
	testkit.Long(t)
	rng := seeded()
	for name, kvs := range shapes() {
		for _, n := range []int{1, 2, 3, 31, 64, 65, 130, 500} {
			if n > len(kvs) || n > 31 && name == "very long keys" {
				continue
			}
			start := rng.IntN(len(kvs) - n + 1)
			part := kvs[start : start+n]
			data := encode(part)
			if err := checkBlock(data, anySeq); err != nil {
				t.Fatalf("%s, %d: %v", name, n, err)
			}
			b := parseBlock(data)
			for i, v := range part {
				e := b.entry(i)
				if k := string(b.appendKey(nil, i, &e)); k != v.key || e.trailer != v.t || string(e.value) != v.value {
					t.Fatalf("%s, %d: entry %d is %.40q@%d", name, n, i, k, e.trailer)
				}
				if b.stride != 0 {
					var m entryLayout
					if b.layout(&m, i); fmt.Sprint(b.entryWith(i, &m)) != fmt.Sprint(e) {
						t.Fatalf("%s, %d: entry %d is %v, by what all have in common %v",
							name, n, i, e, b.entryWith(i, &m))
					}
				}
				for _, d := range []ikey.Trailer{0, 1} {
					if got := b.seek([]byte(v.key), v.t+1-d, 64, prefetched); got != i &&
						(d == 1 || got != i-1 || part[i-1].key != v.key) {
						t.Fatalf("%s, %d: seek(%.40q, %d) = %d, want %d", name, n, v.key, v.t+1-d, got, i)
					}
				}
			}
		}
	}
}

func TestBlockSizeIsKnownBefore(t *testing.T) {
	testkit.LongUnderRace(t)
	for name, kvs := range shapes() {
		var b blockBuilder
		for i, v := range kvs[:min(len(kvs), 300)] {
			s := b.with(v.ikey(), []byte(v.value))
			b.add(v.ikey(), []byte(v.value), s)
			if i%30 == 0 {
				if n := len(b.append(nil)); n != s.size() {
					t.Fatalf("%s: %d bytes with %d entries, want %d", name, s.size(), i+1, n)
				}
			}
		}
	}
}

func TestSeparatorLiesBetweenAndIsShort(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"abc", "abd", "abc"},
		{"abcdef", "abz", "abd"},
		{"abcdef", "abdef", "abd"},
		{"abcdef", "abd", "abce"},
		{"ab\xff\xffz", "ac", "ab\xff\xff{"},
		{"a", "ab", "a"},
		{"a", "a", "a"},
		{"", "a", ""},
		{"\xff", "\xff\x00", "\xff"},
	} {
		got := string(appendSeparator(nil, []byte(c.a), []byte(c.b)))
		if got != c.want || got < c.a || got >= c.b && c.a != c.b {
			t.Errorf("between %q and %q: %q, want %q", c.a, c.b, got, c.want)
		}
	}
	rng := seeded()
	for range 10_000 {
		a, b := random(rng, rng.IntN(5)), random(rng, rng.IntN(5))
		if a > b {
			a, b = b, a
		}
		if got := string(appendSeparator(nil, []byte(a), []byte(b))); got < a || a != b && got >= b ||
			len(got) > len(a) && len(got) > len(b) {
			t.Fatalf("between %q and %q: %q", a, b, got)
		}
	}
}

func TestHostileBlocksAreRefused(t *testing.T) {
	good := func() []byte {
		return encode([]kv{set("key-1", 0, "one"), set("key-2", 7, "three"), set("key-21", 0, "")})
	}
	for _, c := range []struct {
		name   string
		damage func(b []byte) []byte
	}{
		{"empty", func([]byte) []byte { return nil }},
		{"cut in the header", func(b []byte) []byte { return b[:7] }},
		{"no entries", func(b []byte) []byte { b[0] = 0; return b }},
		{"more entries than bytes", func(b []byte) []byte { b[3] = 0xff; return b }},
		{"a few entries too many", func(b []byte) []byte { b[0] = 6; return b }},
		{"a prefix longer than the block", func(b []byte) []byte { b[5] = 0x10; return b }},
		{"offsets of a width of 3", func(b []byte) []byte { b[7] = 3; return b }},
		{"offsets of 4 bytes where 2 are", func(b []byte) []byte { b[7] = 4; return b }},
		{"equal lengths where there are none", func(b []byte) []byte { b[7] = 0; return append(b, 0) }},
		{"padding", func(b []byte) []byte { b[15] = 1; return b }},
		{"heads out of order", func(b []byte) []byte { b[16+7] = 0xff; return b }},
		{"a head longer than its key", func(b []byte) []byte { b[16] = 1; return b }},
		{"a first entry not at 0", func(b []byte) []byte { b[40] = 1; return b }},
		{"offsets that fall", func(b []byte) []byte { b[42] = 0; return b }},
		{"an offset after the end", func(b []byte) []byte { b[45] = 0x70; return b }},
		{"a suffix longer than its entry", func(b []byte) []byte { b[46] = 0x7e; return b }},
		{"a suffix length without end", func(b []byte) []byte { b[46], b[47], b[48] = 0xff, 0xff, 0xff; return b }},
		{"a kind that a table cannot hold", func(b []byte) []byte {
			i := bytes.Index(b, []byte{3, 1, 7, 0, 0, 0, 0, 0, 0}) // suffix of one byte, with a trailer: Set at 7
			b[i+1] = byte(ikey.RangeDelete)
			return b
		}},
		{"a suffix length in too many bytes", func(b []byte) []byte { b[46], b[47] = 0x82, 0; return b }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := checkBlock(c.damage(good()), anySeq); err == nil {
				t.Fatal("accepted")
			}
		})
	}
	must(t, checkBlock(good(), anySeq))
	for name, damage := range map[string]func(b []byte){
		"no entries":             func(b []byte) { clear(b[:4]); b[7] = 0 },
		"offsets of one byte":    func(b []byte) { b[7] = 1 },
		"offsets of three bytes": func(b []byte) { b[7] = 3 },
	} {
		b := append(good(), make([]byte, 100)...)
		damage(b)
		if _, err := checkHeader(b); !errors.Is(err, errBlockLayout) {
			t.Errorf("the header has %s: %v, want %v", name, err, errBlockLayout)
		}
	}
	long := binary.LittleEndian.AppendUint32([]byte{1, 0, 0, 0}, maxKey+1)
	if _, err := checkHeader(append(long, make([]byte, maxKey+100)...)); !errors.Is(err, errBlockLayout) {
		t.Errorf("the entries share more bytes than a key has: %v, want %v", err, errBlockLayout)
	}
	for _, second := range []kv{set("abc", 0, "34567890"), set("ab", 7, ""), set("ab", 0, "34567890")} {
		var b blockBuilder
		for _, v := range []kv{set("aa", 0, "12345678"), second} {
			s := b.with(v.ikey(), []byte(v.value))
			s.uniform = true // set for all entries of nine bytes, whatever is in them
			b.add(v.ikey(), []byte(v.value), s)
		}
		if err := checkBlock(b.append(nil), anySeq); (err == nil) != (len(second.key) == 2 && second.value != "") {
			t.Errorf("equally long entries, the second is %v: %v", second, err)
		}
	}
}

// The lengths of a footer add up to the size modulo 2⁶⁴ only: one part alone is longer than the file.
func TestFooterWhoseLengthsWrapIsRefused(t *testing.T) {
	for _, long := range []uint64{math.MaxUint64 - 1000, math.MaxInt64 - 100} {
		for i, f := range []footer{
			{indexLen: long},
			{rangeDelLen: long},
			{rangeDelLen: 1, propsLen: long},
			{indexLen: 1, propsLen: long},
		} {
			f.version, f.filterOff, f.indexOff = 1, math.MaxInt64-500, math.MaxInt64-500
			missing := 500 - (f.propsOff() - f.indexOff + f.propsLen + trailerSize + footerSize)
			if f.propsLen == 0 {
				f.propsLen = missing
			} else {
				f.indexLen += missing
			}
			if got, err := parseFooter(f.append(nil, 0), math.MaxInt64); err == nil {
				t.Errorf("%d: accepted: %+v", i, got)
			}
		}
	}
}

// The bytes of a block and of a table are part of the format: a change here is a change on disk.
func TestGoldenBytes(t *testing.T) {
	uniform := []kv{set("user-0001", 0, "ann"), set("user-0002", 0, "bob"), set("user-0003", 0, "eve")}
	mixed := []kv{
		set("k", 0, "v"), set("k\x00", 3, ""), del("k/a long key 1", 9), set("k/a long key 1", 2, "x"),
		set("k/a long key 2", 0, "yy"),
	}
	params, err := bloomblock.NewParams(bloomblock.Unit{BitsPerKey: 10, Probes: 6})
	must(t, err)
	dels := rangedel.List{span("a", "k", 3), span("k", "k/b", 1, 6), toTheEnd("x", 8)}
	table, _ := buildWith(t, WriterOptions{ID: 0x1122334455667788, BlockSize: 512, Filter: params}, mixed, dels)
	var long []kv
	for i := range 12 {
		long = append(long, set(fmt.Sprintf("user-%04d", i), 0, strings.Repeat(strconv.Itoa(i%10), 100)))
	}
	inParts, _ := build(t, WriterOptions{ID: 0x1122334455667788, BlockSize: 512, partSize: 1}, long)
	var b strings.Builder
	for _, part := range []struct {
		name string
		data []byte
	}{
		{"block, all entries equally long", encode(uniform)},
		{"block, mixed", encode(mixed)},
		{"table", table},
		{"table with its index in parts", inParts},
	} {
		fmt.Fprintf(&b, "%s\n%s\n", part.name, hex.Dump(part.data))
	}
	for _, file := range [][]byte{table, inParts} {
		r, err := Open(bytes.NewReader(file), int64(len(file)), "golden")
		must(t, err)
		must(t, r.Dump(&b, true))
	}
	testkit.Golden(t, "testdata/golden.txt", b.String())
}
