package storetest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// Layered returns a store with keys in all kinds of positions: in several levels, rewritten, deleted one by one and by
// ranges, in tables and in memory. Keys are "key%05d" with n below 3000; odd ones are absent. The store is left in mem,
// as the options say.
func Layered(t *testing.T, mem *vfstest.Mem) (o *bloomkv.Options, want map[string]string) {
	t.Helper()
	o = Tiny(mem)
	// A rate of 0.5 makes filters often wrong. With this base level there is one between level 0 and the last.
	o.BaseLevelSize = 128 << 10
	o.Durability, o.Compression, o.MemtableSize, o.FilterFPR = bloomkv.DurabilityNoSync, bloomkv.CompressionNone, 1<<20,
		0.5
	db := Open(t, "db", o)
	want = map[string]string{}
	rng := rand.New(rand.NewPCG(21, 22))
	put := func(k, v string) {
		t.Helper()
		testkit.Must(t, db.Put([]byte(k), []byte(v)))
		want[k] = v
	}
	deleteRange := func(lo, hi string) {
		t.Helper()
		var end []byte
		if hi != "" {
			end = []byte(hi)
		}
		testkit.Must(t, db.DeleteRange(bloomkv.KeyRange{Lower: []byte(lo), Upper: end}))
		maps.DeleteFunc(want, func(k, _ string) bool { return k >= lo && (hi == "" || k < hi) })
	}
	key := func(n int) string { return fmt.Sprintf("key%05d", n) }
	flush := func() (runs int) {
		t.Helper()
		testkit.Must(t, db.Flush(t.Context()))
		Settle(t, db)
		for _, l := range db.Metrics().Levels {
			runs += l.Runs
		}
		return runs
	}
	for _, i := range rng.Perm(1500) {
		put(key(2*i), strings.Repeat(fmt.Sprint("first ", i), 10))
	}
	testkit.Must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	over := func(what string) {
		for range 50 {
			put(key(2*rng.IntN(1500)), what)
			gone := key(2 * rng.IntN(1500))
			testkit.Must(t, db.Delete([]byte(gone)))
			delete(want, gone)
		}
		put(key(2), what)
		put(key(2998), what)
	}
	for flushes, merged := 0, false; !merged; flushes++ { // into a level in between
		if flushes == 50 {
			t.Fatalf("not merged after %d flushes:\n%v", flushes, db.Metrics())
		}
		over("second")
		merged = flush() == 2 && db.Metrics().Levels[0].Runs == 0
	}
	over("third")
	deleteRange(key(400), key(440))
	flush()
	over("fourth")
	put(key(410), "back")
	deleteRange(key(2990), "")
	put(key(2994), "back")
	flush()
	deleteRange(key(1200), key(1210)) // a table of tombstones
	if runs := flush(); runs != 5 {
		t.Fatalf("%d runs, want 5:\n%v", runs, db.Metrics())
	}
	testkit.Must(t, db.Close())
	return o, want
}

// KeyShapes make keys from numbers, for tests that store even numbers: odd ones, which lie between, are absent.
var KeyShapes = []struct {
	Name string
	Key  func(n uint64) []byte
}{
	{"decimal", func(n uint64) []byte { return fmt.Appendf(nil, "key%010d", n) }},
	{"integers", func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }},
	{"little-endian integers", func(n uint64) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }},
	{"random with a shared prefix", func(n uint64) []byte {
		return fmt.Appendf(nil, "tenant-0001/objects/%016x", n*0x9e3779b97f4a7c15)
	}},
	{"paths of any length", func(n uint64) []byte {
		return fmt.Appendf(nil, "/usr/share/%d/%x/%s%d", n%7, n/64, "abcdefghijklmnopqrstuvwxyz"[:n%26], n)
	}},
}
