package scheduler

import (
	"context"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/tree"
)

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
