package bloomkv

import (
	"iter"

	"github.com/bloomkv/bloomkv/internal/read"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// A Snapshot is the store as it was at one moment: later writes, range deletes and compactions do not change what it shows.
// It costs no copy, but while it is open compaction keeps the versions that it needs, and their space. It is safe for
// concurrent use and ends with Close, or with the store: then every call is ErrClosed.
type Snapshot struct {
	db  *DB
	pin *tree.Pin
}

// Snapshot returns the store as it is now: every write that returned is in it. It must be closed. The error is ErrClosed.
func (db *DB) Snapshot() (*Snapshot, error) {
	pin, err := db.tree.Pin()
	if err != nil {
		return nil, err
	}
	return &Snapshot{db, pin}, nil
}

func (s *Snapshot) at() read.AsOf { return read.AsOf{Seq: s.pin.Seq, Closed: &s.pin.Closed} }

// Get is [DB.Get] as of the snapshot.
func (s *Snapshot) Get(key []byte) ([]byte, error) {
	return s.db.read.Get(key, s.at())
}

// AppendGet is [DB.AppendGet] as of the snapshot.
func (s *Snapshot) AppendGet(dst, key []byte) ([]byte, error) {
	return s.db.read.AppendGet(dst, key, s.at())
}

// Has is [DB.Has] as of the snapshot.
func (s *Snapshot) Has(key []byte) (bool, error) {
	return s.db.read.Has(key, s.at())
}

// View is [DB.View] as of the snapshot.
func (s *Snapshot) View(key []byte, f func(value []byte) error) error {
	return s.db.read.View(key, s.at(), f)
}

// GetMany is [DB.GetMany] as of the snapshot.
func (s *Snapshot) GetMany(keys [][]byte, f func(i int, value []byte, found bool) error) error {
	return s.db.read.GetMany(keys, s.at(), f)
}

// Iter is [DB.Iter] as of the snapshot. The iterator may outlive it.
func (s *Snapshot) Iter(opts IterOptions) *Iterator {
	it := new(Iterator)
	it.begin(s.db, &opts, read.AsOf{Seq: s.pin.Seq, Closed: &s.pin.Closed}) // with a call of at it would be too long to be put into its caller
	return it
}

// Scan is [DB.Scan] as of the snapshot.
func (s *Snapshot) Scan(opts IterOptions) iter.Seq2[KV, error] {
	return func(yield func(KV, error) bool) { scan(s.Iter(opts), yield) }
}

// Close ends the snapshot; compaction may then drop what only it needed. A second Close is ErrClosed.
func (s *Snapshot) Close() error { return s.db.tree.Unpin(s.pin) }
