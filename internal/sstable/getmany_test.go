package sstable

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// A manyTable is a table for GetMany: its file, its facts in the manifest, and keys that a lookup may ask for.
type manyTable struct {
	file []byte
	meta Meta
	keys []string
}

// manyTables returns tables of every kind that a lookup can meet: all shapes, also with a sequence number from the
// manifest, with data blocks or an index damaged, with few and with many entries in a block, and without versions.
func manyTables(tb testing.TB) []manyTable {
	tb.Helper()
	var tables []manyTable
	add := func(file []byte, info Info, seq ikey.Seq, kvs []kv) {
		m := metaOf(info)
		m.Seq = seq
		t := manyTable{file, m, []string{"", "\xff\xff"}}
		for _, v := range kvs {
			t.keys = append(t.keys, v.key)
		}
		tables = append(tables, t)
	}
	all := shapes()
	for _, v := range []int{0, 1, 7} {
		var kvs []kv
		for i := range 3000 {
			kvs = append(kvs, set(fmt.Sprintf("%07d", i*3), ikey.Seq(i%4), strings.Repeat("v", v*(i%5))))
		}
		all[fmt.Sprintf("many small entries, %d", v)] = kvs
	}
	for name, kvs := range all {
		for _, o := range []WriterOptions{
			{ID: 1, BlockSize: 1 << 10},
			{ID: 2, BlockSize: 32 << 10, Codec: S2, Filter: filterParams(tb, 0.01)},
		} {
			file, info := buildWith(tb, o, kvs, smallDels)
			add(file, info, 0, kvs)
			add(file, info, 4, kvs)
			if name != "random keys" {
				continue
			}
			broken := bytes.Clone(file)
			for at := 0; at < int(info.filterOff()); at += 3000 {
				broken[at] ^= 1
			}
			add(broken, info, 0, kvs)
			broken = bytes.Clone(file)
			broken[info.Size-info.TailLen] ^= 1
			add(broken, info, 0, kvs)
		}
	}
	for _, p := range []WriterOptions{{ID: 9}, {ID: 9, Filter: filterParams(tb, 0.1)}} {
		file, info := buildWith(tb, p, nil, rangedel.List{toTheEnd("b", 4)})
		add(file, info, 0, nil)
		add(file, info, 7, nil)
	}
	return tables
}

// readers makes a reader for each table, all with one domain and one cache.
func readers(tables []manyTable, capacity int64) ([]*Reader, *epoch.Domain) {
	d := new(epoch.Domain)
	c := cache.New(capacity, d)
	rs := make([]*Reader, len(tables))
	for i, t := range tables {
		rs[i] = NewReader(bytes.NewReader(t.file), t.meta, c, anyParts(), d)
	}
	return rs, d
}

func (m *manyTable) key(rng *rand.Rand) string {
	k := m.keys[rng.IntN(len(m.keys))]
	switch rng.IntN(8) {
	case 0:
		return k + "\x00"
	case 1:
		return k[:rng.IntN(len(k)+1)]
	case 2:
		return k + string(byte(rng.Uint32()))
	case 3:
		return random(rng, rng.IntN(20))
	default:
		return k
	}
}

func TestGetManyAnswersAsGetDoes(t *testing.T) {
	testkit.Long(t)
	tables := manyTables(t)
	damaged, continued := 0, 0
	for capacity, rounds := range map[int64]int{1 << 30: 400, 300 << 10: 60} {
		one, d1 := readers(tables, capacity)
		many, d2 := readers(tables, capacity)
		rng := rand.New(rand.NewPCG(7, uint64(capacity)))
		ls := make([]Lookup, 0, 140)
		for round := range rounds {
			ls = ls[:rng.IntN(cap(ls))] // with what was in them
			if round%3 == 0 {
				ls = ls[:min(len(ls), 4)]
			}
			few := 1 + rng.IntN(len(tables)) // number of tables to ask
			var want, got Stats
			results := make([]Lookup, len(ls))
			g := d1.Enter()
			chosen := make([]int, len(ls))
			for i := range ls {
				n := rng.IntN(few)
				chosen[i] = n
				r := &results[i]
				r.Key, r.Seq = []byte(tables[n].key(rng)), ikey.Seq(rng.IntN(12))
				if rng.IntN(2) == 0 {
					r.Seq = ikey.MaxSeq
				}
				before := want
				r.Hit, r.OK, r.Err = one[n].Get(r.Key, r.Seq, &want)
				r.Present = want.Present > before.Present
				r.Hit.value = bytes.Clone(r.Hit.value)
				if want.Blocks > before.Blocks+1 {
					continued++
				}
				if r.Err != nil {
					damaged++
				}
			}
			g.Leave()
			g = d2.Enter()
			for i := range ls {
				ls[i].Reader, ls[i].Key, ls[i].Seq = many[chosen[i]], results[i].Key, results[i].Seq
			}
			GetMany(ls, &got)
			for i := range ls {
				l, r := &ls[i], &results[i]
				if l.OK != r.OK || l.Present != r.Present || l.Hit.Trailer != r.Hit.Trailer ||
					!bytes.Equal(l.Hit.value, r.Hit.value) ||
					fmt.Sprint(l.Err) != fmt.Sprint(r.Err) || l.OK && l.Hit.block == nil ||
					!l.OK && !reflect.DeepEqual(l.Hit, Hit{}) {
					t.Fatalf("table %d, %.40q at %d: %v %v %.40q@%d %v, want %v %v %.40q@%d %v",
						chosen[i], l.Key, l.Seq,
						l.OK, l.Present, l.Hit.value, l.Hit.Trailer, l.Err, r.OK, r.Present, r.Hit.value, r.Hit.Trailer,
						r.Err)
				}
			}
			g.Leave()
			if capacity > 1<<20 && got != want {
				t.Fatalf("%d lookups cost %+v, want %+v", len(ls), got, want)
			}
			if round%100 == 99 { // indexes are loaded again
				for i := range tables {
					dropIndex(one[i])
					dropIndex(many[i])
				}
			}
		}
	}
	if damaged == 0 || continued == 0 {
		t.Errorf("%d damaged blocks and %d lookups in a second block were met", damaged, continued)
	}
}

