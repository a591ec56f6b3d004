package sstable

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
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
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/testkit"
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
	must(tb, err)
	return p
}

// build writes a table into memory.
func build(tb testing.TB, o WriterOptions, kvs []kv) ([]byte, Info) {
	tb.Helper()
	return buildWith(tb, o, kvs, nil)
}

// buildWith writes a table with range tombstones into memory. Some of them are added before the versions.
func buildWith(tb testing.TB, o WriterOptions, kvs []kv, dels rangedel.List) ([]byte, Info) {
	tb.Helper()
	return buildIn(tb, new(Writer), o, kvs, dels)
}

// buildIn does the same with a Writer that may have written another table.
func buildIn(tb testing.TB, w *Writer, o WriterOptions, kvs []kv, dels rangedel.List) ([]byte, Info) {
	tb.Helper()
	var buf bytes.Buffer
	w.Reset(&buf, o)
	before := len(dels) / 2
	addRanges(tb, w, dels[:before])
	for _, v := range kvs {
		must(tb, w.Add(v.ikey(), []byte(v.value)))
	}
	addRanges(tb, w, dels[before:])
	info, err := w.Finish()
	must(tb, err)
	if info.Size != uint64(buf.Len()) {
		tb.Fatalf("size %d, want %d", info.Size, buf.Len())
	}
	return buf.Bytes(), info
}

func addRanges(tb testing.TB, w *Writer, dels rangedel.List) {
	tb.Helper()
	for _, f := range dels {
		must(tb, w.AddRangeDel(f))
	}
}

func metaOf(i Info) Meta {
	return Meta{Name: "000001.sst", ID: i.ID, Size: i.Size, TailLen: i.TailLen, FilterLen: i.FilterLen}
}

func (i *Info) filterOff() uint64 { return i.Size - i.TailLen - i.FilterLen }

// A bench table: a reader with a domain and a cache.
func newReader(file []byte, info Info, capacity int64) *Reader {
	d := new(epoch.Domain)
	c := cache.New(capacity, d)
	return NewReader(bytes.NewReader(file), metaOf(info), c, anyParts(), d)
}

// get looks key up inside a guard and copies the value.
func get(r *Reader, key string, seq ikey.Seq) (kv, bool, error) {
	g := r.domain.Enter()
	defer g.Leave()
	var st Stats
	hit, ok, err := r.Get([]byte(key), seq, &st)
	return kv{key, hit.Trailer, string(hit.value)}, ok, err
}

// model returns the expected result of get.
func model(kvs []kv, key string, seq ikey.Seq) (kv, bool) {
	i, _ := slices.BinarySearchFunc(kvs, ikey.Search([]byte(key), seq),
		func(v kv, k ikey.Key) int { return ikey.Compare(v.ikey(), k) })
	if i < len(kvs) && kvs[i].key == key {
		return kvs[i], true
	}
	return kv{key: key}, false
}

func random(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return string(b)
}

