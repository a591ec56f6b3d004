package tree

import (
	"cmp"
	"errors"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/step"
)

// NumbersAhead is the number of file numbers that each edit reserves. A file whose number the manifest does not cover
// can then only mean that the manifest was rolled back.
const NumbersAhead = 128

// Create begins a tree without tables. Its first file has the given number.
func (t *Tree) Create(first, seed uint64) error {
	t.next.Store(first)
	t.recorded = manifest.State{Version: &manifest.Version{}, Seed: seed}
	return t.appendEdit(&manifest.Edit{}, t.recorded.Version)
}

// Recover begins the tree recorded by a manifest. It touches no file.
func (t *Tree) Recover(s manifest.State) {
	t.recorded = s
	t.inTables.Store(uint64(s.LastSeq))
	t.next.Store(s.NextFile)
	t.reserved.Store(s.NextFile)
}

// FirstState returns the state of the recorded tree, for Begin, with recovered memtables, newest first, and a new one
// of the given size in bytes.
func (t *Tree) FirstState(recovered []*memtable.Table, memtableSize int64) *State {
	s := &State{Mem: memtable.NewIn(t.memory, nil, 0, memtableSize), Frozen: recovered}
	tables := make(map[uint64]*Table, t.recorded.Version.NumTables())
	for _, meta := range t.recorded.Version.Tables() {
		table := t.NewTable(meta)
		table.RestoreCounts(t.recorded.Counts[meta.Number])
		tables[meta.Number] = table
	}
	s.setVersion(t.recorded.Version, tables)
	t.recorded.Counts = nil // from now on the tables hold the counts
	return s
}

// RecoverMark sets the mark that recovery has found, if there is one, and makes it durable, unless the tree takes no
// writes.
func (t *Tree) RecoverMark(m batch.Mark) error {
	if m.Seq == 0 {
		return nil
	}
	t.SetMark(m)
	var err error
	if t.Writable() == nil {
		_, err = t.OwnManifest()
	}
	return err
}

// Begin makes s the first state, and all writes up to seq visible.
func (t *Tree) Begin(s *State, seq ikey.Seq) {
	t.set(s)
	t.Publish(seq)
	t.editMu.Lock()
	defer t.editMu.Unlock()
	t.noteDurable()
}

// Recorded returns the recorded state of the manifest, and the state of the same tree, with a reference; the latter
// is nil before Begin and after End.
func (t *Tree) Recorded() (manifest.State, *State) {
	t.editMu.Lock()
	defer t.editMu.Unlock()
	return t.recorded, t.Hold()
}

// CheckNumbers returns an error if the file numbers are exhausted, so that no write may begin. What was written before
// still gets numbers: flushes, compactions and recovery use those above manifest.MaxFile.
func (t *Tree) CheckNumbers() error { return manifest.CheckFile(t.next.Load()) }

// NewNumber returns a file number that was never used before.
func (t *Tree) NewNumber() (uint64, error) {
	for {
		if n := t.next.Load(); n >= t.reserved.Load() {
			if err := t.Record(&manifest.Edit{}); err != nil {
				return 0, err
			}
		} else if t.next.CompareAndSwap(n, n+1) {
			return n, nil
		}
	}
}

// Record durably records an edit in the manifest, but does not change the state. An error makes the tree read-only,
// unless the edit does not fit the recorded version.
func (t *Tree) Record(e *manifest.Edit) error {
	t.editMu.Lock()
	defer t.editMu.Unlock()
	v, err := t.recorded.Version.Apply(e)
	if err != nil {
		return err
	}
	return t.appendEdit(e, v)
}

// RecordLog records that a log must exist, and be intact up to where it is durable, unless its memtable was flushed
// meanwhile. Its name is durable, and at least its first record.
func (t *Tree) RecordLog(mark manifest.LogMark) error {
	t.editMu.Lock()
	defer t.editMu.Unlock()
	if mark.Number < t.recorded.MinLog {
		return nil
	}
	return t.appendEdit(&manifest.Edit{Log: &mark}, t.recorded.Version)
}

// SetActive makes l the log that takes writes.
func (t *Tree) SetActive(l Log) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active = l
}

