package scheduler

import (
	"context"
	"errors"
	"fmt"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Ingest makes tables, which are in no state, the newest run of the store, under the sequence number seq, which is
// above all others in use. If mark is not nil, it becomes the mark of the store with them. No memtable may have
// anything, and no writer may write, until Ingest returns. After an error no file is left, unless the edit may be in
// the manifest: then the store has failed.
func (s *Scheduler) Ingest(tables []*manifest.Table, seq ikey.Seq, mark []byte) error {
	if err := s.distinct(tables); err != nil {
		return errors.Join(err, s.Discard(tables))
	}
	run, err := s.Tree.NewNumber() // higher than those of all earlier flushes
	if err != nil {
		return errors.Join(err, s.Discard(tables))
	}
	e := &manifest.Edit{LastSeq: seq}
	if mark != nil {
		e.Mark = batch.Mark{Seq: seq, Bytes: mark}
	}
	for _, t := range tables {
		t.Flags |= manifest.SeqOverridden
		t.MinSeq, t.MaxSeq = seq, seq
		e.Added = append(e.Added, manifest.Added{Level: 0, Run: run, Table: t})
	}
	if err := s.leavesSpace(e); err != nil {
		return errors.Join(err, s.Discard(tables))
	}
	return s.install(e, tree.Change{Seq: seq}, Counts{Ingests: 1, IngestBytes: sizeOf(tables)})
}

// Replace makes tables, which are in no state, all that the store contains. seq is above all sequence numbers in use,
// and at least that of the tables. mark becomes the mark of the store, even if it is empty. No memtable may have
// anything, and no writer may write, until Replace returns. It cancels running compactions. After an error no file of
// the tables is left, unless the edit may be in the manifest: then the store has failed.
func (s *Scheduler) Replace(added []manifest.Added, seq ikey.Seq, mark []byte) error {
	defer s.pause()()
	e := &manifest.Edit{LastSeq: seq, Mark: batch.Mark{Seq: seq, Bytes: mark}, Added: added}
	for level, t := range s.Tree.Load().Version.Tables() {
		e.Deleted = append(e.Deleted, manifest.Deleted{Level: level, Number: t.Number})
	}
	if err := s.leavesSpace(e); err != nil {
		tables := make([]*manifest.Table, len(added))
		for i, a := range added {
			tables[i] = a.Table
		}
		return errors.Join(err, s.Discard(tables))
	}
	return s.install(e, tree.Change{Seq: seq, Replace: true}, Counts{})
}

// leavesSpace returns an error matching vfs.ErrNoSpace if the new tables of an edit, which are on the disk, have taken
// what the edit and later writes need: then no range delete could empty the store, and it might not open again (I22).
func (s *Scheduler) leavesSpace(e *manifest.Edit) error {
	snapshot, _ := s.Tree.ManifestSpace()
	need := uint64(snapshot) + uint64(len(manifest.AppendEdit(nil, e))) //nolint:gosec // lengths
	return (&limiter{s: s}).take(need)
}

// pause cancels the compactions that run, waits for their end, and lets none begin before resume is called. One caller
// at a time may pause: the writers are halted.
func (s *Scheduler) pause() (resume func()) {
	s.mu.Lock()
	s.endEra()
	s.mu.Unlock()
	s.Tree.Await(func(tree.View) bool { // the end of a compaction wakes the tree
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.running) == 0
	})
	step.At("compaction: paused")
	return func() {
		s.mu.Lock()
		s.era, s.endEra = context.WithCancel(s.Tree.Life())
		s.mu.Unlock()
		s.Tree.Wake()
	}
}

// ErrSameTable means that a table to be ingested is in the store already.
var ErrSameTable = errors.New("the store has this table already")

// distinct checks that no two tables, of the store or among those given, have the same id: ids tell tables apart. No
// other tables may be ingested meanwhile.
func (s *Scheduler) distinct(tables []*manifest.Table) error {
	ids := make(map[uint64]uint64, len(tables))
	for _, t := range tables {
		if _, twice := ids[t.ID]; twice {
			return fmt.Errorf("%w: two tables have the id %016x", ErrSameTable, t.ID)
		}
		ids[t.ID] = t.Number
	}
	for _, t := range s.Tree.Load().Version.Tables() {
		if _, there := ids[t.ID]; there {
			return fmt.Errorf("%w: %s has the id %016x", ErrSameTable, filename.Base(filename.Table, t.Number), t.ID)
		}
	}
	return nil
}

// Discard removes the files of tables that are in no state.
func (s *Scheduler) Discard(tables []*manifest.Table) error {
	var errs []error
	for _, t := range tables {
		errs = append(errs, s.Tree.Remove(filename.Make(s.Tables.Dir, filename.Table, t.Number)))
	}
	return errors.Join(errs...)
}