// seeded returns the source of a test that draws at random.
func seeded() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// shapes returns sets of keys that are hard for some part of the format.
func shapes() map[string][]kv {
	rng := seeded()
	m := map[string][]kv{
		"one empty key":       {set("", 0, "v")},
		"a single tombstone":  {del("k", 9)},
		"no values":           {set("a", 1, ""), set("b", 1, ""), del("c", 7)},
		"kinds and sequences": {set("a", 9, "9"), del("a", 5), set("a", 0, "0"), set("c", ikey.MaxSeq, "m")},
		"very long keys":      {},
		"values of mebibytes": {
			set("a", 1, "s"), set("b", 2, strings.Repeat("0123456789", 150_000)),
			set("c", 0, random(rng, 1<<20)), set("d", 1, ""),
		},
		"keys with zero bytes":   {},
		"prefixes of each other": {},
	}
	zero := "zero-"
	for i := range 40 {
		m["keys with zero bytes"] = append(m["keys with zero bytes"],
			set("p"+strings.Repeat("\x00", i), ikey.Seq(i), strconv.Itoa(i)),
			set(strings.Repeat("\x00", i), 0, zero+strconv.Itoa(i)),
			set("p"+strings.Repeat("\x00", i)+"\x01", 3, strconv.Itoa(-i)))
		m["prefixes of each other"] = append(m["prefixes of each other"],
			set(strings.Repeat("ab", i), ikey.Seq(i%3), random(rng, i)))
		m["very long keys"] = append(m["very long keys"], set(strings.Repeat("k", maxKey-i), 1, random(rng, 9)),
			set(strings.Repeat("k", maxKey-9)+random(rng, 9), 1, random(rng, 9)))
	}
	long := strings.Repeat("tenant/0123456789/object/", 8)
	for i := range 1500 {
		m["random keys"] = append(m["random keys"], set(random(rng, 16), 0, random(rng, 100)))
		m["random keys, each with a sequence number"] = append(m["random keys, each with a sequence number"],
			set(random(rng, 16), ikey.Seq(i), random(rng, 20)))
		m["a long shared prefix"] = append(m["a long shared prefix"],
			set(fmt.Sprintf("%s%08d", long, i*7), ikey.Seq(i&1), strconv.Itoa(i)))
		m["eight equal bytes after the prefix"] = append(m["eight equal bytes after the prefix"],
			set(fmt.Sprintf("%c-12345678-%05d", 'a'+i%2, i), 0, strconv.Itoa(i)))
		m["keys and values of all lengths"] = append(m["keys and values of all lengths"],
			set(random(rng, rng.IntN(40)), ikey.Seq(rng.IntN(3)), random(rng, rng.IntN(300))))
		m["bytes at the ends of their range"] = append(m["bytes at the ends of their range"],
			set(string([]byte{byte(-(i & 1)), byte(i >> 8), byte(i), 0xff})+strings.Repeat("\xff", i%12), 1, "v"))
	}
	for i := range 1500 {
		k, seq := fmt.Sprintf("%012d", i/3), ikey.Seq(10+i)
		m["versions of equal length"] = append(m["versions of equal length"], set(k, seq, k[7:]))
		k = random(rng, 12)
		m["no values, tombstones among them"] = append(m["no values, tombstones among them"], set(k, seq, ""))
		if i%4 == 0 {
			m["no values, tombstones among them"] = append(m["no values, tombstones among them"], del(k, seq+1))
		}
	}
	for i := range 1400 {
		k := fmt.Sprintf("key%02d", i/200)
		if i%3 == 0 {
			m["many versions over many blocks"] = append(m["many versions over many blocks"], del(k, ikey.Seq(10+2*i)))
		} else {
			m["many versions over many blocks"] = append(m["many versions over many blocks"],
				set(k, ikey.Seq(10+2*i), random(rng, 30)))
		}
	}
	for name := range m {
		m[name] = sorted(m[name])
	}
	return m
}

func TestTableAnswersAsAMapDoes(t *testing.T) {
	testkit.Long(t)
	for name, kvs := range shapes() {
		for _, o := range []WriterOptions{
			{ID: 1, BlockSize: 1 << 10, Filter: filterParams(t, 0.1, 0.001)},
			{ID: 2, Codec: S2},
			{ID: 3, BlockSize: 8 << 10, Codec: Zstd, Filter: filterParams(t, 0.01)},
			{ID: 4, BlockSize: 1 << 10, partSize: 1},
			{ID: 5, BlockSize: 1 << 10, Codec: S2, Filter: filterParams(t, 0.01), partSize: 400},
		} {
			t.Run(fmt.Sprintf("%s/%v, parts of %d", name, o.Codec, o.partSize), func(t *testing.T) {
				file, info := build(t, o, kvs)
				for _, capacity := range []int64{0, 600 << 10} {
					checkTable(t, file, info, capacity, kvs)
				}
				r := newReader(file, info, 0)
				must(t, r.Verify(t.Context(), nil))
				must(t, r.Dump(io.Discard, info.Size < 1<<20))
			})
		}
	}
}

