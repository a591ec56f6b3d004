package sstable

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// tableInParts returns a reader of a table of 400 keys k0000, k0001 … whose index has many parts of the same size, with
// a large cache and a pool without a limit.
func tableInParts(tb testing.TB, c Codec) (r *Reader, t *top, kvs []kv) {
	tb.Helper()
	for i := range 400 {
		kvs = append(kvs, set(fmt.Sprintf("k%04d", i), 1, strings.Repeat("v", 90)+fmt.Sprintf("%04d", i)))
	}
	file, info := build(tb, WriterOptions{ID: 1, BlockSize: 1 << 10, Codec: c, partSize: 60}, kvs)
	r = newReader(file, info, 64<<20)
	must(tb, r.Load(1))
	if t = r.top.Load(); t == nil || len(t.parts) < 10 {
		tb.Fatal("few parts")
	}
	return r, t, kvs
}

// loadedParts returns the numbers of the parts that are in memory, and their bytes.
func loadedParts(t *top) (parts []int, bytes int64) {
	for p := range t.loaded {
		if x := t.loaded[p].Load(); x != nil {
			parts, bytes = append(parts, p), bytes+x.bytes()
		}
	}
	return parts, bytes
}

// dropIndex drops all parts of the pool of a reader, and their blocks from the cache. Lookups load them again.
func dropIndex(r *Reader) {
	r.parts.mu.Lock()
	gone := r.parts.evict(0)
	r.parts.mu.Unlock()
	dropBlocks(gone)
}

func mustGet(tb testing.TB, r *Reader, v kv) (st Stats) {
	tb.Helper()
	g := r.domain.Enter()
	defer g.Leave()
	hit, ok, err := r.Get([]byte(v.key), ikey.MaxSeq, &st)
	if err != nil || !ok {
		tb.Fatalf("Get(%q): %v, %v", v.key, ok, err)
	}
	value, err := hit.AppendValue(nil)
	if err != nil || string(value) != v.value {
		tb.Fatalf("Get(%q) = %q, %v; want %q", v.key, value, err, v.value)
	}
	return st
}

func TestALookupUsesOnePartAndOneBlock(t *testing.T) {
	for _, c := range []Codec{None, S2} {
		rng := seeded()
		r, top, kvs := tableInParts(t, c)
		for _, i := range rng.Perm(len(kvs)) {
			p := top.find([]byte(kvs[i].key))
			loaded := top.loaded[p].Load() != nil
			st := mustGet(t, r, kvs[i])
			want := Stats{
				Blocks: 1, CacheHits: 1 - st.FileReads, FileReads: st.FileReads, FileBytes: st.FileBytes, Present: 1,
			}
			if !loaded {
				want.IndexParts, want.PartLoads = 1, 1
			}
			if st != want {
				t.Fatalf("%s in part %d: %+v, want %+v", kvs[i].key, p, st, want)
			}
			for _, absent := range []string{kvs[i].key + "x", kvs[i].key[:4]} {
				var st Stats
				g := r.domain.Enter()
				_, ok, err := r.Get([]byte(absent), ikey.MaxSeq, &st)
				g.Leave()
				if ok || err != nil || st.Blocks > 1 || st.IndexParts > 1 {
					t.Fatalf("%s: %v, %v, %+v", absent, ok, err, st)
				}
			}
		}
		it := r.Iter(IterOptions{})
		for _, i := range rng.Perm(len(kvs)) {
			dropIndex(r)
			it.stats = Stats{}
			if !it.SeekGE(kvs[i].ikey()) || at(it) != kvs[i] || it.stats.Blocks > 1 || it.stats.IndexParts != 1 {
				t.Fatalf("seek of %s: %v, %+v", kvs[i].key, it.Err(), it.stats)
			}
			it.leave()
		}
		must(t, it.Close())
	}
}

