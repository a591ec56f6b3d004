package foreign_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/comparer"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/table"

	"github.com/bloomkv/bloomkv/tools/internal/foreign"
)

// userFilter asks for the user key of an internal key, as goleveldb's own wrapper does, which is not exported.
type userFilter struct{ filter.Filter }

func (f userFilter) Contains(bits, key []byte) bool { return f.Filter.Contains(bits, key[:len(key)-8]) }

// userOrder is the order of internal keys whose sequence numbers are of no interest.
type userOrder struct{ comparer.Comparer }

func (userOrder) Compare(a, b []byte) int { return bytes.Compare(a[:len(a)-8], b[:len(b)-8]) }

// goleveldbTable returns a table of a new store with the given keys.
func goleveldbTable(t *testing.T, all [][]byte, o *opt.Options) []byte {
	t.Helper()
	dir := t.TempDir()
	o.CompactionTableSize, o.WriteBuffer = 64<<20, 64<<20
	db, err := leveldb.OpenFile(dir, o)
	must(t, err)
	for _, key := range all {
		must(t, db.Put(key, value(key), nil))
	}
	must(t, db.Close())
	db, err = leveldb.OpenFile(dir, o) // writes the log into a table
	must(t, err)
	must(t, db.Close())
	return onlyTable(t, dir, "*.ldb")
}

func TestGoLevelDBAgrees(t *testing.T) {
	const tenBits = "10 bits, snappy"
	for name, o := range map[string]opt.Options{
		tenBits:                 {Filter: filter.NewBloomFilter(10)},
		"10 bits, large blocks": {Filter: filter.NewBloomFilter(10), BlockSize: 64 << 10},
		"5 bits":                {Filter: filter.NewBloomFilter(5), Compression: opt.NoCompression},
	} {
		t.Run(name, func(t *testing.T) {
			all := keys(*presents)
			b := goleveldbTable(t, all, &o)
			f := open(t, b, "000002.ldb", all)
			if f.Store != foreign.LevelDB || f.Filter.Layout != foreign.PerRange {
				t.Errorf("store %s, layout %s", f.Store, f.Filter.Layout)
			}
			own := &opt.Options{Comparer: userOrder{comparer.DefaultComparer}, Filter: userFilter{o.Filter}}
			reader, err := table.NewReader(bytes.NewReader(b), int64(len(b)), storage.FileDesc{}, nil, nil, own)
			must(t, err)
			r := compare(t, f, all, *absents, func(key []byte) bool {
				if bytes.Compare(key, all[len(all)-1]) > 0 { // Find returns the same whatever the filter says
					maybe, err := f.MayContain(key)
					must(t, err)
					return maybe
				}
				_, _, err := reader.Find(internalKey(key, 1<<56-1, 1), true, nil)
				if err != nil && !errors.Is(err, table.ErrNotFound) {
					t.Fatal(err)
				}
				return err == nil
			})
			if name == tenBits {
				results["goleveldb, 10 bits"] = r
			}
		})
	}
	sample(t, "goleveldb.ldb", goleveldbTable(t, keys(sampleKeys), &opt.Options{
		Filter: filter.NewBloomFilter(10), BlockSize: 512,
	}))
}
