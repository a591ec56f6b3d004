package tests

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func TestApproximateSizesAddUp(t *testing.T) {
	mem := vfstest.NewMem()
	o := storetest.Tiny(mem)
	o.Compression, o.Durability = bloomkv.CompressionNone, bloomkv.DurabilityNoSync
	db, err := bloomkv.Open("db", o)
	must(t, err)
	key := func(i int) []byte { return fmt.Appendf(nil, "key%05d", i) }
	const n = 3000
	for i := range n {
		must(t, db.Put(key(i*7919%n), []byte(strings.Repeat("v", 100))))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	size := func(lo, hi []byte) int64 {
		t.Helper()
		s, err := db.ApproximateSize(bloomkv.KeyRange{Lower: lo, Upper: hi})
		must(t, err)
		return int64(s)
	}
	tree := int64(0)
	for _, l := range db.Metrics().Levels {
		tree += int64(l.Bytes)
	}
	whole := size(nil, nil)
	if whole != tree {
		t.Errorf("the whole store has %d bytes, the tables have %d", whole, tree)
	}
	if s := size(key(10), key(10)); s != 0 {
		t.Errorf("an empty range has %d bytes", s)
	}
	if s := size(key(20), key(10)); s != 0 {
		t.Errorf("an inverted range has %d bytes", s)
	}
	last := int64(0)
	for i := 0; i <= n; i += 100 {
		up, down := size(nil, key(i)), size(key(i), nil)
		if up < last || up+down > whole+whole/50 || up+down < whole-whole/10 {
			t.Errorf("at %d: %d and %d of %d bytes, previous %d", i, up, down, whole, last)
		}
		if want := whole * int64(i) / n; up < want-whole/20 || up > want+whole/20 {
			t.Errorf("at %d: %d bytes, want about %d", i, up, want)
		}
		last = up
	}
	must(t, db.Close())
	_, err = db.ApproximateSize(bloomkv.KeyRange{})
	if err != bloomkv.ErrClosed { //nolint:errorlint // it is returned bare
		t.Errorf("after Close: %v", err)
	}
}

// TestApproximateSizesOfPartsAreThatOfTheWhole cuts a tree of several levels, with tombstones of both kinds, at random
// keys. The parts add up to the byte, whatever bounds the ends have, and no range is smaller than a part of it.
func TestApproximateSizesOfPartsAreThatOfTheWhole(t *testing.T) {
	o, _ := storetest.Layered(t, vfstest.NewMem())
	db := storetest.Open(t, "db", o)
	defer db.Close()
	size := func(lo, hi []byte) uint64 {
		t.Helper()
		n, err := db.ApproximateSize(bloomkv.KeyRange{Lower: lo, Upper: hi})
		must(t, err)
		return n
	}
	rng := rand.New(rand.NewPCG(111, 112))
	whole := size(nil, nil)
	for range 300 {
		cuts := [][]byte{nil}
		for range rng.IntN(6) {
			cuts = append(cuts, fmt.Appendf(nil, "key%05d", rng.IntN(3100)))
		}
		if rng.IntN(2) == 0 {
			cuts[0] = []byte("a")
		}
		slices.SortFunc(cuts[1:], bytes.Compare)
		var parts []uint64
		sum := uint64(0)
		for i := range cuts {
			hi := []byte(nil)
			if i+1 < len(cuts) {
				hi = cuts[i+1]
			}
			parts = append(parts, size(cuts[i], hi))
			sum += parts[i]
			if i > 0 && size(cuts[i-1], hi) != parts[i-1]+parts[i] {
				t.Fatalf("cuts %q: %d bytes in parts %d and %d, %d together", cuts, parts, i-1, i, size(cuts[i-1], hi))
			}
			if beyond := size(cuts[i], []byte("z")); hi == nil && beyond > parts[i] {
				t.Fatalf("cuts %q: %d bytes up to z, %d without an upper bound", cuts, beyond, parts[i])
			}
		}
		if sum != whole {
			t.Fatalf("cuts %q: parts %d, together %d, want %d", cuts, parts, sum, whole)
		}
	}
	tree := uint64(0)
	for _, l := range db.Metrics().Levels {
		tree += l.Bytes
	}
	if whole != tree {
		t.Errorf("the whole store has %d bytes, the tables have %d", whole, tree)
	}
}
