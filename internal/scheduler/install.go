package scheduler

import (
	"errors"

	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Env returns what is needed to write tables for a level. Its snapshots are those open now, so the inputs must be
// fixed before the call. Readers see a new state before its filter plan is made, so Env waits for the plan.
func (s *Scheduler) Env(level int) compaction.Env {
	s.installMu.Lock()
	plan := s.Share.Plans().Now
	s.installMu.Unlock()
	step.At("flush: snapshots")
	env := s.Tables
	env.Codec, env.Filter = s.Codecs[level], plan.Levels[level].Params
	env.Recodes = s.Codecs[level] != s.Codecs[0]
	env.Snapshots = s.Tree.Pinned()
	env.Cuts = s.followCuts()
	return env
}

// followCuts returns where tables should end in the present tree, which Open has yet to make when it calls Env.
func (s *Scheduler) followCuts() [][]byte {
	now := s.Tree.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now != nil {
		s.cuts = s.Policy.Cuts(now.Version, s.cuts)
	}
	return s.cuts
}

// Every change of the tree follows one order (I13): the tables become durable, then their names, then the edit in the
// manifest. Then readers see the new state. Only after that may inputs and old logs be removed.

// install makes an edit and the tables it adds part of the tree, and counts the work. Tables that the edit moves from
// another level are already known. What filters of other tables lack after it is loaded by keepWarm: no flush and no
// compaction waits for their files. Until then Settled returns false; calls wait for it by WaitForFilters.
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
	s.setInstalling(1) // before readers see the new state
	defer s.setInstalling(-1)
	s.installMu.Lock()
	defer s.installMu.Unlock()
	old, now, uncertain, err := s.Tree.Install(e, fresh, c)
	if err != nil {
		return errors.Join(err, s.forget(fresh, !uncertain)) // if it is uncertain, the manifest may name them
	}
	s.mu.Lock()
	s.counts.add(work)
	s.mu.Unlock()
	step.At("install: plan")
	s.Share.Follow(old, now, fresh, e.Deleted)
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
			errs = append(errs, s.Tree.Remove(t.File.Path))
		}
	}
	return errors.Join(errs...)
}

// removeLoop removes dead tables until the last memtable is flushed, or the store has failed. A range delete or an
// import leaves thousands at a time, and on some disks each takes milliseconds: neither a flush nor a compaction may
// wait for them.
func (s *Scheduler) removeLoop() {
	for {
		end := false
		s.Tree.Await(func(v tree.View) bool {
			end = v.Failed != nil || v.Drained && v.Flushing.Mem == nil
			return end || v.Dead > 0
		})
		if end {
			return
		}
		_ = s.RemoveDead() // the next Open removes what could not be removed
	}
}

// RemoveDead removes the tables that no state names any more, and files that could not be removed before.
func (s *Scheduler) RemoveDead() error {
	s.Tree.RemoveLeft()
	var errs []error
	dead := s.Tree.TakeDead()
	step.At("dead: remove")
	for _, t := range dead {
		closeErr, err := s.Share.ReleaseTable(t), s.Tree.Remove(t.File.Path)
		if err == nil { // else RemoveLeft tries again
			s.Observer.Removed(int(t.Level.Load()), t.Meta)
		}
		errs = append(errs, closeErr, err)
	}
	if len(dead) > 0 {
		s.Share.Released()
		s.removals.Add(1)
		s.Tree.Wake() // work that was put off may have space
	}
	return errors.Join(errs...)
}

func sizeOf(tables []*manifest.Table) (size uint64) {
	for _, t := range tables {
		size += t.Size
	}
	return size
}

// Counts are figures of all work so far, in numbers and bytes.
type Counts struct {
	Flushes, FlushBytes                uint64
	Ingests, IngestBytes               uint64
	Compactions                        uint64 // that rewrote tables
	CompactedBytesRead, CompactedBytes uint64
	RewrittenBytes                     uint64 // part of CompactedBytes: tables rewritten alone
	Moves                              uint64 // tables that changed their level
}

func (c *Counts) add(d Counts) {
	c.Flushes += d.Flushes
	c.FlushBytes += d.FlushBytes
	c.Ingests += d.Ingests
	c.IngestBytes += d.IngestBytes
	c.Compactions += d.Compactions
	c.CompactedBytesRead += d.CompactedBytesRead
	c.CompactedBytes += d.CompactedBytes
	c.RewrittenBytes += d.RewrittenBytes
	c.Moves += d.Moves
}

// Counts returns the present figures.
func (s *Scheduler) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}
