package tests

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/salvage"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestSalvageKeepsTheDataWhateverTheNumbersAre sets each number of a store to values at its limits, with right
// checksums. What Salvage makes of it is sound, opens, takes a write, and has all data where the number says nothing
// about data.
func TestSalvageKeepsTheDataWhateverTheNumbersAre(t *testing.T) {
	numbers := []uint64{
		0, 1, manifest.MaxFile, manifest.MaxFile + 1, uint64(manifest.MaxWrite), uint64(manifest.MaxWrite) + 1,
		uint64(manifest.MaxSeq), uint64(manifest.MaxSeq) + 1, uint64(ikey.MaxSeq), uint64(ikey.MaxSeq) + 1,
		math.MaxUint64 - 1, math.MaxUint64,
	}
	edits := func(change func(e *manifest.Edit, n uint64)) func(s *forgedStore, n uint64) {
		return func(s *forgedStore, n uint64) { s.edit(func(e *manifest.Edit) { change(e, n) }) }
	}
	for _, tt := range []struct {
		what  string
		set   func(s *forgedStore, n uint64)
		whole bool // all data is kept
	}{
		{"next file", edits(func(e *manifest.Edit, n uint64) { e.NextFile = n }), true},
		{"last sequence", edits(func(e *manifest.Edit, n uint64) { e.LastSeq = ikey.Seq(n) }), true},
		{"mark", edits(func(e *manifest.Edit, n uint64) {
			e.Mark = batch.Mark{Seq: ikey.Seq(n), Bytes: []byte("m")}
		}), true},
		{"run", edits(func(e *manifest.Edit, n uint64) {
			for i := range e.Added {
				e.Added[i].Run = n - uint64(i)
			}
		}), false},
		{"sequences of tables", edits(func(e *manifest.Edit, n uint64) {
			for i := range e.Added {
				e.Added[i].Table.MinSeq, e.Added[i].Table.MaxSeq = ikey.Seq(n), ikey.Seq(n)
			}
		}), false},
		{"entries of tables", edits(func(e *manifest.Edit, n uint64) {
			for i := range e.Added {
				e.Added[i].Table.Entries = n
			}
		}), true},
		{"synced", edits(func(e *manifest.Edit, n uint64) {
			if e.Log != nil {
				e.Log.Synced = int64(n & math.MaxInt64)
			}
		}), true},
		{"sequence of a record", func(s *forgedStore, n uint64) {
			for _, records := range s.logs {
				records[0] = slices.Clone(records[0])
				binary.LittleEndian.PutUint64(records[0], n)
			}
		}, false},
	} {
		for i, kind := range hostileKinds {
			want := salvagedContents(t, kind, kind.store(t))
			for _, n := range numbers {
				s := kind.store(t)
				for number, records := range s.logs {
					s.logs[number] = slices.Clone(records)
				}
				tt.set(s, n)
				got := salvagedContents(t, kind, s)
				for k, v := range want { // without an edit that cannot be read, a deleted key may be back
					if now, ok := got[k]; tt.whole && (!ok || now != v) {
						t.Errorf("%s %d, store %d: %q is %q, %v; want %q", tt.what, n, i, k, now, ok, v)
						break
					}
				}
			}
		}
	}
}

// salvagedContents returns what Salvage keeps of a store, after a check of the new store and a write to it.
func salvagedContents(t *testing.T, kind *hostileKind, s *forgedStore) map[string]string {
	t.Helper()
	mem := vfstest.NewMem()
	must(t, writeFiles(mem, "db", s.join()))
	o := kind.options(mem)
	if _, err := salvage.Run(t.Context(), "db", "new", salvage.Options{Store: o}); err != nil {
		t.Errorf("Salvage: %v", err)
		return nil
	}
	little := *o // tables may claim more keys than this holds filters for
	little.FilterFPR, little.FilterMemory = 0, 64<<10
	_, err := salvage.Run(t.Context(), "db", "little", salvage.Options{Store: &little})
	if err != nil {
		t.Errorf("Salvage with FilterMemory: %v", err)
		return nil
	}
	db, err := bloomkv.Open("little", &little)
	must(t, err)
	must(t, db.Close())
	_, err = bloomkv.Check(t.Context(), "new", bloomkv.CheckOptions{FS: mem})
	must(t, err)
	db, err = bloomkv.Open("new", o)
	must(t, err)
	got, err := storetest.Contents(db)
	must(t, errors.Join(err, storetest.PutWith(db, bloomkv.DurabilitySync, []byte("later"), nil), db.Close()))
	db, err = bloomkv.Open("new", o)
	must(t, err)
	if ok, err := db.Has([]byte("later")); !ok || err != nil {
		t.Errorf("a write to what was salvaged is %v, %v", ok, err)
	}
	must(t, db.Close())
	return got
}
