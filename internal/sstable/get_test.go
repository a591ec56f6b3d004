package sstable

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

func TestAHeldValueOutlivesTheGuard(t *testing.T) {
	var kvs []kv
	for i := range 4000 {
		kvs = append(kvs, set(fmt.Sprintf("k%04d", i), 1, strings.Repeat(strconv.Itoa(i%10), 60)))
	}
	file, info := build(t, WriterOptions{ID: 1, BlockSize: 1 << 10, Codec: S2}, kvs)
	r := newReader(file, info, 64<<10) // poisoned, and smaller than the table
	var hits []Hit
	for _, v := range kvs[:50] {
		g := r.domain.Enter()
		var st Stats
		hit, ok, err := r.Get([]byte(v.key), 9, &st)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		hit.Hold()
		g.Leave()
		hits = append(hits, hit)
	}
	for range 3 {
		for _, v := range kvs {
			if _, ok, err := get(r, v.key, 9); !ok || err != nil {
				t.Fatal(v.key, ok, err)
			}
		}
	}
	for i, v := range kvs[:50] {
		if string(hits[i].value) != v.value {
			t.Fatalf("the held value of %q is %q", v.key, hits[i].value)
		}
		hits[i].Release()
	}
	var none Hit
	none.Hold()
	none.Release()
	r.Close()
}

func TestApproximateOffsetCountsTheBlocksBefore(t *testing.T) {
	var kvs []kv
	rng := seeded()
	for i := range 1000 {
		kvs = append(kvs, set(fmt.Sprintf("k%04d", i), 1, random(rng, 50)))
	}
	file, info := build(t, WriterOptions{ID: 1, BlockSize: 1 << 10}, kvs)
	r := newReader(file, info, 0)
	last := uint64(0)
	for _, c := range []struct {
		key      string
		low, top float64 // share of the data
	}{{"", 0, 0}, {"k0000", 0, 0}, {"k0250", 0.22, 0.26}, {"k0500", 0.48, 0.51}, {"k0999", 0.95, 1}, {"l", 1, 1}} {
		got, err := r.ApproximateOffset([]byte(c.key))
		share := float64(got) / float64(wholeIndex(t, r).end)
		if err != nil || share < c.low || share > c.top || got < last {
			t.Errorf("%q: %d bytes, %.3f of the data, want %g … %g: %v", c.key, got, share, c.low, c.top, err)
		}
		last = got
		half := 0.5 / float64(wholeIndex(t, r).blocks()) // to half a block
		if middle, err := r.ShareBefore([]byte(c.key)); err != nil || middle < c.low || middle > min(c.top+2*half, 1) ||
			middle < share || middle > share+2*half {
			t.Errorf("%q: %.4f of the data in front, want %.4f and half a block: %v", c.key, middle, share, err)
		}
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
			r := NewReader(bytes.NewReader(file), metaOf(info), cache.New(x.capacity, d), anyParts(), d)
			must(t, r.Load(0))
			n := 0
			lookup := func() {
				if x.max > 0 {
					n = (n + 37) % len(kvs)
					key = fmt.Appendf(key[:0], "key%05d", n)
				}
				g := d.Enter()
				var st Stats
				_, ok, err := r.Get(key, 9, &st)
				_, ok2, err2 := r.Get(other, 9, &st)
				maybe, _ := r.Keys.MayContain(h)
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
