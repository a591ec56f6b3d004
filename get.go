package bloomkv

import "github.com/bloomkv/bloomkv/internal/read"

// Get returns the value of key, a copy that the caller owns. An absent key is ErrNotFound, bare, and a nil value; an empty
// value is not nil. A lookup sees every write that returned before it began. Damage on the way is an error that Is
// ErrCorruption, never a wrong or missing value. A key longer than MaxKeySize is absent.
//
// A lookup of a key that no filter lets through takes no lock, allocates nothing and reads no file.
func (db *DB) Get(key []byte) ([]byte, error) { return db.read.Get(key, read.Newest) }

// AppendGet appends the value of key to dst and returns the longer slice: a Get that allocates nothing where dst has room.
// On an error, ErrNotFound included, it returns dst as it was. dst may be nil; key must not lie in its spare capacity.
func (db *DB) AppendGet(dst, key []byte) ([]byte, error) {
	return db.read.AppendGet(dst, key, read.Newest)
}

// Has reports whether the store holds a value for key. It is exact, as Get is, but copies no value. Its errors are those of
// Get but for ErrNotFound.
func (db *DB) Has(key []byte) (bool, error) { return db.read.Has(key, read.Newest) }

// View calls f with the value of key, without copying it: the slice is valid until f returns, and must not be changed. f may
// take its time and call any method of the DB. View returns ErrNotFound for an absent key, without calling f, else what f
// returns, bare. Other errors are those of Get.
func (db *DB) View(key []byte, f func(value []byte) error) error {
	return db.read.View(key, read.Newest, f)
}

// MayContain reports whether the store may hold a value for key, from memory alone: it never reads a file, takes no lock and
// allocates nothing. False is certain, as of the call. True is wrong for about Options.FilterFPR of absent keys, for deleted
// keys whose tombstones are in tables, and wherever a filter is not in memory: not loaded yet, not built, or shed by the
// memory budget. After Close it is always true. It is not counted in Metrics.
func (db *DB) MayContain(key []byte) bool { return db.read.MayContain(key) }

// GetMany looks many keys up, all as of one moment, and calls f for each in the order of keys with its place in keys: with
// its value, or with found false. value is valid until f returns and must not be changed; f may take its time and call any
// method of the DB. An error of f ends the call and is returned; others are those of Get but for ErrNotFound, and come after f
// was called for some keys, or none. keys must not change during the call.
//
// The keys go downstairs together, floor by floor, so that they wait for memory at the same time instead of one after the
// other: with keys that are not in the processor's cache that is two to four times as fast a key as Get.
func (db *DB) GetMany(keys [][]byte, f func(i int, value []byte, found bool) error) error {
	return db.read.GetMany(keys, read.Newest, f)
}

// GetTraced is Get, and tells what it cost, of an absent key too. The value is the caller's. The figures are exact, and counted
// in Metrics as well.
func (db *DB) GetTraced(key []byte) ([]byte, Trace, error) {
	value, traced, err := db.read.GetTraced(key)
	t := Trace{LookupMetrics: LookupMetrics(traced.Counts)}
	for _, table := range traced.Tables {
		t.Tables = append(t.Tables, TableTrace(table))
	}
	return value, t, err
}

// ApproximateSize is how many bytes the tables take on the disk for the keys from lo on and before hi: lo is inclusive, hi
// exclusive, nil is infinite. It counts deleted and overwritten versions that compaction has not removed yet, and nothing
// that is only in memory. Of a table at the edge of the range it counts the blocks that the index puts inside; it reads no
// block, but may read an index. An inverted range is 0. Errors are ErrClosed and those of reading an index.
func (db *DB) ApproximateSize(lo, hi []byte) (uint64, error) { return db.read.ApproximateSize(lo, hi) }
