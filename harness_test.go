package bloomkv

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
)

// The helpers of storetest, under short names.
var (
	long = storetest.Long

	atStride     = storetest.AtStride
	createsTable = storetest.CreatesTable
	diff         = storetest.Diff
	gated        = storetest.Gated
	inside       = storetest.Inside
	logFiles     = storetest.LogFiles
	newGate      = storetest.NewGate
	rewrite      = storetest.Rewrite
	roomy        = storetest.Roomy
	soon         = storetest.Soon
	trackOpen    = storetest.TrackOpen
	waiting      = storetest.Waiting
	within       = storetest.Within
)

const raceEnabled = storetest.RaceEnabled

func TestMain(m *testing.M) { storetest.Main(m) }

// tiny returns options with which a hundred writes flush, compact and move tables.
func tiny(fsys vfs.FS) *Options {
	return &Options{
		FS: fsys, FilterSeed: 1, MemoryBudget: 8 << 20, MemtableSize: 16 << 10, TableSize: 16 << 10,
		BaseLevelSize: 64 << 10, LevelRatio: 2, BlockSize: 512,
	}
}

// contents reads a whole store by one scan.
func contents(db *DB) (map[string]string, error) {
	all := map[string]string{}
	var last []byte
	for kv, err := range db.Scan(IterOptions{}) {
		if err != nil {
			return nil, err
		}
		if len(all) > 0 && bytes.Compare(last, kv.Key) >= 0 {
			return nil, fmt.Errorf("scan: %q after %q", kv.Key, last)
		}
		last = append(last[:0], kv.Key...)
		all[string(kv.Key)] = string(kv.Value)
	}
	return all, nil
}

// lookupsAgree compares Get, Has and AppendGet with the expected contents, for present and some absent keys.
func lookupsAgree(db *DB, want map[string]string) error {
	for k, v := range want {
		if got, err := db.Get([]byte(k)); err != nil || string(got) != v {
			return fmt.Errorf("get %.40q: got %.40q, %w, want %.40q", k, got, err, v)
		}
		absent := k + "\x00"
		if _, there := want[absent]; there {
			continue
		}
		if got, err := db.Get([]byte(absent)); !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("get absent %.40q: got %.40q, %w", absent, got, err)
		}
	}
	return nil
}

// recordedOf returns the state in the manifest of an open store.
func recordedOf(db *DB) manifest.State {
	recorded, s := db.tree.Recorded()
	db.tree.Release(s)
	return recorded
}

// openTiny opens an empty store in memory.
func openTiny(t *testing.T) *DB {
	t.Helper()
	o := tiny(vfs.NewMem())
	o.Durability, o.MemtableSize = NoSync, 1<<20
	db, err := Open("db", o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}
