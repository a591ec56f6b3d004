package foreign_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/dgraph-io/badger/v4"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"

	"github.com/bloomkv/bloomkv/tools/internal/foreign"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

// checkStore reads the directory of a store as inspect does. Its tables have n keys, and the mean of their rates from
// the bits is that of absent keys within the bounds of each table.
func checkStore(t *testing.T, dir string, n int) {
	t.Helper()
	s, err := inspect.ReadForeignStore(t.Context(), dir, inspect.Options{})
	must(t, err)
	must(t, s.Wrong())
	if len(s.Unread) > 0 || math.Abs(s.Keys-float64(n)) > 0.02*float64(n) { // an estimate for LevelDB
		t.Errorf("unread tables %v, %.0f keys, want %d", s.Unread, s.Keys, n)
	}
	var sum, keys float64
	for _, table := range s.All {
		b, err := os.ReadFile(filepath.Join(dir, table.File))
		must(t, err)
		f, err := foreign.Open(bytes.NewReader(b), int64(len(b)), table.File)
		must(t, err)
		first, last, err := f.Bounds()
		must(t, err)
		positives, asked := 0, 0
		for i := range *absents {
			key := absent(i)
			if bytes.Compare(key, first) < 0 || bytes.Compare(key, last) > 0 {
				continue // a lookup asks no filter
			}
			asked++
			maybe, err := f.MayContain(key)
			must(t, err)
			if maybe {
				positives++
			}
		}
		weight := 8 * float64(table.Filter.Bytes) / table.Exam.BitsPerKey
		sum += weight * float64(positives) / float64(max(1, asked))
		keys += weight
	}
	rate := sum / keys
	t.Logf("%d tables, %.0f keys, %.2f bits per key, rate from bits %.5g, between keys %.5g, of absent keys %.5g",
		s.Tables, s.Keys, s.PerKey, s.Rate, s.Between, rate)
	if chance := 5 * math.Sqrt(rate/float64(*absents)); math.Abs(s.Rate-rate) > 0.03*rate+chance {
		t.Errorf("rate from bits %.5g, want that of absent keys %.5g ± 3 %%", s.Rate, rate)
	}
}

func TestDirectoriesOfStoresAreRead(t *testing.T) {
	all := keys(*presents)
	t.Run("goleveldb", func(t *testing.T) {
		dir := t.TempDir()
		db, err := leveldb.OpenFile(dir, &opt.Options{Filter: filter.NewBloomFilter(10)})
		must(t, err)
		for _, key := range all {
			must(t, db.Put(key, value(key), nil))
		}
		must(t, db.Close())
		db, err = leveldb.OpenFile(dir, &opt.Options{Filter: filter.NewBloomFilter(10)}) // writes the log into a table
		must(t, err)
		must(t, db.Close())
		checkStore(t, dir, len(all))
	})
	t.Run("Pebble", func(t *testing.T) {
		dir := t.TempDir()
		o := &pebble.Options{MemTableSize: 1 << 20, Logger: quiet{}}
		for i := range o.Levels {
			o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		}
		db, err := pebble.Open(dir, o)
		must(t, err)
		for _, key := range all {
			must(t, db.Set(key, value(key), pebble.NoSync))
		}
		must(t, db.Flush())
		must(t, db.Close())
		checkStore(t, dir, len(all))
	})
	t.Run("Badger", func(t *testing.T) {
		dir := t.TempDir()
		db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil).WithMemTableSize(4 << 20).
			WithValueThreshold(1 << 10))
		must(t, err)
		w := db.NewWriteBatch()
		for _, key := range all {
			must(t, w.Set(key, value(key)))
		}
		must(t, w.Flush())
		must(t, db.Close())
		checkStore(t, dir, len(all))
	})
}

// quiet is a logger of Pebble that logs nothing.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) { panic("pebble: fatal") }
