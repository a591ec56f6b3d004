package sstable

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/prefetch"
)

// Prefetch loads nothing and allocates nothing, and seeks find the same after it, also while blocks are evicted.
func TestPrefetchOnlyPrefetches(t *testing.T) {
	var kvs []kv
	for i := range 6000 {
		kvs = append(kvs, set(fmt.Sprintf("key%05d", 2*i), 0, string(make([]byte, 200))))
	}
	file, info := build(t, WriterOptions{ID: 1}, kvs)
	d := new(epoch.Domain)
	var tables []*Reader
	for _, capacity := range []int64{64 << 20, 64 << 20, 256 << 10} {
		tables = append(tables, NewReader(bytes.NewReader(file), metaOf(info), cache.New(capacity, d), anyParts(), d))
	}
	Prefetch(nil, []byte("key"))
	Prefetch(tables, []byte("key"))
	if tables[0].Loaded() {
		t.Error("Prefetch loads a table")
	}
	var all sync.WaitGroup
	for n := range 3 {
		all.Go(func() {
			for i := range kvs {
				want := i * 7919 % len(kvs)
				key := []byte(kvs[want].key)
				if i%2 == 1 {
					key[len(key)-1]++ // between two keys, or after all
					want++
				}
				Prefetch(tables, key)
				it := tables[(i+n)%3].Iter(IterOptions{})
				ok := it.SeekGE(ikey.Search(key, ikey.MaxSeq))
				if ok != (want < len(kvs)) || ok && at(it) != kvs[want] {
					t.Errorf("SeekGE(%q) = %v", key, ok)
				}
				if err := it.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, key := range []string{"", "a", "key00001", "key05000", "key1", "z"} {
		if n := testing.AllocsPerRun(10, func() { Prefetch(tables, []byte(key)) }); n != 0 {
			t.Errorf("%q: %v allocations", key, n)
		}
	}
}

// TestACursorPrefetchesTheNextBlock walks from a seek into two more blocks, with a series and without.
func TestACursorPrefetchesTheNextBlock(t *testing.T) {
	var kvs []kv
	for i := range 200 {
		kvs = append(kvs, set(fmt.Sprintf("key%05d", i), 0, string(make([]byte, 100))))
	}
	file, info := build(t, WriterOptions{ID: 1, partSize: defaultPartSize}, kvs)
	it := newReader(file, info, 64<<20).Iter(IterOptions{})
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() { // now all blocks are cached
	}
	for _, series := range []bool{false, true} {
		if !it.SeekGE(kvs[3].ikey()) || it.b.n < 2*expecting || len(it.x.slots) < 4 {
			t.Fatalf("%d entries in the first of %d blocks", it.b.n, len(it.x.slots))
		}
		first, shown := it.at, 0
		for it.at < first+3 {
			steps := it.prefetch != prefetch.Steps{}
			if early := it.at == first && it.i <= it.b.n-expecting; steps == early && it.i+1 < it.b.n {
				t.Fatalf("series %v: block %d, entry %d of %d: it prefetches the next block: %v",
					series, it.at-first, it.i, it.b.n, steps)
			}
			if series && it.EnterPairs(nil, ikey.MaxSeq) {
				for ok := true; ok; shown++ {
					ok = it.Advance()
					it.LeavePairs()
					if it.i%5 == 0 || !it.EnterPairs(nil, ikey.MaxSeq) {
						break
					}
				}
			}
			if !it.Next() {
				t.Fatal("the table ends early")
			}
		}
		if series != (shown > 60) {
			t.Errorf("series %v: %d moves in series", series, shown)
		}
	}
}
