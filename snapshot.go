package bloomkv

import (
	"iter"

	"github.com/bloomkv/bloomkv/internal/read"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// A Reader reads a store: its current state, if it is a [DB], or that of one moment, if it is a [Snapshot]. The
// methods are described there. A function that takes a Reader works on both.
type Reader interface {
	Get(key []byte) ([]byte, error)
	AppendGet(dst, key []byte) ([]byte, error)
	Has(key []byte) (bool, error)
	View(key []byte, f func(value []byte) error) error
	GetMany(keys [][]byte, f func(i int, value []byte, found bool) error) error
	Iter(opts IterOptions) *Iterator
	Scan(opts IterOptions) iter.Seq2[KV, error]
}

var (
	_ Reader = (*DB)(nil)
	_ Reader = (*Snapshot)(nil)
)

// A Snapshot is the store as it was at one moment: later writes, range deletes and compactions do not change what it
// shows. It copies nothing, but while it is open, compaction keeps the versions that it needs, and the disk space
// they take. It is safe for concurrent use. It ends with Close, or when the store is closed; after that, every read
// returns ErrClosed.
type Snapshot struct {
	db  *DB
	pin *tree.Pin
}

// Snapshot returns the current state of the store, including every write that has returned. The caller must close it.
// The error is ErrClosed.
func (db *DB) Snapshot() (*Snapshot, error) {
	pin, err := db.tree.Pin()
	if err != nil {
		return nil, err
	}
	return &Snapshot{db, pin}, nil
}

func (s *Snapshot) at() read.AsOf { return read.AsOf{Seq: s.pin.Seq, Pin: s.pin} }

// Get returns a copy of the value of key as of the snapshot: see [DB.Get].
func (s *Snapshot) Get(key []byte) ([]byte, error) {
	return s.db.read.Get(key, s.at())
}

// AppendGet appends the value of key as of the snapshot to dst: see [DB.AppendGet].
func (s *Snapshot) AppendGet(dst, key []byte) ([]byte, error) {
	return s.db.read.AppendGet(dst, key, s.at())
}

// Has reports whether key had a value as of the snapshot: see [DB.Has].
func (s *Snapshot) Has(key []byte) (bool, error) {
	return s.db.read.Has(key, s.at())
}

// View calls f with the value of key as of the snapshot: see [DB.View].
func (s *Snapshot) View(key []byte, f func(value []byte) error) error {
	return s.db.read.View(key, s.at(), f)
}

// GetMany looks up several keys as of the snapshot: see [DB.GetMany].
func (s *Snapshot) GetMany(keys [][]byte, f func(i int, value []byte, found bool) error) error {
	return s.db.read.GetMany(keys, s.at(), f)
}

// Iter returns an iterator as of the snapshot, which may outlive it: see [DB.Iter].
func (s *Snapshot) Iter(opts IterOptions) *Iterator {
	it := new(Iterator)
	it.begin(s.db, &opts, read.AsOf{Seq: s.pin.Seq, Pin: s.pin}, nil) // a call of at would prevent inlining
	return it
}

// Scan returns the keys of a range with their values as of the snapshot: see [DB.Scan].
func (s *Snapshot) Scan(opts IterOptions) iter.Seq2[KV, error] {
	return func(yield func(KV, error) bool) { scan(s.Iter(opts), &opts, yield) }
}

// Mark returns a copy of the mark as of the snapshot, nil without one: see [DB.Mark]. The mark and the data of a
// snapshot belong together: it has the writes of the batch that set the mark, and no mark of a batch whose writes it
// lacks.
func (s *Snapshot) Mark() ([]byte, error) {
	if s.pin.Closed.Load() || s.db.tree.Load() == nil {
		return nil, ErrClosed
	}
	return copyOf(s.pin.Mark), nil
}

// Close ends the snapshot. Compaction may then drop what only it needed. A second Close returns ErrClosed
// and does nothing; the first returns nil, also after that of the store.
func (s *Snapshot) Close() error { return s.db.tree.Unpin(s.pin) }
