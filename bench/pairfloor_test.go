package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/workload"
)

func TestTheFloorOfPairsFindsThem(t *testing.T) {
	for _, shape := range workload.Shapes {
		for _, tables := range []int{1, 3, 40} {
			t.Run(fmt.Sprintf("%v keys in %d tables", shape, tables), func(t *testing.T) {
				const keys = 10_000
				set := testSet(t, shape, keys)
				f, err := newPairFloor(layer{1, tables, atBits(10, keys, tables), keys}, set)
				must(t, err)
				if len(f.fences) > tables || len(f.fences) < tables*2/3 || len(f.filters) != len(f.fences) ||
					len(f.blocks) != (keys+f.perBlock-1)/f.perBlock || !slices.IsSorted(f.heads) {
					t.Fatalf("%d fences, %d filters, %d blocks", len(f.fences), len(f.filters), len(f.blocks))
				}
				var key, value []byte
				for i := range keys {
					key, value = set.AppendKey(key[:0], i), set.AppendValue(value[:0], i)
					if !f.get(key) || !bytes.Equal(f.found, value) {
						t.Fatalf("key %q: %q, want %q", key, f.found, value)
					}
					if !f.seek(key) {
						t.Fatalf("key %q is not found by a seek", key)
					}
				}
				maybe, before := 0, f.read
				for i := range set.Absents() {
					key = set.AppendAbsent(key[:0], i)
					if f.get(key) || f.seek(key) {
						t.Fatalf("absent key %q is found", key)
					}
					at := f.find(search(f.fences, head(key, f.prefix)), key, head(key, f.prefix))
					below := func(i int) bool { return bytes.Compare(f.key(i), key) < 0 }
					if below(at) && at < keys-1 || at > 0 && !below(at-1) {
						t.Fatalf("absent key %q is sought at %q", key, f.key(at))
					}
					maybe++
				}
				if read := f.read - before; read < uint64(maybe)*(seekPairs-1) || read > uint64(maybe)*seekPairs {
					t.Errorf("%d pairs read by %d seeks", read, maybe)
				}
			})
		}
	}
	if _, err := newPairFloor(layer{1, 1, 64, 1}, testSet(t, workload.Random, 0)); err == nil {
		t.Error("no keys: no error")
	}
}

// Keys can have the same eight bytes after their prefix.
func TestKeysWithEqualHeadsAreFound(t *testing.T) {
	set := testSet(t, workload.Random, 100)
	f, err := newPairFloor(layer{1, 1, 128, 100}, set)
	must(t, err)
	for i := range f.heads[:40] {
		f.heads[i] = f.heads[39]
	}
	for i := range 40 {
		if at := f.find(0, f.key(i), f.heads[i]); at != i {
			t.Errorf("pair %d is found at %d", i, at)
		}
	}
}

func TestAStoreAndItsFloorReadTheSamePairs(t *testing.T) {
	set := testSet(t, workload.Random, 20_000)
	store := testStore(t, set)
	tree := layers(store.Metrics())
	f, err := newPairFloor(tree[len(tree)-1], set)
	must(t, err)
	r := pairReader{it: store.Iter(bloomkv.IterOptions{})}
	var key []byte
	for i := range 1000 {
		key = set.AppendKey(key[:0], i*20)
		if !r.seek(key) || !f.seek(key) {
			t.Fatalf("key %q is not found", key)
		}
		key = set.AppendAbsent(key[:0], i*19)
		if r.seek(key) || f.seek(key) {
			t.Fatalf("absent key %q is found", key)
		}
	}
	if r.scan() != set.Len() || f.scan() != set.Len() || r.read != f.read || r.readBytes != f.readBytes {
		t.Errorf("%d pairs with a sum of %d, and %d with %d in the floor", r.read, r.readBytes, f.read, f.readBytes)
	}
	c, err := compareScans(t.Context(), &r, f, 3, func(int) {})
	if err != nil || c.Wrong != 0 || c.StoreNs <= 0 || c.FloorNs <= 0 || c.AskNs != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	must(t, r.it.Close())

	must(t, store.Delete(set.AppendKey(nil, 17)))
	w := floors{terms: newTerms(&cli.Streams{Out: io.Discard, Err: io.Discard})}
	w.shape, w.value, w.rounds = workload.Random, 20, 2
	pairs, err := w.pairs(t.Context(), store, set)
	must(t, err)
	if pairs.Present.Wrong != 2 || pairs.Scan.Wrong != 2 {
		t.Errorf("without a key, %d wrong lookups and %d wrong scans in two rounds, want 2 each",
			pairs.Present.Wrong, pairs.Scan.Wrong)
	}
	w.value = mostImage
	if pairs, err := w.pairs(t.Context(), store, set); pairs != nil || err != nil {
		t.Errorf("of a store that is too large: %v, %v", pairs, err)
	}
}