func TestGetManyReportsErrorsByLookup(t *testing.T) {
	file, info, kvs := small(t, None)
	good := manyTable{file, metaOf(info), nil}
	bad := manyTable{bytes.Clone(file), metaOf(info), nil}
	bad.file[9] ^= 1
	rs, d := readers([]manyTable{good, bad, good}, 1<<20)
	disk := &failing{rs[2].file, true}
	rs[2].file = disk
	for _, n := range []int{1, 2, 3, 64, 65, 129} {
		ls := make([]Lookup, n)
		for i := range ls {
			ls[i] = Lookup{Reader: rs[i%3], Key: []byte(kvs[0].key), Seq: ikey.MaxSeq}
		}
		g := d.Enter()
		var st Stats
		GetMany(ls, &st)
		for i, l := range ls {
			switch {
			case i%3 == 0 && (l.Err != nil || !l.OK || string(l.Hit.value) != kvs[0].value):
				t.Errorf("%d of %d: %v, %v", i, n, l.OK, l.Err)
			case i%3 == 1 && (l.OK || !errors.Is(l.Err, corrupt.Err)):
				t.Errorf("%d of %d: %v, %v, want damage", i, n, l.OK, l.Err)
			case i%3 == 2 && (l.OK || !errors.Is(l.Err, errDisk)):
				t.Errorf("%d of %d: %v, %v, want %v", i, n, l.OK, l.Err, errDisk)
			}
		}
		g.Leave()
	}
	GetMany(nil, new(Stats))
}

func TestGetManyWhileBlocksAreEvicted(t *testing.T) {
	var kvs []kv
	for i := range 4000 {
		kvs = append(kvs, set(fmt.Sprintf("key%05d", i), ikey.Seq(i%2), strings.Repeat(fmt.Sprintf("%05d", i), 12)))
	}
	file, info := build(t, WriterOptions{ID: 1, BlockSize: 1 << 10}, kvs)
	rs, d := readers([]manyTable{{file, metaOf(info), nil}, {file, metaOf(info), nil}}, 300<<10)
	var wg sync.WaitGroup
	for n := range 3 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(2, uint64(n)))
			ls := make([]Lookup, 64)
			var held []Hit
			for round := range 300 {
				g := d.Enter()
				want := make([]string, len(ls))
				for i := range ls {
					v := kvs[rng.IntN(len(kvs))]
					want[i] = v.value
					ls[i].Reader, ls[i].Key, ls[i].Seq = rs[rng.IntN(2)], []byte(v.key), ikey.MaxSeq
				}
				var st Stats
				GetMany(ls, &st)
				for i := range ls {
					if l := &ls[i]; !l.OK || string(l.Hit.value) != want[i] {
						t.Errorf("%q: %q, %v, %v", l.Key, l.Hit.value, l.OK, l.Err)
					}
				}
				for _, h := range held {
					h.Release()
				}
				held = held[:0]
				for i := range ls[:4] {
					ls[i].Hit.Hold()
					held = append(held, ls[i].Hit)
				}
				g.Leave()
				if n == 0 && round%50 == 0 {
					dropIndex(rs[round/50%2])
				}
				for i, h := range held {
					if string(h.value) != want[i] {
						t.Errorf("held: %q, want %q", h.value, want[i])
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestGetManyAllocatesNothing(t *testing.T) {
	var kvs []kv
	for i := range 4000 {
		kvs = append(kvs, set(fmt.Sprintf("key%05d", i), ikey.Seq(i%2), "0123456789"))
	}
	file, info := build(t, WriterOptions{ID: 1, Codec: S2}, kvs)
	rs, d := readers(slices.Repeat([]manyTable{{file, metaOf(info), nil}}, 3), 4<<20)
	ls := make([]Lookup, 100)
	n := 0
	keys := make([][]byte, len(kvs))
	for i, v := range kvs {
		keys[i] = []byte(v.key)
	}
	lookups := func() {
		g := d.Enter()
		defer g.Leave()
		for i := range ls {
			n = (n + 37) % len(keys)
			ls[i].Reader, ls[i].Key, ls[i].Seq = rs[i%3], keys[n], 9
		}
		var st Stats
		GetMany(ls, &st)
		for i := range ls {
			if !ls[i].OK {
				t.Fatal(ls[i].Err)
			}
		}
	}
	for range 200 {
		lookups()
	}
	if got := testing.AllocsPerRun(200, lookups); got > 0 {
		t.Errorf("%v allocations", got)
	}
}
