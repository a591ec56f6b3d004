package replica

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"github.com/bloomkv/bloomkv"
)

// joinedBytes bounds the batches that are applied together, and the commands that are joined.
const joinedBytes = 1 << 20

// fsm applies commands to the store. raft calls it from one goroutine.
//
// The applied index is the fsm's own: that of raft counts what was handed over. It is the index of the last command,
// since no-ops, barriers and configurations never get here; so it may stay below the commit index for ever.
type fsm struct {
	node    *Node
	db      *bloomkv.DB
	applied progress // the last command that the store has
	seen    progress // the last entry that raft handed over and that is applied: a command or a configuration
}

var _ raft.BatchingFSM = (*fsm)(nil)

// newFSM returns the fsm of the node's store, which has the index of the store's mark.
func newFSM(n *Node) (*fsm, error) {
	f := &fsm{node: n, db: n.db}
	index, err := storeIndex(n.db)
	f.applied.raise(index)
	return f, err
}

// storeIndex returns the index of the last command that a store has.
func storeIndex(db *bloomkv.DB) (uint64, error) {
	m, err := db.Mark()
	switch {
	case err != nil:
		return 0, err
	case len(m) == 8:
		return indexOf(m), nil
	case len(m) != 0:
		return 0, fmt.Errorf("%w: the store has a mark of %d bytes, want 8", ErrOldStore, len(m))
	}
	for _, err := range db.Scan(bloomkv.IterOptions{}) {
		if err != nil {
			return 0, err
		}
		return 0, fmt.Errorf("%w: the store has keys and no mark", ErrOldStore)
	}
	return 0, nil
}

// Apply applies one command: see ApplyBatch.
func (f *fsm) Apply(l *raft.Log) any { return f.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch applies commands, joined into few batches, and returns an error or nil for each. Those that the store has
// already, as after a restart or an import, are skipped. A command that is no batch is an error for its caller alone,
// the same on all nodes.
func (f *fsm) ApplyBatch(logs []*raft.Log) []any {
	results := make([]any, len(logs))
	var joined, one bloomkv.Batch
	from, last := 0, f.applied.load()
	flush := func(to int) {
		if err := f.write(&joined, last); err != nil {
			for i := from; i < to; i++ {
				results[i] = fmt.Errorf("%w: %w", ErrUnknown, err) // the other nodes have it
			}
		}
		joined.Reset()
		from = to
	}
	for i, l := range logs {
		if l.Type != raft.LogCommand || l.Index <= last {
			continue
		}
		if err := one.UnmarshalBinary(l.Data); err != nil {
			results[i] = fmt.Errorf("command %d: %w", l.Index, err)
			continue
		}
		if joined.Size()+one.Size() > joinedBytes && joined.Len() > 0 {
			flush(i)
		}
		joined.Append(&one)
		last = l.Index
	}
	flush(len(logs))
	if n := len(logs); n > 0 && f.node.over() == nil {
		f.seen.raise(logs[n-1].Index)
	}
	return results
}

// write applies a batch and sets the mark to index.
func (f *fsm) write(b *bloomkv.Batch, index uint64) error {
	if err := f.node.over(); err != nil {
		return err
	}
	if b.Len() == 0 {
		return nil
	}
	b.SetMark(mark(index))
	if err := f.db.Apply(b); err != nil {
		f.node.end(err)
		return err
	}
	f.applied.raise(index)
	return nil
}

// Snapshot returns what stands for the store as of now: its index.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	return snapshot{f.db, f.applied.load()}, f.node.over()
}

// snapshot stands for the store up to an index. raft may truncate its log up to there once Persist returned.
type snapshot struct {
	db      *bloomkv.DB
	applied uint64
}

// Persist makes the store durable up to the snapshot's index and records that. The index that raft has for the snapshot
// may be larger: it counts entries that never reach the fsm.
func (s snapshot) Persist(to raft.SnapshotSink) error {
	err := s.db.Sync()
	if err == nil && s.applied > 0 {
		var m []byte
		if m, err = s.db.DurableMark(); err == nil && indexOf(m) < s.applied {
			err = fmt.Errorf("index %d is durable, want %d", indexOf(m), s.applied)
		}
	}
	sink, ok := to.(*sinkOf)
	if !ok {
		return fmt.Errorf("sink of type %T", to)
	}
	if err == nil {
		sink.durable = true
		_, err = to.Write(encodeRecord(s.applied))
	}
	if err != nil {
		return errors.Join(err, to.Cancel())
	}
	return to.Close()
}

func (snapshot) Release() {}

// Restore makes the store have at least what a snapshot of another node stands for, by fetching tables. Then the
// snapshot becomes this node's, and raft deletes its log. So Restore refuses a snapshot after which the log goes on.
func (f *fsm) Restore(from io.ReadCloser) error {
	r, err := readRecord(from)
	if err != nil {
		return err
	}
	s := f.node.snapshots.offered()
	if goesOn, err := f.node.logGoesOn(s.Index, s.Term); goesOn || err != nil {
		return errors.Join(err, fmt.Errorf("the log goes on after entry %d of the snapshot", s.Index))
	}
	if f.applied.load() < r.applied {
		ctx, cancel := f.node.untilEnd()
		defer cancel()
		if err := f.node.fetch(ctx, r.applied, f.node.sources()); err != nil {
			return err
		}
	} else if err := f.db.Sync(); err != nil {
		f.node.end(err)
		return err
	}
	return f.node.snapshots.commit()
}

// logGoesOn reports whether the log has the entry that is the last of a snapshot, and entries after it. Such a snapshot
// has nothing for the node: its message was repeated, or took long. The group may count on the entries after it, and
// raft would delete them. A log without the entry has others in its place, which were never committed.
func (n *Node) logGoesOn(index, term uint64) (bool, error) {
	if last, err := n.log.LastIndex(); err != nil || last <= index {
		return false, err
	}
	var entry raft.Log
	err := n.log.GetLog(index, &entry)
	if errors.Is(err, raft.ErrLogNotFound) { // the log begins after it, and after no other snapshot than the own
		own := n.snapshots.latest()
		return own.Index == index && own.Term == term, nil
	}
	return err == nil && entry.Term == term, err
}