// appendEdit records an edit that turns the recorded version into v. An error makes the tree read-only: it is unknown
// whether the edit is on the disk, so neither its inputs nor its outputs may be removed. editMu is held.
func (t *Tree) appendEdit(e *manifest.Edit, v *manifest.Version) error {
	if failed := t.View().Failed; failed != nil {
		return failed
	}
	e.NextFile = t.next.Load() + NumbersAhead
	if err := t.CheckLock(); err != nil {
		return err
	}
	if r := t.recorded.Filters; r == nil || *r != t.Filters {
		e.Filters = &t.Filters
	}
	next := t.recorded
	next.Version = v
	if err := cmp.Or(next.Note(e), v.CheckRuns()); err != nil { // else the manifest could not be read again
		return t.Fail(err)
	}
	err := manifest.ErrTooLarge // for the manifest that there is; a snapshot is not limited by the size of a record
	if t.manifest != nil && !t.manifest.Full() {
		err = t.manifest.Append(e)
	}
	if errors.Is(err, manifest.ErrTooLarge) {
		err = t.newManifest(&next, t.state.Load())
	}
	if err != nil {
		return t.Fail(err)
	}
	t.recorded = next
	t.inTables.Store(uint64(next.LastSeq))
	t.noteDurable()
	t.reserved.Store(next.NextFile)
	return nil
}

// newManifest begins a manifest with a snapshot of s and removes the previous one. The snapshot has the counts of the
// tables of counted, or, if that is nil, as in Open, the counts of s. editMu is held.
func (t *Tree) newManifest(s *manifest.State, counted *State) error {
	number := t.next.Add(1) - 1 // may be above the reserved numbers: the snapshot itself reserves it
	s.NextFile = max(s.NextFile, number+1+NumbersAhead)
	old := s.ManifestNumber
	snapshot := *s
	if counted != nil {
		snapshot.Counts = counted.counts()
	}
	m, err := manifest.Create(t.FS, t.Dir, number, snapshot)
	if err != nil {
		return err
	}
	s.ManifestNumber = number
	if t.manifest != nil {
		err = t.manifest.Close()
	}
	t.manifest = m
	if old != 0 {
		_ = t.Remove(filename.Make(t.Dir, filename.Manifest, old)) // if it fails, RemoveLeft or the next Open does it
	}
	return err
}

// RenewManifest replaces the manifest, if there is one, by a new one with the counts of the tables of counted.
func (t *Tree) RenewManifest(counted *State) error {
	t.editMu.Lock()
	defer t.editMu.Unlock()
	if t.manifest == nil {
		return nil
	}
	next := t.recorded
	err := t.newManifest(&next, counted)
	if err == nil {
		t.recorded = next
		t.noteDurable()
	}
	return err
}

// OwnManifest makes sure that the manifest was begun by this use of the store, and returns its number.
//
// Edits written by an earlier use may not be durable, if its process died just before it synced them: the system has
// the edit, but the disk may not, and a power cut would leave only the files from before the edit. Therefore no file
// may be removed before OwnManifest returns.
func (t *Tree) OwnManifest() (number uint64, err error) {
	t.editMu.Lock()
	defer t.editMu.Unlock()
	if t.manifest == nil {
		err = t.appendEdit(&manifest.Edit{}, t.recorded.Version)
	}
	return t.recorded.ManifestNumber, err
}

// ManifestSpace returns how many bytes a new manifest would have, and how many the one in use needs for its next edits
// beyond the last block of its file.
func (t *Tree) ManifestSpace() (snapshot, tail int64) {
	const block, edits = 4 << 10, 1 << 10
	t.editMu.Lock()
	defer t.editMu.Unlock()
	if t.measured != t.recorded.Version { // encoding many tables takes longer than a write
		t.measured = t.recorded.Version
		t.measuredBytes = int64(len(manifest.AppendEdit(nil, t.recorded.Snapshot())))
	}
	snapshot = (t.measuredBytes + batch.MaxMark) * 5 / 4 // with any mark, and the counts of tables
	if t.manifest != nil && -t.manifest.Size()&(block-1) < edits {
		tail = block
	}
	return snapshot, tail
}

