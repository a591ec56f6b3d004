package bloomkv

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A Snapshot is the store as it was at one moment: later writes, range deletes and compactions do not change what it shows.
// It costs no copy, but while it is open compaction keeps the versions that it needs, and their space. It is safe for
// concurrent use and ends with Close, or with the store: then every call is ErrClosed.
type Snapshot struct {
	db     *DB
	seq    ikey.Seq
	opened time.Time
	closed atomic.Bool
}

// snapshots is what compactions have to heed.
type snapshots struct {
	mu   sync.Mutex
	open []*Snapshot // ascending by sequence number, since they are opened in that order
}

// Snapshot returns the store as it is now: every write that returned is in it. It must be closed. The error is ErrClosed.
func (db *DB) Snapshot() (*Snapshot, error) {
	if db.state.Load() == nil {
		return nil, ErrClosed
	}
	// mu, since an ingest publishes its sequence under it, and then the state: what is between the two would be a moment that
	// shows more the next time.
	db.mu.Lock()
	defer db.mu.Unlock()
	db.snapshots.mu.Lock()
	defer db.snapshots.mu.Unlock()
	// The sequence is read under the lock: a compaction that does not find this snapshot afterwards has only versions that
	// are not newer than it, and keeps the newest of them.
	s := &Snapshot{db: db, seq: db.newestSeq(), opened: time.Now()}
	db.snapshots.open = append(db.snapshots.open, s)
	return s, nil
}

// seqs are the sequence numbers of the open snapshots, ascending and each once.
func (s *snapshots) seqs() []ikey.Seq {
	s.mu.Lock()
	defer s.mu.Unlock()
	var seqs []ikey.Seq
	for _, o := range s.open {
		if n := len(seqs); n == 0 || seqs[n-1] != o.seq {
			seqs = append(seqs, o.seq)
		}
	}
	return seqs
}

// oldest says how many snapshots are open and since when the oldest is.
func (s *snapshots) oldest() (count int, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == 0 {
		return 0, time.Time{}
	}
	return len(s.open), slices.MinFunc(s.open, func(a, b *Snapshot) int { return a.opened.Compare(b.opened) }).opened
}

func (s *Snapshot) at() asOf { return asOf{s.seq, &s.closed} }

// Get is [DB.Get] as of the snapshot.
func (s *Snapshot) Get(key []byte) ([]byte, error) {
	return s.db.get(key, s.at())
}

// AppendGet is [DB.AppendGet] as of the snapshot.
func (s *Snapshot) AppendGet(dst, key []byte) ([]byte, error) {
	return s.db.appendGet(dst, key, s.at())
}

// Has is [DB.Has] as of the snapshot.
func (s *Snapshot) Has(key []byte) (bool, error) {
	return s.db.has(key, s.at())
}

// View is [DB.View] as of the snapshot.
func (s *Snapshot) View(key []byte, f func(value []byte) error) error {
	return s.db.view(key, s.at(), f)
}

// GetMany is [DB.GetMany] as of the snapshot.
func (s *Snapshot) GetMany(keys [][]byte, f func(i int, value []byte, found bool) error) error {
	return s.db.getMany(keys, s.at(), f)
}

// Iter is [DB.Iter] as of the snapshot. The iterator may outlive it.
func (s *Snapshot) Iter(opts IterOptions) *Iterator {
	it := new(Iterator)
	it.begin(s.db, &opts, asOf{s.seq, &s.closed}) // with a call of at it would be too long to be put into its caller
	return it
}

// Scan is [DB.Scan] as of the snapshot.
func (s *Snapshot) Scan(opts IterOptions) iter.Seq2[KV, error] {
	return func(yield func(KV, error) bool) { scan(s.Iter(opts), yield) }
}

// Close ends the snapshot; compaction may then drop what only it needed. A second Close is ErrClosed.
func (s *Snapshot) Close() error {
	if s.closed.Swap(true) {
		return ErrClosed
	}
	if s.db.snapshots.remove(s) {
		s.db.wake() // for a compaction that waits to drop what it kept
	}
	return nil
}

// remove takes out a snapshot and reports whether it was the last one of its moment, so that something may have been kept for it
// alone. It need not be the oldest: a younger one too stands between a range tombstone and the tables that it deletes.
func (s *snapshots) remove(o *Snapshot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.open, o)
	s.open = slices.Delete(s.open, i, i+1)
	same := func(other *Snapshot) bool { return other.seq == o.seq }
	return !slices.ContainsFunc(s.open[max(0, i-1):min(i+1, len(s.open))], same) // they are in order
}
