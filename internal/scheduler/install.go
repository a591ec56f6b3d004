package scheduler

import (
	"context"
	"errors"
	"fmt"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Env returns what is needed to write tables for a level. Its snapshots are those open now, so the inputs must be
// fixed before the call. Readers see a new state before its filter plan is made, so Env waits for the plan.
func (s *Scheduler) Env(level int) compaction.Env {
	s.installMu.Lock()
	plan := s.Share.Plans().Now
	s.installMu.Unlock()
	env := s.Tables
	env.Codec, env.Filter = s.Codecs[level], plan.Levels[level].Params
	env.Recodes = s.Codecs[level] != s.Codecs[0]
	env.Snapshots = s.Tree.Pinned()
	return env
}

// Every change of the tree follows one order (I13): the tables become durable, then their names, then the edit in the
// manifest. Then readers see the new state. Only after that may inputs and old logs be removed.

// install makes an edit and the tables it adds part of the tree, and counts the work. Tables that the edit moves from
// another level are already known. When it returns, filters in memory follow the plan of the new tree. Until then,
// Settled returns false.
//
// After an error no file is left, unless the edit may be in the manifest: then the store has failed.
func (s *Scheduler) install(e *manifest.Edit, c tree.Change, work Counts) error {
	if len(e.Added) > 0 {
		if err := s.Tables.FS.SyncDir(s.Tables.Dir); err != nil {
			return s.Tree.Fail(err)
		}
	}
	fresh := s.Tree.Fresh(e)
	for _, t := range fresh {
		err := s.Share.LoadFresh(t) // it must be readable before anything depends on it (I27)
		if err == nil {
			err = s.Share.LoadParts(t)
		}
		if err != nil {
			return errors.Join(err, s.forget(fresh, true))
		}
	}
	if err := s.swap(e, fresh, c, work); err != nil {
		return err
	}
	s.Share.Restore(s.Tree.Life()) // reads files, which must not hold up the next change
	s.setInstalling(-1)
	return nil
}

// swap makes readers see an edit, counts the work, and makes the filter plan of the new tree. After an error it has
// called setInstalling(-1), which else the caller does.
func (s *Scheduler) swap(e *manifest.Edit, fresh []*tree.Table, c tree.Change, work Counts) error {
	s.installMu.Lock()
	defer s.installMu.Unlock()
	s.setInstalling(1) // before readers see the new state
	old, now, uncertain, err := s.Tree.Install(e, fresh, c)
	if err != nil {
		s.setInstalling(-1)
		return errors.Join(err, s.forget(fresh, !uncertain)) // if it is uncertain, the manifest may name them
	}
	s.mu.Lock()
	s.counts.add(work)
	s.mu.Unlock()
	s.Share.Follow(old, now, e.Deleted)
	return nil
}

func (s *Scheduler) setInstalling(more int) {
	s.mu.Lock()
	s.installing += more
	s.mu.Unlock()
	s.Tree.Wake()
}

// forget releases tables that are in no state. If remove is true, because nothing can name them, it removes their
// files.
func (s *Scheduler) forget(tables []*tree.Table, remove bool) error {
	var errs []error
	for _, t := range tables {
		errs = append(errs, s.Share.ReleaseTable(t))
		if remove {
			errs = append(errs, s.Tables.FS.Remove(t.File.Path))
		}
	}
	return errors.Join(errs...)
}

// RemoveDead removes the tables that no state names any more.
func (s *Scheduler) RemoveDead() error {
	var errs []error
	dead := s.Tree.TakeDead()
	for _, t := range dead {
		closeErr, err := s.Share.ReleaseTable(t), s.Tables.FS.Remove(t.File.Path)
		if err == nil {
			s.Observer.Removed(int(t.Level.Load()), t.Meta)
		}
		errs = append(errs, closeErr, err)
	}
	if len(dead) > 0 {
		s.Share.Released() // the loop of flushes does not wait for it
	}
	return errors.Join(errs...)
}

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
	return s.install(e, tree.Change{Seq: seq}, Counts{Ingests: 1, IngestBytes: sizeOf(tables)})
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

// Replace makes tables, which are in no state, all that the store contains. seq is above all sequence numbers in use,
// and at least that of the tables. mark becomes the mark of the store, even if it is empty. No memtable may have
// anything, and no writer may write, until Replace returns. It cancels a running compaction. After an error no file of
// the tables is left, unless the edit may be in the manifest: then the store has failed.
func (s *Scheduler) Replace(added []manifest.Added, seq ikey.Seq, mark []byte) error {
	defer s.pause()()
	e := &manifest.Edit{LastSeq: seq, Mark: batch.Mark{Seq: seq, Bytes: mark}, Added: added}
	for level, t := range s.Tree.Load().Version.Tables() {
		e.Deleted = append(e.Deleted, manifest.Deleted{Level: level, Number: t.Number})
	}
	return s.install(e, tree.Change{Seq: seq, Replace: true}, Counts{})
}

// pause cancels the compaction that runs, waits for its end, and lets none begin before resume is called. One caller at
// a time may pause: the writers are halted.
func (s *Scheduler) pause() (resume func()) {
	s.mu.Lock()
	s.endEra()
	s.mu.Unlock()
	s.Tree.Await(func(tree.View) bool { // the end of a compaction wakes the tree
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.running == nil
	})
	return func() {
		s.mu.Lock()
		s.era, s.endEra = context.WithCancel(s.Tree.Life())
		s.mu.Unlock()
		s.Tree.Wake()
	}
}

// Discard removes the files of tables that are in no state.
func (s *Scheduler) Discard(tables []*manifest.Table) error {
	var errs []error
	for _, t := range tables {
		errs = append(errs, s.Tables.FS.Remove(filename.Make(s.Tables.Dir, filename.Table, t.Number)))
	}
	return errors.Join(errs...)
}

func sizeOf(tables []*manifest.Table) (size uint64) {
	for _, t := range tables {
		size += t.Size
	}
	return size
}