// CloseManifest closes the manifest, if there is one, after all work has ended. last is the last state, nil if Open
// failed.
//
// Recovery takes an incomplete edit at the end of a manifest for the result of a crash and ignores it, and cannot
// notice that complete edits were cut off. Therefore Close leaves a manifest with a snapshot alone, without all of
// which it is invalid, so that damage to a closed store is not mistaken for a crash (I9). The snapshot has the counts
// of the tables of the last state. A store that was only read is left as it is, and forgets its counts: they do not
// justify a write to the disk.
func (t *Tree) CloseManifest(last *State) (err error) {
	if last != nil && t.View().Failed == nil {
		err = t.RenewManifest(last)
	}
	t.editMu.Lock()
	defer t.editMu.Unlock()
	t.recorded.Version, t.measured = &manifest.Version{}, nil // a closed store keeps no list of its tables
	if t.manifest == nil {
		return err
	}
	return errors.Join(err, t.manifest.Close())
}

// Fresh returns new tables for those that an edit adds and does not move from another level. They are in no state
// yet.
func (t *Tree) Fresh(e *manifest.Edit) []*Table {
	moved := map[uint64]bool{}
	for _, d := range e.Deleted {
		moved[d.Number] = true
	}
	var fresh []*Table
	for _, a := range e.Added {
		if moved[a.Table.Number] {
			continue
		}
		table := t.NewTable(a.Table)
		table.Level.Store(int32(a.Level)) //nolint:gosec // below NumLevels
		fresh = append(fresh, table)
	}
	return fresh
}

// A Change is what an edit changes in addition to the tables.
type Change struct {
	Flushed bool     // the frozen memtable is in the tables
	Seq     ikey.Seq // if not 0, the sequence of ingested tables, which becomes visible with them
	Replace bool     // the added tables replace all others: open pins keep the state before
}

// Install records an edit and adds its tables to the tree: fresh ones, which Fresh returned and which are durable,
// with their names, and those that it moves from another level. It returns the states before and after. If uncertain
// is true, the edit may be recorded although there is an error, so the manifest may name the fresh tables.
func (t *Tree) Install(e *manifest.Edit, fresh []*Table, c Change) (old, now *State, uncertain bool, err error) {
	t.editMu.Lock()
	defer t.editMu.Unlock()
	v, err := t.recorded.Version.Apply(e)
	if err != nil {
		return nil, nil, false, err
	}
	if err := t.appendEdit(e, v); err != nil {
		return nil, nil, true, err
	}
	byNumber := make(map[uint64]*Table, len(fresh))
	for _, table := range fresh {
		byNumber[table.Meta.Number] = table
	}
	step.At("tree: recorded")
	old = t.state.Load()
	t.swap(func(s *State) {
		s.setVersion(v, byNumber)
		if c.Replace {
			t.keep(old)
		}
		if c.Flushed {
			s.Frozen, t.flushing = nil, Frozen{}
		}
		if c.Seq > 0 {
			s.Ingests++
			// Publish before the new state can be loaded: a compaction that finds the tables finds them visible. A
			// reader with the old state sees none of them, as if it had come earlier.
			t.Publish(c.Seq)
		}
	}, func() {
		// Unlike that of a batch, the mark of an ingest is set after its sequence is published: its data is visible
		// only with the new state. A pin waits for both.
		if c.Seq > 0 && e.Mark.Seq > 0 {
			t.SetMark(e.Mark)
		}
	})
	t.noteDurable() // also the mark of an ingest, which is visible now
	return old, t.state.Load(), false, nil
}

// Freeze makes the memtable wait for a flush, and begins a new one of the given size in bytes. log is the log of its
// writes, or nil, last its newest sequence, and mark the newest of its marks, if it has one. No goroutine may write
// meanwhile, and no other memtable may wait for a flush.
func (t *Tree) Freeze(log Log, last ikey.Seq, mark batch.Mark, memtableSize int64) {
	mem := t.state.Load().Mem
	mem.Freeze()
	next := memtable.NewIn(t.memory, mem.CommonPrefix(), mem.Keys(), memtableSize)
	t.swap(func(s *State) {
		s.Mem = next
		s.Freezes++
		s.Frozen = []*memtable.Table{mem}
		t.flushing, t.active = Frozen{mem, log, last, mark}, nil
	}, nil)
}

// noteDurable records that the mark of the manifest is durable, unless it is not visible yet or the manifest is that of
// an earlier use, which may not be durable: see OwnManifest. editMu is held.
func (t *Tree) noteDurable() {
	if m := t.recorded.Mark; t.manifest != nil && m.Seq > 0 && m.Seq <= ikey.Seq(t.visible.Load()) {
		t.raiseDurable(&m)
	}
}
