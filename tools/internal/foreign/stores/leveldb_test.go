//go:build leveldb

package foreign_test

import (
	"fmt"
	"testing"

	"github.com/bloomkv/bloomkv/tools/internal/foreign"
	cpp "github.com/bloomkv/bloomkv/tools/internal/foreign/stores"
)

// levelDBTable writes a store with one table, and returns the table and the open store.
func levelDBTable(t *testing.T, all [][]byte, bits, block int, snappy bool) ([]byte, *cpp.LevelDB) {
	t.Helper()
	dir := t.TempDir()
	db, err := cpp.OpenLevelDB(dir, bits, block, snappy)
	must(t, err)
	for _, key := range all {
		must(t, db.Put(key, value(key)))
	}
	db.Close()
	db, err = cpp.OpenLevelDB(dir, bits, block, snappy) // writes the log into a table
	must(t, err)
	t.Cleanup(db.Close)
	return onlyTable(t, dir, "*.ldb"), db
}

func TestLevelDBAgrees(t *testing.T) {
	for _, c := range []struct {
		bits, block int
		snappy      bool
	}{
		{10, 4 << 10, true}, {10, 64 << 10, true}, {5, 4 << 10, false}, {16, 1 << 10, true},
	} {
		t.Run(fmt.Sprintf("%d bits, blocks of %d", c.bits, c.block), func(t *testing.T) {
			all := keys(*presents)
			b, db := levelDBTable(t, all, c.bits, c.block, c.snappy)
			f := open(t, b, "000005.ldb", all)
			if f.Store != foreign.LevelDB || f.Filter.Layout != foreign.PerRange {
				t.Errorf("store %s, layout %s", f.Store, f.Filter.Layout)
			}
			first, last := string(all[0]), string(all[len(all)-1])
			r := compare(t, f, all, *absents, func(key []byte) bool {
				maybe, asked := db.Maybe(key)
				if inside := first <= string(key) && string(key) <= last; !asked && inside {
					t.Fatalf("key %q: no filter was asked", key)
				}
				if !asked { // outside of the table
					var err error
					maybe, err = f.MayContain(key)
					must(t, err)
				}
				return maybe
			})
			if c.bits == 10 && c.block == 4<<10 {
				results["LevelDB, 10 bits"] = r
			}
		})
	}
	b, _ := levelDBTable(t, keys(sampleKeys), 10, 512, true)
	sample(t, "leveldb.ldb", b)
}