func TestThePoolCountsWhatIsInMemory(t *testing.T) {
	r, top, kvs := tableInParts(t, None)
	check := func(what string, parts int) {
		t.Helper()
		loaded, n := loadedParts(top)
		if len(loaded) != parts || r.parts.Bytes() != n || r.IndexBytes() != n+top.bytes() || r.parts.n != parts {
			t.Errorf("%s: %d parts of %d bytes, want %d; the pool has %d of %d bytes; the index has %d, want %d", what,
				len(loaded), n, parts, r.parts.n, r.parts.Bytes(), r.IndexBytes(), n+top.bytes())
		}
	}
	check("loaded", 0)
	mustGet(t, r, kvs[0])
	check("one lookup", 1)
	must(t, r.LoadParts())
	check("all", len(top.parts))
	for _, v := range kvs {
		mustGet(t, r, v)
	}
	blocks := r.cache.Stats().Blocks
	if blocks != top.blocks {
		t.Fatalf("%d of %d blocks are cached", blocks, top.blocks)
	}
	one := top.loaded[3].Load().bytes()
	r.parts.SetLimit(one + 10)
	check("one part fits", 1)
	left, _ := loadedParts(top)
	if got := r.cache.Stats().Blocks; got != int(top.parts[left[0]].blocks) {
		t.Errorf("%d blocks are cached, want those of part %d", got, left[0])
	}
	r.parts.SetLimit(0)
	check("nothing fits", 0)
	mustGet(t, r, kvs[9])
	check("a lookup in a pool without memory", 0)
	if got := r.cache.Stats().Blocks; got != 0 {
		t.Errorf("%d blocks of parts in no pool are cached", got)
	}
	r.parts.SetLimit(math.MaxInt64)
	must(t, r.LoadParts())
	dropIndex(r)
	check("dropped", 0)
	if !r.Loaded() {
		t.Error("the top was dropped")
	}
	must(t, r.LoadParts())
	r.Close()
	if n := r.IndexBytes() + r.parts.Bytes(); n != 0 {
		t.Errorf("closed: %d bytes", n)
	}
	if _, err := r.part(top, 1, new(Stats)); err != nil {
		t.Error(err)
	}
	if n := r.IndexBytes() + r.parts.Bytes(); n != 0 {
		t.Errorf("a part of a closed reader: %d bytes", n)
	}
}

func TestPartsThatAreUsedStay(t *testing.T) {
	r, top, kvs := tableInParts(t, None)
	must(t, r.LoadParts())
	_, all := loadedParts(top)
	dropIndex(r)
	r.parts.SetLimit(all / 2)
	hot := kvs[200]
	mustGet(t, r, hot)
	p, loads := top.find([]byte(hot.key)), uint64(0)
	for range 10 {
		for q := range top.parts {
			if q != p {
				if _, err := r.part(top, q, new(Stats)); err != nil {
					t.Fatal(err)
				}
			}
			loads += mustGet(t, r, hot).PartLoads
		}
	}
	if loads > 0 {
		t.Errorf("a part that is always used was loaded %d times again", loads)
	}
	if n := r.parts.Bytes(); n > all/2 || n < all/2-2*all/int64(len(top.parts)) {
		t.Errorf("%d bytes of parts, want up to %d", n, all/2)
	}
}

// TestABlockOfAnEvictedPartIsNotKept inserts a block as a lookup does that has found its part before that was evicted.
func TestABlockOfAnEvictedPartIsNotKept(t *testing.T) {
	r, top, _ := tableInParts(t, None)
	x, err := r.part(top, 2, new(Stats))
	must(t, err)
	dropIndex(r)
	g := r.Enter()
	c, err := r.loadBlock(x, 0, origin{cached: true}, new(Stats))
	if err != nil || checkBlock(c.Bytes(), anySeq) != nil {
		t.Error("the lookup cannot use its block", err)
	}
	g.Leave()
	if n := r.cache.Stats().Blocks; n != 0 || x.slots[0].Load() != nil {
		t.Errorf("%d blocks are cached that nothing finds", n)
	}
}

