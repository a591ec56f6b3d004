package tests

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/salvage"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// rangeShapes are n range deletes that lie over each other, and the largest key among their bounds.
var rangeShapes = []struct {
	name string
	of   func(i, n int) (lo, hi int)
}{
	{"each inside the last", func(i, n int) (int, int) { return i, 4*n - i }},
	{"each around the last", func(i, n int) (int, int) { return 2*n - i, 2*n + i + 1 }},
	{"staggered", func(i, n int) (int, int) { return i, i + n }},
	{"a comb", func(i, n int) (int, int) { lo := i * 7919 % (2 * n); return lo, lo + n/2 }},
	{"all the same", func(int, int) (int, int) { return 1, 5 }},
}

func numberKey(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }

// TestRangeDeletesBetweenSnapshotsTakeSpaceInProportion deletes n ranges over each other, with a snapshot after each
// that stays open, and counts the bytes of tables and of memory after a flush and after a compaction.
func TestRangeDeletesBetweenSnapshotsTakeSpaceInProportion(t *testing.T) {
	for _, shape := range rangeShapes {
		for _, n := range []int{100, 1000, 4000} {
			db, err := bloomkv.Open("db", &bloomkv.Options{FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync})
			must(t, err)
			var snaps []*bloomkv.Snapshot
			put := func() {
				must(t, errors.Join(db.Put(numberKey(2*n), nil), db.Flush(t.Context())))
			}
			put()
			for i := range n {
				lo, hi := shape.of(i, n)
				must(t, db.DeleteRange(bloomkv.KeyRange{Lower: numberKey(lo), Upper: numberKey(hi)}))
				s, err := db.Snapshot()
				must(t, err)
				snaps = append(snaps, s)
			}
			check := func(when string) {
				t.Helper()
				size := int64(0)
				for _, table := range db.Tables() {
					size += int64(table.Bytes)
				}
				if most := int64(5000 + 110*n); size > most {
					t.Errorf("%s, %d %s: tables of %d bytes, want at most %d", shape.name, n, when, size, most)
				}
				memory := db.Metrics().Memory.RangeDeletes
				if most := int64(1000 + n*(500+32*bits.Len(uint(n)))); memory > most {
					t.Errorf("%s, %d %s: %d bytes in memory, want at most %d", shape.name, n, when, memory, most)
				}
			}
			must(t, db.Flush(t.Context()))
			check("flushed")
			put()
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
			check("compacted")
			for _, s := range snaps {
				must(t, s.Close())
			}
			must(t, db.Close())
		}
	}
}

// TestEverySnapshotReadsRightBetweenManyRangeDeletes compares many snapshots, between range deletes over each other
// and puts, with maps: in memory, in tables, compacted, while snapshots are closed, and in what is made of the store.
func TestEverySnapshotReadsRightBetweenManyRangeDeletes(t *testing.T) {
	stores, overlapped := 0, 0
	for of, shape := range rangeShapes {
		for seed := range uint64(max(1, storetest.AtStride(3))) {
			rng := rand.New(rand.NewPCG(seed, uint64(of)))
			o := storetest.Tiny(vfstest.NewMem())
			o.Durability = bloomkv.DurabilityNoSync
			o.MemtableSize = int64(16<<10) << (4 * (seed % 2))
			db, err := bloomkv.Open("db", o)
			must(t, err)
			stores++
			const n = 120
			now := map[string]string{}
			var keys []string
			for i := range 4 * n {
				keys = append(keys, string(numberKey(i)))
			}
			type kept struct {
				s    *bloomkv.Snapshot
				want map[string]string
			}
			var open []kept
			write := func(i int) {
				for range rng.IntN(6) {
					k := keys[rng.IntN(len(keys))]
					now[k] = string(bytes.Repeat([]byte{'v', byte(i)}, rng.IntN(200)))
					must(t, db.Put([]byte(k), []byte(now[k])))
				}
				lo, hi := shape.of(i, n)
				must(t, db.DeleteRange(bloomkv.KeyRange{Lower: numberKey(lo), Upper: numberKey(hi)}))
				maps.DeleteFunc(now, func(k, _ string) bool {
					return k >= string(numberKey(lo)) && k < string(numberKey(hi))
				})
				s, err := db.Snapshot()
				must(t, err)
				open = append(open, kept{s, maps.Clone(now)})
			}
			check := func(when string) {
				t.Helper()
				for i, k := range open {
					if i%7 == int(seed)%7 || i == len(open)-1 {
						if err := storetest.Shows(k.s, k.want, keys[:40]); err != nil {
							t.Fatalf("%s, seed %d, %s: snapshot %d: %v", shape.name, seed, when, i, err)
						}
					}
				}
				if err := storetest.Shows(db, now, keys); err != nil {
					t.Fatalf("%s, seed %d, %s: %v", shape.name, seed, when, err)
				}
				checked(t, db)
				for _, table := range storetest.Recorded(t, o.FS, "db").Version.Tables() {
					if table.Flags&manifest.RangesOverlap != 0 {
						overlapped++
					}
				}
			}
			for i := range n {
				write(i)
				if rng.IntN(20) == 0 {
					must(t, db.Flush(t.Context()))
				}
			}
			check("written")
			must(t, db.Flush(t.Context()))
			check("flushed")
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
			check("compacted")
			for i := range n / 4 {
				write(i)
			}
			check("written again")
			copied(t, db, now, keys)
			for len(open) > 0 {
				for range min(len(open), 1+rng.IntN(40)) {
					i := rng.IntN(len(open))
					must(t, open[i].s.Close())
					open = slices.Delete(open, i, i+1)
				}
				must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
				check("with fewer snapshots")
			}
			must(t, db.Close())
			db, err = bloomkv.Open("db", o)
			must(t, err)
			check("reopened")
			must(t, db.Close())
		}
	}
	if overlapped < 2*stores {
		t.Errorf("%d tables with range deletes that overlap were seen in %d stores: the test tests nothing", overlapped,
			stores)
	}
}

// copied compares what an export, a checkpoint and Salvage make of a store with a map.
func copied(t *testing.T, db *bloomkv.DB, want map[string]string, keys []string) {
	t.Helper()
	var stream bytes.Buffer
	e, err := db.Export(t.Context(), bloomkv.ExportOptions{})
	must(t, err)
	_, err = e.WriteTo(&stream)
	must(t, errors.Join(err, e.Close()))
	imported := vfstest.NewMem()
	must(t, bloomkv.Import(t.Context(), &stream, "imported", bloomkv.NewStoreOptions{FS: imported}))
	must(t, db.Checkpoint(t.Context(), "checkpoint"))
	for _, c := range []struct {
		dir string
		fs  vfs.FS
	}{{"imported", imported}, {"checkpoint", db.FS()}} {
		opts := salvage.Options{Store: &bloomkv.Options{FS: c.fs}}
		_, err = salvage.Run(t.Context(), c.dir, "salvaged of "+c.dir, opts)
		must(t, err)
		for _, dir := range []string{c.dir, "salvaged of " + c.dir} {
			db, err := bloomkv.Open(dir, &bloomkv.Options{FS: c.fs})
			must(t, err)
			if err := storetest.Shows(db, want, keys); err != nil {
				t.Errorf("%s: %v", dir, err)
			}
			checked(t, db)
			must(t, db.Close())
		}
	}
}

func checked(t *testing.T, db *bloomkv.DB) {
	t.Helper()
	_, err := db.Check(t.Context(), bloomkv.CheckOptions{})
	must(t, err)
}
