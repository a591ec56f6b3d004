package bloomkv

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

// TestManyKeysHaveTheCandidatesOfEachAlone asks the fences and filters of trees of one run to dozens, with and without range
// tombstones, for keys together and one by one: the tables to be searched and the counts are the same.
func TestManyKeysHaveTheCandidatesOfEachAlone(t *testing.T) {
	for _, ranges := range []bool{false, true} {
		t.Run(fmt.Sprintf("range tombstones: %v", ranges), func(t *testing.T) {
			o := tiny(vfs.NewMem())
			o.Durability, o.FilterFPR = NoSync, 0.2
			db, err := Open("db", o)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			key := func(i int) []byte { return fmt.Appendf(nil, "key%05d", i) }
			for round := range 6 {
				for i := range 1500 {
					if err := db.Put(key((i*7919+round*100)%4000*2), []byte("0123456789")); err != nil {
						t.Fatal(err)
					}
				}
				if ranges && round%2 == 1 {
					if err := db.DeleteRange(key(round*1000), key(round*1000+700)); err != nil {
						t.Fatal(err)
					}
				}
				if err := db.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			settle(t, db)
			soon(t, "it is warm", func() bool { return db.Metrics().Warm })
			s, release := db.tree.Acquire()
			defer release()
			// One table is not loaded: its filter cannot be asked, nor its range tombstones.
			last := s.Runs[len(s.Runs)-1]
			tables := slices.Clone(last.Tables)
			bare := tree.NewTable(tables[len(tables)/2].Meta, db.tree.Files, db.tree.Blocks)
			defer func() { _ = bare.File.Close() }()
			tables[len(tables)/2] = bare
			whole := append(slices.Clone(s.Runs[:len(s.Runs)-1]), tree.NewRun(last.Level, last.ID, tables))
			for _, times := range []int{1, 2, 7, 20} {
				tree := &tree.State{Mem: s.Mem, Runs: slices.Repeat(whole, times)}
				for first := 0; first < 8000; first += 61 {
					n := 1 + first%manyKeys
					var keys [][]byte
					below := uint64(0)
					m := new(manyLookup)
					for i := range n {
						keys = append(keys, key(first+i*37))
						m.hashes[i] = db.hash(keys[i])
						if (first+i)%5 > 0 {
							below |= 1 << i
						}
					}
					m.choose(tree, keys, ikey.MaxSeq, below)
					var cost lookupCost
					for i, k := range keys {
						var want []candidate
						if below>>i&1 != 0 {
							want = candidatesIn(tree, nil, k, m.hashes[i], ikey.MaxSeq, &cost)
						}
						if got := m.candidates[m.next[i]:m.last[i]]; !slices.Equal(got, want) {
							t.Fatalf("%d runs, key %q: candidates %v, alone %v", len(tree.Runs), k, got, want)
						}
					}
					if !reflect.DeepEqual(m.cost, cost) {
						t.Fatalf("%d runs, %d keys from %d on: cost %+v, one by one %+v", len(tree.Runs), n, first, m.cost, cost)
					}
				}
			}
		})
	}
}
