package sstable

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A kv is one version and its value.
type kv struct {
	key   string
	t     ikey.Trailer
	value string
}

func (v kv) ikey() ikey.Key { return ikey.Key{User: []byte(v.key), Trailer: v.t} }

func set(key string, seq ikey.Seq, value string) kv {
	return kv{key, ikey.MakeTrailer(seq, ikey.Set), value}
}

func del(key string, seq ikey.Seq) kv { return kv{key, ikey.MakeTrailer(seq, ikey.Delete), ""} }

func sorted(kvs []kv) []kv {
	slices.SortFunc(kvs, func(a, b kv) int { return ikey.Compare(a.ikey(), b.ikey()) })
	return slices.CompactFunc(kvs, func(a, b kv) bool { return a.key == b.key && a.t == b.t })
}

func filterParams(tb testing.TB, rates ...float64) bloomblock.Params {
	tb.Helper()
	p, err := bloomblock.ParamsNested(rates...)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// build writes a table into memory.
func build(tb testing.TB, o WriterOptions, kvs []kv) ([]byte, Info) {
	tb.Helper()
	var buf bytes.Buffer
	w := NewWriter(&buf, o)
	for _, v := range kvs {
		if err := w.Add(v.ikey(), []byte(v.value)); err != nil {
			tb.Fatal(err)
		}
	}
	info, err := w.Finish()
	if err != nil {
		tb.Fatal(err)
	}
	if info.Size != uint64(buf.Len()) {
		tb.Fatalf("size %d, want %d", info.Size, buf.Len())
	}
	return buf.Bytes(), info
}

func metaOf(i Info) Meta {
	return Meta{Name: "000001.sst", ID: i.ID, Size: i.Size, TailLen: i.TailLen, FilterLen: i.FilterLen}
}

// A bench table: a reader with a domain, and a poisoned cache so that a stale slice is seen.
func newReader(file []byte, info Info, capacity int64) *Reader {
	d := new(epoch.Domain)
	c := cache.New(capacity, d)
	c.Poison()
	return NewReader(bytes.NewReader(file), metaOf(info), c, d)
}

// get looks key up inside a guard and copies the value.
func get(r *Reader, key string, seq ikey.Seq) (kv, bool, error) {
	g := r.domain.Enter()
	defer g.Leave()
	var st Stats
	v, t, ok, err := r.Get([]byte(key), seq, &st)
	return kv{key, t, string(v)}, ok, err
}

// model is what get must say.
func model(kvs []kv, key string, seq ikey.Seq) (kv, bool) {
	i, _ := slices.BinarySearchFunc(kvs, ikey.Search([]byte(key), seq), func(v kv, k ikey.Key) int { return ikey.Compare(v.ikey(), k) })
	if i < len(kvs) && kvs[i].key == key {
		return kvs[i], true
	}
	return kv{key: key}, false
}

func random(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return string(b)
}

// shapes are sets of keys that have gone wrong in some store.
func shapes() map[string][]kv {
	m := map[string][]kv{
		"one empty key":          {set("", 0, "v")},
		"a single tombstone":     {del("k", 9)},
		"no values":              {set("a", 1, ""), set("b", 1, ""), del("c", 7)},
		"kinds and sequences":    {set("a", 9, "9"), del("a", 5), set("a", 0, "0"), set("c", ikey.MaxSeq, "m")},
		"very long keys":         {},
		"values of mebibytes":    {set("a", 1, "s"), set("b", 2, strings.Repeat("0123456789", 150_000)), set("c", 0, random(1<<20)), set("d", 1, "")},
		"keys with zero bytes":   {},
		"prefixes of each other": {},
	}
	zero := "zero-"
	for i := range 40 {
		m["keys with zero bytes"] = append(m["keys with zero bytes"],
			set("p"+strings.Repeat("\x00", i), ikey.Seq(i), strconv.Itoa(i)), set(strings.Repeat("\x00", i), 0, zero+strconv.Itoa(i)),
			set("p"+strings.Repeat("\x00", i)+"\x01", 3, strconv.Itoa(-i)))
		m["prefixes of each other"] = append(m["prefixes of each other"], set(strings.Repeat("ab", i), ikey.Seq(i%3), random(i)))
		m["very long keys"] = append(m["very long keys"], set(strings.Repeat("k", MaxKey-i), 1, random(9)),
			set(strings.Repeat("k", MaxKey-9)+random(9), 1, random(9)))
	}
	long := strings.Repeat("tenant/0123456789/object/", 8)
	for i := range 1500 {
		m["random keys"] = append(m["random keys"], set(random(16), 0, random(100)))
		m["random keys, each with a sequence number"] = append(m["random keys, each with a sequence number"], set(random(16), ikey.Seq(i), random(20)))
		m["a long shared prefix"] = append(m["a long shared prefix"], set(fmt.Sprintf("%s%08d", long, i*7), ikey.Seq(i&1), strconv.Itoa(i)))
		m["eight equal bytes after the prefix"] = append(m["eight equal bytes after the prefix"], set(fmt.Sprintf("%c-12345678-%05d", 'a'+i%2, i), 0, strconv.Itoa(i)))
		m["keys and values of all lengths"] = append(m["keys and values of all lengths"], set(random(rand.IntN(40)), ikey.Seq(rand.IntN(3)), random(rand.IntN(300))))
		m["bytes at the ends of their range"] = append(m["bytes at the ends of their range"], set(string([]byte{byte(-(i & 1)), byte(i >> 8), byte(i), 0xff})+strings.Repeat("\xff", i%12), 1, "v"))
	}
	for i := range 1400 {
		k := fmt.Sprintf("key%02d", i/200)
		if i%3 == 0 {
			m["many versions over many blocks"] = append(m["many versions over many blocks"], del(k, ikey.Seq(10+2*i)))
		} else {
			m["many versions over many blocks"] = append(m["many versions over many blocks"], set(k, ikey.Seq(10+2*i), random(30)))
		}
	}
	for name := range m {
		m[name] = sorted(m[name])
	}
	return m
}

func TestTableAnswersAsAMapDoes(t *testing.T) {
	for name, kvs := range shapes() {
		for _, o := range []WriterOptions{
			{ID: 1, BlockSize: 1 << 10, Filter: filterParams(t, 0.1, 0.001)},
			{ID: 2, Codec: S2},
			{ID: 3, BlockSize: 8 << 10, Codec: Zstd, Filter: filterParams(t, 0.01)},
		} {
			t.Run(fmt.Sprintf("%s/%v", name, o.Codec), func(t *testing.T) {
				file, info := build(t, o, kvs)
				for _, capacity := range []int64{0, 600 << 10} {
					checkTable(t, file, info, capacity, kvs)
				}
				r := newReader(file, info, 0)
				if err := r.Verify(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				if err := r.Dump(io.Discard, info.RawValueBytes < 1<<20); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// effortFor is how many places of a table to try: fewer where entries are large.
func effortFor(kvs []kv) int {
	n := 0
	for _, v := range kvs {
		n += len(v.key) + len(v.value)
	}
	return min(max(10_000_000/n, 3), 80)
}

func checkTable(t *testing.T, file []byte, info Info, capacity int64, kvs []kv) {
	t.Helper()
	r := newReader(file, info, capacity)
	if err := r.Load(0); err != nil {
		t.Fatal(err)
	}
	effort := effortFor(kvs)
	if capacity == 0 {
		effort = max(1, effort/8) // each lookup reads its block again
	}
	step := max(1, len(kvs)/effort)
	for i := 0; i < len(kvs); i += step {
		v := kvs[i]
		if maybe, _ := r.MayContain(bloomblock.HashKey([]byte(v.key))); !maybe {
			t.Fatalf("the filter denies %q", v.key)
		}
		for _, key := range []string{v.key, v.key + "\x00", v.key + "x", v.key[:len(v.key)/2], v.key[:max(0, len(v.key)-1)]} {
			for _, seq := range []ikey.Seq{v.t.Seq(), ikey.MaxSeq, 0, v.t.Seq() - min(1, v.t.Seq())} {
				got, ok, err := get(r, key, seq)
				want, wantOK := model(kvs, key, seq)
				if err != nil || ok != wantOK || got != want {
					t.Fatalf("Get(%.40q, %d) = %.40q@%d, %v, %v; want %.40q@%d, %v", key, seq, got.value, got.t, ok, err, want.value, want.t, wantOK)
				}
			}
		}
	}
	for _, o := range []IterOptions{{}, {NoFill: true, ReadAhead: 1}, {Bypass: true}, {Bypass: true, ReadAhead: 5000}} {
		checkIter(t, r, o, kvs)
	}
	p, err := r.Properties()
	if err != nil || p.Entries != uint64(len(kvs)) || string(p.Smallest) != kvs[0].key || string(p.Largest) != kvs[len(kvs)-1].key {
		t.Fatalf("properties %+v, %v", p, err)
	}
	r.Close()
	if s := r.cache.Stats(); s.Blocks != 0 {
		t.Fatalf("%d blocks of a closed table are cached", s.Blocks)
	}
}

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
	for ok := it.Last(); ok; ok = it.Prev() {
		if i--; i < 0 || at(it) != kvs[i] {
			t.Fatalf("backward: version %d is %.40q@%d", i, it.Key().User, it.Key().Trailer)
		}
	}
	if i != 0 || it.Err() != nil {
		t.Fatalf("backward: %d versions left: %v", i, it.Err())
	}
	for range effortFor(kvs) {
		v := kvs[rand.IntN(len(kvs))]
		k := ikey.Key{User: []byte(v.key[:rand.IntN(len(v.key)+1)]), Trailer: v.t + ikey.Trailer(rand.IntN(3)) - 1}
		if rand.IntN(2) == 0 {
			k.User = []byte(v.key)
		}
		if rand.IntN(4) == 0 {
			k.User = append(k.User, byte(rand.Uint32()))
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
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWriterRefusesWhatATableCannotHold(t *testing.T) {
	for _, c := range []struct {
		name string
		kvs  []kv
		want error
	}{
		{"nothing at all", nil, ErrEmpty},
		{"the same version twice", []kv{set("a", 1, ""), set("a", 1, "")}, ErrOrder},
		{"an older version first", []kv{set("a", 1, ""), set("a", 2, "")}, ErrOrder},
		{"keys out of order", []kv{set("b", 1, ""), set("a", 1, "")}, ErrOrder},
		{"a key too long", []kv{set(strings.Repeat("k", MaxKey+1), 1, "")}, ErrSize},
		{"a range tombstone", []kv{{"a", ikey.MakeTrailer(1, ikey.RangeDelete), "b"}}, ErrKind},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := NewWriter(io.Discard, WriterOptions{})
			var err error
			for _, v := range c.kvs {
				err = w.Add(v.ikey(), []byte(v.value))
			}
			_, errFinish := w.Finish()
			if err = cmp.Or(err, errFinish); !errors.Is(err, c.want) || errFinish == nil {
				t.Fatalf("got %v and %v, want %v", err, errFinish, c.want)
			}
		})
	}
}

// small is a table with every feature and few bytes.
func small(tb testing.TB, c Codec) ([]byte, Info, []kv) {
	tb.Helper()
	var kvs []kv
	for i := range 36 {
		kvs = append(kvs, set(fmt.Sprintf("key%03d", i), ikey.Seq(i%3), strings.Repeat("value", i%7)), del(fmt.Sprintf("key%03d", i), 7))
	}
	kvs = sorted(kvs)
	file, info := build(tb, WriterOptions{ID: 0x0123456789abcdef, BlockSize: 512, Codec: c, Filter: filterParams(tb, 0.05, 0.01)}, kvs)
	return file, info, kvs
}

// mustBeHonest checks that whatever a table says is true: each answer is right or an error that Is corrupt.Err.
func mustBeHonest(t *testing.T, what string, file []byte, info Info, kvs []kv) (damaged bool) {
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
	if err := r.FilterState().Damage; err != nil {
		honest(err)
	}
	for _, v := range kvs {
		if maybe, _ := r.MayContain(bloomblock.HashKey([]byte(v.key))); !maybe {
			t.Fatalf("%s: the filter denies %q", what, v.key)
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
	for _, c := range []Codec{None, S2, Zstd} {
		file, info, kvs := small(t, c)
		if mustBeHonest(t, "undamaged", file, info, kvs) {
			t.Fatal("undamaged, and yet")
		}
		for i := range file {
			file[i] ^= 1 << (i % 8)
			if !mustBeHonest(t, fmt.Sprintf("%v: byte %d of %d", c, i, len(file)), file, info, kvs) {
				t.Fatalf("%v: byte %d of %d: not seen", c, i, len(file))
			}
			_, err := Open(bytes.NewReader(file), int64(len(file)), "x")
			if err != nil && !errors.Is(err, corrupt.Err) {
				t.Fatalf("Open: byte %d: %v", i, err)
			}
			file[i] ^= 1 << (i % 8)
		}
	}
}

func TestEveryTruncationIsSeen(t *testing.T) {
	file, info, kvs := small(t, S2)
	for n := range file {
		if !mustBeHonest(t, fmt.Sprintf("%d bytes left", n), file[:n], info, kvs) {
			t.Fatalf("%d bytes left: not seen", n)
		}
		if _, err := Open(bytes.NewReader(file[:n]), int64(n), "x"); !errors.Is(err, corrupt.Err) {
			t.Fatalf("Open of %d bytes: %v", n, err)
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
	if err := r.Load(1); err != nil {
		t.Fatal(err)
	}
	x := r.index.Load()
	o1, n1, _ := x.extent(1)
	o2, n2, _ := x.extent(2)
	if n1 != n2 {
		t.Fatalf("blocks of %d and %d bytes, want equal ones for this test", n1, n2)
	}
	swapped := slices.Clone(file)
	copy(swapped[o1:], file[o2:o2+uint64(n2)+trailerSize])
	copy(swapped[o2:], file[o1:o1+uint64(n1)+trailerSize])
	if !mustBeHonest(t, "blocks swapped", swapped, info, kvs) {
		t.Fatal("swapped blocks are not seen")
	}
	foreign := slices.Clone(file)
	copy(foreign[o1:], other[o1:o1+uint64(n1)+trailerSize])
	if !mustBeHonest(t, "a block of another table", foreign, info, kvs) {
		t.Fatal("a foreign block is not seen")
	}
	if !mustBeHonest(t, "another table", other, info, kvs) {
		t.Fatal("a foreign table is not seen")
	}
}

func TestFilterOfAnotherTableIsNotBelieved(t *testing.T) {
	var a, b []kv
	for i := range 500 {
		a, b = append(a, set(fmt.Sprintf("a%04d", i), 0, "v")), append(b, set(fmt.Sprintf("b%04d", i), 0, "v"))
	}
	o := WriterOptions{ID: 1, Filter: filterParams(t, 0.001)}
	fa, ia := build(t, o, a)
	fb, ib := build(t, o, b)
	if ia.FilterLen != ib.FilterLen {
		t.Fatal("filters of different size")
	}
	copy(fa[ia.FilterOff:ia.FilterOff+ia.FilterLen], fb[ib.FilterOff:])
	if !mustBeHonest(t, "foreign filter", fa, ia, a) {
		t.Fatal("foreign filter is not seen")
	}
}

func TestLoadTakesAsManyUnitsAsTheRateNeeds(t *testing.T) {
	var kvs []kv
	for i := range 2000 {
		kvs = append(kvs, set(fmt.Sprintf("a%04d", i), 0, "v"))
	}
	file, info := build(t, WriterOptions{ID: 1, Filter: filterParams(t, 0.1, 0.01, 0.0001)}, kvs)
	r := newReader(file, info, 0)
	for _, c := range []struct {
		rate  float64
		units int
	}{{1, 0}, {2, 0}, {0.1, 1}, {0.5, 1}, {0.01, 2}, {0.05, 2}, {0.0001, 3}, {0, 3}} {
		if err := r.Load(c.rate); err != nil {
			t.Fatal(err)
		}
		s := r.FilterState()
		if s.Units != c.units || s.Damage != nil || s.Bytes != r.FilterBytes() || c.units > 0 && s.Rate > max(c.rate, 0.0001) {
			t.Fatalf("Load(%v): %+v, want %d units", c.rate, s, c.units)
		}
		if _, probed := r.MayContain(1); probed != (c.units > 0) {
			t.Fatalf("Load(%v): probed %v", c.rate, probed)
		}
	}
	for _, keep := range []int{3, 1, 0} {
		if err := r.DropFilterUnits(keep); err != nil {
			t.Fatal(err)
		}
		if s := r.FilterState(); s.Units != keep {
			t.Fatalf("%d units after dropping to %d", s.Units, keep)
		}
	}
	if err := r.Load(0.01); err != nil || r.FilterState().Units != 2 {
		t.Fatalf("after dropping: %+v, %v", r.FilterState(), err)
	}
	r.DropIndex()
	if r.Loaded() || r.IndexBytes() != 0 {
		t.Fatal("index was not dropped")
	}
	if got, ok, err := get(r, kvs[7].key, 0); !ok || err != nil || got != kvs[7] {
		t.Fatalf("after dropping the index: %v, %v, %v", got, ok, err)
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
		r.DropIndex()
		_ = r.DropFilterUnits(0)
		if s := r.FilterState(); s.Damage != nil {
			t.Fatal(s.Damage)
		}
	}
}

func TestReadersWhileBlocksAreEvicted(t *testing.T) {
	var kvs []kv
	for i := range 4000 {
		kvs = append(kvs, set(fmt.Sprintf("key%05d", i), ikey.Seq(i%2), strings.Repeat(strconv.Itoa(i), 20)))
	}
	for _, c := range []Codec{None, S2} {
		file, info := build(t, WriterOptions{ID: 1, Codec: c, BlockSize: 1 << 10, Filter: filterParams(t, 0.01)}, kvs)
		r := newReader(file, info, 200<<10)
		var wg sync.WaitGroup
		for n := range 4 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(1, uint64(n)))
				it := r.Iter(IterOptions{NoFill: n == 3})
				for range 2000 {
					i := rng.IntN(len(kvs))
					if err := r.Load(0.5); err != nil {
						t.Error(err)
					}
					if got, ok, err := get(r, kvs[i].key, ikey.MaxSeq); err != nil || !ok || got != kvs[i] {
						t.Errorf("Get(%q) = %v, %v, %v", kvs[i].key, got, ok, err)
						return
					}
					if it.SeekGE(kvs[i].ikey()); at(it) != kvs[i] {
						t.Errorf("SeekGE(%q) = %v", kvs[i].key, at(it))
						return
					}
					if n == 0 && i%500 == 0 {
						r.DropIndex()
					}
				}
				if err := it.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		r.Close()
	}
}

func TestACachedLookupAllocatesNothing(t *testing.T) {
	var kvs []kv
	for i := range 4000 {
		kvs = append(kvs, set(fmt.Sprintf("key%05d", i), ikey.Seq(i%2), "0123456789"))
	}
	for _, c := range []Codec{None, S2, Zstd} {
		file, info := build(t, WriterOptions{ID: 1, Codec: c, Filter: filterParams(t, 0.01)}, kvs)
		d := new(epoch.Domain)
		key, other, h := []byte("key01000"), []byte("key01000x"), bloomblock.HashKey([]byte("key01000"))
		for _, x := range []struct {
			name     string
			capacity int64
			max      float64
		}{{"cached", 1 << 20, 0}, {"evicted each time", 160 << 10, 0.6}} {
			r := NewReader(bytes.NewReader(file), metaOf(info), cache.New(x.capacity, d), d)
			if err := r.Load(0); err != nil {
				t.Fatal(err)
			}
			n := 0
			lookup := func() {
				if x.max > 0 {
					n = (n + 37) % len(kvs)
					key = fmt.Appendf(key[:0], "key%05d", n)
				}
				g := d.Enter()
				var st Stats
				_, _, ok, err := r.Get(key, 9, &st)
				_, _, ok2, err2 := r.Get(other, 9, &st)
				maybe, _ := r.MayContain(h)
				g.Leave()
				if !ok || err != nil || ok2 || err2 != nil || !maybe {
					t.Fatal(ok, err, ok2, err2, maybe)
				}
			}
			for range 2000 {
				lookup()
			}
			if got := testing.AllocsPerRun(2000, lookup); got > x.max+btof(x.max > 0) {
				t.Errorf("%v, %s: %v allocations", c, x.name, got)
			}
		}
	}
}

func btof(b bool) float64 {
	if b {
		return 1 // fmt
	}
	return 0
}

func TestTrimKeepsTheUnitsThatARateNeeds(t *testing.T) {
	params, err := bloomblock.ParamsNested(0.01, 0.001)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w := NewWriter(&file, WriterOptions{ID: 7, Filter: params})
	for i := range 2000 {
		if err := w.Add(ikey.Key{User: fmt.Appendf(nil, "%06d", i), Trailer: ikey.MakeTrailer(1, ikey.Set)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	r, err := Open(bytes.NewReader(file.Bytes()), int64(file.Len()), "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Load(0.001); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rate float64
		want int
	}{{0.001, 2}, {0.005, 2}, {0.01, 1}, {0.001, 1}, {1, 0}} {
		if err := r.Trim(c.rate); err != nil {
			t.Fatal(err)
		}
		if got := r.FilterState().Units; got != c.want {
			t.Errorf("after Trim(%g): %d units, want %d", c.rate, got, c.want)
		}
	}
	if err := r.Load(0.001); err != nil || r.FilterState().Units != 2 {
		t.Errorf("loaded again: %d units, %v", r.FilterState().Units, err)
	}
}
