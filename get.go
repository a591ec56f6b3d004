package bloomkv

import "github.com/bloomkv/bloomkv/internal/read"

// Get returns a copy of the value of key, which the caller owns. For an absent key it returns nil and ErrNotFound,
// bare; an empty value is not nil. Get sees every write that returned before it began. If it meets damage, it returns
// an error matching ErrCorruption (errors.Is), never a wrong value or ErrNotFound. A key longer than MaxKeySize is
// absent.
//
// If every filter excludes the key, Get takes no lock, allocates nothing and reads no file.
func (db *DB) Get(key []byte) ([]byte, error) { return db.read.Get(key, read.Newest) }

// AppendGet appends the value of key to dst and returns the extended slice. It is a Get that allocates nothing if dst
// has enough capacity. On any error, including ErrNotFound, it returns dst unchanged. dst may be nil; key must not
// lie in its spare capacity.
func (db *DB) AppendGet(dst, key []byte) ([]byte, error) {
	return db.read.AppendGet(dst, key, read.Newest)
}

// Has reports whether the store has a value for key. It is exact, like Get, but copies no value. Its errors are those
// of Get except for ErrNotFound.
func (db *DB) Has(key []byte) (bool, error) { return db.read.Has(key, read.Newest) }

// View calls f with the value of key, without copying it. The slice is valid until f returns and must not be changed.
// f may take a long time and may call any method of the DB. For an absent key, View returns ErrNotFound and does not
// call f; otherwise it returns the error of f, bare. Other errors are those of Get.
func (db *DB) View(key []byte, f func(value []byte) error) error {
	return db.read.View(key, read.Newest, f)
}

// MayContain reports whether the store may have a value for key. It uses memory only: it never reads a file, takes no
// lock and allocates nothing. False is certain as of the call. True is wrong for about Options.FilterFPR of absent
// keys, and for deleted keys whose tombstones are in tables. It may also be wrong if a filter is not in memory: not
// yet loaded, not built, or dropped for the memory budget. After Close, MayContain returns true. Metrics do not count
// its calls.
func (db *DB) MayContain(key []byte) bool { return db.read.MayContain(key) }

// GetMany looks up all keys as of one moment and calls f for each key, in the order of keys: with the index of the
// key in keys, and with its value or with found false. value is valid until f returns and must not be changed. f may
// take a long time and may call any method of the DB. An error of f stops the call and is returned. Other errors are
// those of Get except for ErrNotFound; f may have been called for some keys by then, or for none. keys must not
// change during the call.
//
// The keys are looked up together, step by step, so that their waits for memory overlap. If keys are not in the cache
// of the processor, this is two to four times as fast per key as Get. If values of 64 keys take more than 16 MiB, those
// beyond are looked up again, one by one, so that they are not all in memory together.
func (db *DB) GetMany(keys [][]byte, f func(i int, value []byte, found bool) error) error {
	return db.read.GetMany(keys, read.Newest, f)
}

// A Trace is what one lookup used: its figures, which are also counted in Metrics, and the tables it searched.
type Trace struct {
	LookupMetrics

	Tables []TableTrace // in the order of the search: newest data first
}

// A TableTrace is the search of one table.
type TableTrace struct {
	Level      int
	File       string // base name of the table's file, in the directory of the store
	Filtered   bool   // a filter was queried and did not exclude the key
	Present    bool   // the table holds a version of the key; otherwise the search was wasted
	Blocks     uint64 // data blocks used
	BlocksRead uint64 // data blocks among them that were not in the cache
	BytesRead  uint64 // bytes read from the file for these
}

// GetTraced returns what Get does, and what the lookup cost, even for an absent key. The caller owns the value. The
// figures are exact, and Metrics count them as well.
func (db *DB) GetTraced(key []byte) ([]byte, Trace, error) {
	value, traced, err := db.read.GetTraced(key)
	t := Trace{LookupMetrics: LookupMetrics(traced.Counts)}
	for _, table := range traced.Tables {
		t.Tables = append(t.Tables, TableTrace(table))
	}
	return value, t, err
}

// ApproximateSize returns the number of bytes on disk that the tables take for the keys of a range. It counts deleted
// and overwritten versions that compaction has not removed yet, and nothing that is only in memory. For a table at the
// edge of the range, it counts the blocks that are inside according to the index. It reads no block, but may read an
// index. Errors are ErrClosed and those of reading an index.
func (db *DB) ApproximateSize(r KeyRange) (uint64, error) {
	return db.read.ApproximateSize(r.Lower, r.Upper)
}
