package tree

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/step"
)

// A Pin keeps the versions that a reader at its sequence sees: compactions do not drop them.
type Pin struct {
	Seq    ikey.Seq
	Mark   batch.Mark // the newest that a reader at Seq sees
	Opened time.Time
	Closed atomic.Bool
	// Kept is nil, or the last state before the whole tree was replaced, with a reference: the one to read at Seq. A
	// reader loads it after the current state, inside a guard.
	Kept atomic.Pointer[State]
}

// snapshots holds the open pins.
type snapshots struct {
	mu   step.Mutex
	open []*Pin // in the order of opening, so ascending by sequence
}

// Pin pins the newest sequence. The error is ErrClosed.
func (t *Tree) Pin() (*Pin, error) {
	if t.state.Load() == nil {
		return nil, ErrClosed
	}
	// An ingest publishes its sequence, and then the state, under mu. A snapshot taken between the two would show more
	// at its next use.
	t.mu.Lock()
	defer t.mu.Unlock()
	t.snapshots.mu.Lock()
	defer t.snapshots.mu.Unlock()
	// Read the sequence under the lock of the list: a compaction that read the list before has only versions that are
	// not newer than this pin, and keeps the newest of them.
	p := &Pin{Opened: time.Now()}
	p.Seq, p.Mark = t.markedSeq()
	step.At("snapshot: numbered")
	t.open = append(t.open, p)
	return p, nil
}

// Unpin drops a pin. The error of a second call is ErrClosed.
func (t *Tree) Unpin(p *Pin) error {
	if p.Closed.Swap(true) {
		return ErrClosed
	}
	// A pin keeps what a newer write hides, and tables have kept it once the newer write is in one.
	if t.snapshots.remove(p) && uint64(p.Seq) < t.inTables.Load() {
		t.Wake() // for a compaction that waits to drop what the pin kept
	}
	step.At("snapshot: closed")
	if s := p.Kept.Swap(nil); s != nil {
		t.retire(s)
	}
	return nil
}

// keep makes all pins keep s, which is about to be replaced by a state that does not have their versions (I43). mu is
// held.
func (t *Tree) keep(s *State) {
	t.snapshots.mu.Lock()
	defer t.snapshots.mu.Unlock()
	for _, p := range t.open {
		if p.Kept.Load() == nil {
			s.Hold()
			p.Kept.Store(s)
		}
	}
}

// Pinned returns the pinned sequences, ascending and each once, except those of pins with a state of their own.
func (s *snapshots) Pinned() []ikey.Seq {
	s.mu.Lock()
	defer s.mu.Unlock()
	var seqs []ikey.Seq
	for _, p := range s.open {
		if n := len(seqs); p.Kept.Load() == nil && (n == 0 || seqs[n-1] != p.Seq) {
			seqs = append(seqs, p.Seq)
		}
	}
	return seqs
}

// OldestPin returns the number of open pins, and the time when the oldest was opened.
func (s *snapshots) OldestPin() (count int, opened time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == 0 {
		return 0, time.Time{}
	}
	return len(s.open), s.open[0].Opened
}

// remove removes a pin and reports whether it was the last one at its sequence, so that data may have been kept for
// it alone. It need not be the oldest: a newer pin, too, may lie between a range tombstone and the tables that the
// tombstone deletes.
func (s *snapshots) remove(p *Pin) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.open, p)
	s.open = slices.Delete(s.open, i, i+1)
	same := func(other *Pin) bool { return other.Seq == p.Seq }
	return !slices.ContainsFunc(s.open[max(0, i-1):min(i+1, len(s.open))], same) // sorted by sequence
}