func TestReadersWhilePartsAreEvicted(t *testing.T) {
	var kvs []kv
	for i := range 3000 {
		kvs = append(kvs, set(fmt.Sprintf("key%05d", i), ikey.Seq(i%2), strings.Repeat(strconv.Itoa(i), 20)))
	}
	d, pool := new(epoch.Domain), NewPartPool(20<<10)
	c := cache.New(400<<10, d)
	var tables []*Reader
	for i, partSize := range []int{60, 500, defaultPartSize} {
		file, info := build(t, WriterOptions{ID: uint64(i), BlockSize: 1 << 10, partSize: partSize}, kvs)
		tables = append(tables, NewReader(bytes.NewReader(file), metaOf(info), c, pool, d))
	}
	rounds := 1500
	if testing.Short() {
		rounds /= 3
	}
	var wg sync.WaitGroup
	for n := range 5 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(n)))
			var it Iter
			for round := range rounds {
				r, i := tables[rng.IntN(len(tables))], rng.IntN(len(kvs)-20)
				mustGet(t, r, kvs[i])
				ls := make([]Lookup, 3)
				for j := range ls {
					ls[j] = Lookup{Reader: tables[j], Key: []byte(kvs[i+j].key), Seq: ikey.MaxSeq}
				}
				g := r.Enter()
				GetMany(ls, new(Stats))
				for j := range ls {
					if value, err := ls[j].Hit.AppendValue(nil); ls[j].Err != nil || string(value) != kvs[i+j].value {
						t.Errorf("%s: %q, %v, %v", ls[j].Key, value, err, ls[j].Err)
					}
				}
				g.Leave()
				it.Reset(r, IterOptions{Bypass: n == 2})
				for ok := it.SeekGE(kvs[i].ikey()); i < len(kvs) && rng.IntN(30) > 0; ok = it.Next() {
					if !ok || at(&it) != kvs[i] {
						t.Errorf("cursor at %v, %v, want %v", ok, at(&it), kvs[i])
						return
					}
					i++
				}
				must(t, it.Close())
				switch {
				case n == 3 && round%100 == 0:
					pool.SetLimit(int64(rng.IntN(40 << 10)))
				case n == 4 && round%50 == 0:
					dropIndex(r)
				case n == 4 && round%70 == 0:
					must(t, r.LoadParts())
				}
			}
		})
	}
	wg.Wait()
	bytes := int64(0)
	for _, r := range tables {
		bytes += r.partBytes.Load()
	}
	if bytes != pool.Bytes() {
		t.Errorf("the pool counts %d bytes, its readers %d", pool.Bytes(), bytes)
	}
	for _, r := range tables {
		r.Close()
	}
	if s := c.Stats(); s.Blocks != 0 || pool.Bytes() != 0 || pool.hand != nil {
		t.Errorf("after Close %d blocks and %d bytes of parts are left", s.Blocks, pool.Bytes())
	}
}

// TestVersionsOfOneKeyGoOnInTheNextPart: the versions of a key fill several parts.
func TestVersionsOfOneKeyGoOnInTheNextPart(t *testing.T) {
	testkit.LongUnderRace(t)
	kvs := []kv{set("a", 5, "a"), set("z", 5, "z")}
	for i := range 200 {
		kvs = append(kvs, set("key", ikey.Seq(1000-i), strings.Repeat("v", 80)+strconv.Itoa(i)))
	}
	kvs = sorted(kvs)
	file, info := build(t, WriterOptions{ID: 1, BlockSize: 512, partSize: 60}, kvs)
	for _, limit := range []int64{0, math.MaxInt64} {
		r := newReader(file, info, 1<<20)
		r.parts = NewPartPool(limit)
		must(t, r.Load(0))
		if n := len(r.top.Load().parts); n < 10 {
			t.Fatalf("%d parts", n)
		}
		for i := range 202 {
			seq := ikey.Seq(1005 - i)
			got, ok, err := get(r, "key", seq)
			want, wantOK := model(kvs, "key", seq)
			if err != nil || ok != wantOK || got != want {
				t.Fatalf("Get(key, %d) = %v, %v, %v; want %v, %v", seq, got, ok, err, want, wantOK)
			}
		}
		if _, ok, err := get(r, "key", 1); ok || err != nil {
			t.Fatal(ok, err)
		}
		it := r.Iter(IterOptions{})
		for i, v := range kvs {
			if !it.SeekGE(v.ikey()) || at(it) != v {
				t.Fatalf("SeekGE(%v) = %v", v, at(it))
			}
			if i > 0 && (!it.SeekLT(v.ikey()) || at(it) != kvs[i-1]) {
				t.Fatalf("SeekLT(%v) = %v", v, at(it))
			}
		}
		must(t, it.Close())
	}
}