// effortFor returns the number of positions of a table to try, fewer if entries are large.
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
	must(t, r.Load(0))
	effort := effortFor(kvs)
	if capacity == 0 {
		effort = max(1, effort/8) // each lookup reads its block again
	}
	step := max(1, len(kvs)/effort)
	for i := 0; i < len(kvs); i += step {
		v := kvs[i]
		if maybe, _ := r.Keys.MayContain(bloomblock.HashKey([]byte(v.key))); !maybe {
			t.Fatalf("the filter denies %q", v.key)
		}
		for _, key := range []string{
			v.key, v.key + "\x00", v.key + "x", v.key[:len(v.key)/2],
			v.key[:max(0, len(v.key)-1)],
		} {
			for _, seq := range []ikey.Seq{v.t.Seq(), ikey.MaxSeq, 0, v.t.Seq() - min(1, v.t.Seq())} {
				got, ok, err := get(r, key, seq)
				want, wantOK := model(kvs, key, seq)
				if err != nil || ok != wantOK || got != want {
					t.Fatalf("Get(%.40q, %d) = %.40q@%d, %v, %v; want %.40q@%d, %v",
						key, seq, got.value, got.t, ok, err, want.value, want.t, wantOK)
				}
			}
		}
	}
	for _, o := range []IterOptions{{}, {Bypass: true}} {
		checkIter(t, r, o, kvs)
	}
	p, err := r.Properties()
	if err != nil || p.Entries != uint64(len(kvs)) || string(p.Smallest) != kvs[0].key ||
		string(p.Largest) != kvs[len(kvs)-1].key {
		t.Fatalf("properties %+v, %v", p, err)
	}
	r.Close()
	if s := r.cache.Stats(); s.Blocks != 0 {
		t.Fatalf("%d blocks of a closed table are cached", s.Blocks)
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
		{"a key too long", []kv{set(strings.Repeat("k", maxKey+1), 1, "")}, ErrSize},
		{"a range tombstone", []kv{{"a", ikey.MakeTrailer(1, ikey.RangeDelete), "b"}}, errKind},
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
				it := r.Iter(IterOptions{Bypass: n == 3})
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
						dropIndex(r)
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

// anyParts returns a pool without a limit.
func anyParts() *PartPool { return NewPartPool(math.MaxInt64) }

// TestAWriterWritesEachTableAsANewOneWould writes tables of all kinds in turn with one Writer.
func TestAWriterWritesEachTableAsANewOneWould(t *testing.T) {
	testkit.Long(t)
	ribbon, err := bloomblock.ParamsRibbon(0.01)
	must(t, err)
	bloom := filterParams(t, 0.01)
	var many, few []kv
	for i := range 3000 {
		many = append(many, set(fmt.Sprintf("key/%05d", i), ikey.Seq(i+1), strings.Repeat("v", i%200)))
	}
	few = append(few, set("a", 1, strings.Repeat("long", 2000)), del("b", 2))
	tables := []struct {
		o    WriterOptions
		kvs  []kv
		dels rangedel.List
	}{
		{WriterOptions{ID: 1, Filter: ribbon, Prefix: PrefixLen(6), partSize: 200, Seed: 7}, many, smallDels},
		{WriterOptions{ID: 2, Filter: bloom, BlockSize: 1 << 10, Codec: Zstd}, many[:500], nil},
		{WriterOptions{ID: 3}, few, nil},
		{WriterOptions{ID: 4, Filter: bloom, Codec: S2, Prefix: PrefixLen(3)}, many[700:], nil},
		{WriterOptions{ID: 5, Filter: bloom}, nil, smallDels},
		{WriterOptions{ID: 6, Filter: ribbon, partSize: 300}, many[:2000], nil},
	}
	var again Writer
	for round := range 2 {
		for i, c := range tables {
			want, info := buildWith(t, c.o, c.kvs, c.dels)
			got, gotInfo := buildIn(t, &again, c.o, c.kvs, c.dels)
			if !bytes.Equal(got, want) || !reflect.DeepEqual(gotInfo, info) {
				t.Errorf("round %d, table %d: %d bytes, %+v, want %d, %+v",
					round, i, len(got), gotInfo, len(want), info)
			}
		}
	}
	again.Reset(io.Discard, WriterOptions{ID: 7, Filter: bloom})
	must(t, again.Add(many[0].ikey(), nil))
	if err := again.Add(many[0].ikey(), nil); !errors.Is(err, ErrOrder) {
		t.Fatalf("a version twice: %v, want %v", err, ErrOrder)
	}
	want, _ := buildWith(t, tables[0].o, many, smallDels)
	if got, _ := buildIn(t, &again, tables[0].o, many, smallDels); !bytes.Equal(got, want) {
		t.Error("after an error, Reset did not begin a new table")
	}
}

func TestAFileShorterThanAFooterIsDamage(t *testing.T) {
	for size := range int64(footerSize) {
		_, err := Open(bytes.NewReader(make([]byte, size)), size, "000001.sst")
		if e, ok := errors.AsType[*corrupt.Error](err); !ok || e.Offset != 0 || !errors.Is(err, errShort) {
			t.Errorf("%d bytes: %v, want damage at 0", size, err)
		}
	}
}
