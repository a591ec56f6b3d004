package bloomkv

import (
	"errors"
	"slices"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

// Every change of the tree takes the same way: the tables are durable, then their names, then the edit in the manifest;
// only then is the new state what readers see, and only after that may inputs and old logs go.

// numbersAhead is how many file numbers each edit reserves, so that a file whose number the manifest does not cover can
// only mean that the manifest was rolled back.
const numbersAhead = 128

// newNumber is a file number that was never used before.
func (db *DB) newNumber() (uint64, error) {
	db.mu.Lock()
	if db.next < db.reserved {
		db.next++
		n := db.next - 1
		db.mu.Unlock()
		return n, nil
	}
	db.mu.Unlock()
	db.editMu.Lock()
	err := db.appendEdit(&manifest.Edit{}, db.recorded.Version)
	db.editMu.Unlock()
	if err != nil {
		return 0, err
	}
	return db.newNumber()
}

// fileNumbers gives compactions and flushes the store's file numbers.
type fileNumbers struct{ db *DB }

// NewNumber returns a file number that was never used before.
func (n fileNumbers) NewNumber() (uint64, error) { return n.db.newNumber() }

// minManifest is the least size in bytes at which a new manifest begins with a snapshot; a large snapshot may double.
const minManifest = 4 << 20

// appendEdit records an edit, whose outcome is v. An error makes the store read-only: whether the edit is on the disk is
// unknown, so that neither its inputs nor its outputs may be removed. editMu is held.
func (db *DB) appendEdit(e *manifest.Edit, v *manifest.Version) error {
	db.mu.Lock()
	failed := db.failed
	e.NextFile = db.next + numbersAhead
	db.mu.Unlock()
	if failed != nil {
		return failed
	}
	if r := db.recorded.Filters; r == nil || *r != db.filters {
		e.Filters = &db.filters
	}
	next := db.recorded
	next.Version = v
	if err := next.Note(e); err != nil {
		return db.fail(err)
	}
	var err error
	if db.manifest == nil || db.manifest.Size() > max(minManifest, 2*db.snapshot) {
		err = db.newManifest(&next, db.state.Load())
	} else {
		err = db.manifest.Append(e)
	}
	if err != nil {
		return db.fail(err)
	}
	db.recorded = next
	db.mu.Lock()
	db.reserved = next.NextFile
	db.mu.Unlock()
	return nil
}

// newManifest begins a manifest with a snapshot and removes the one before. The snapshot has what the tables of a state have
// counted; without a state, in Open, what s says of them.
func (db *DB) newManifest(s *manifest.State, counted *state) error {
	db.mu.Lock()
	number := db.next // may lie beyond what is reserved: the snapshot itself reserves it
	db.next++
	s.NextFile = max(s.NextFile, db.next+numbersAhead)
	db.mu.Unlock()
	old := s.ManifestNumber
	snapshot := *s
	if counted != nil {
		snapshot.Counts = counted.counts()
	}
	m, err := manifest.Create(db.opts.FS, db.dir, number, snapshot)
	if err != nil {
		return err
	}
	s.ManifestNumber = number
	if db.manifest != nil {
		err = db.manifest.Close()
	}
	db.manifest, db.snapshot = m, m.Size()
	if old != 0 {
		_ = db.opts.FS.Remove(filename.Make(db.dir, filename.Manifest, old)) // else the next Open does
	}
	return err
}

// install makes an edit and the tables it adds part of the tree; those it takes from another level are known. change
// adjusts the rest of the new state, under mu. When it returns, filters are in memory as the plan of the new tree has them, as far
// as there is room; who has seen the new state before can wait for that by editMu.
func (db *DB) install(e *manifest.Edit, change func(*state)) error {
	moved := map[uint64]bool{}
	for _, d := range e.Deleted {
		moved[d.Number] = true
	}
	if len(e.Added) > 0 {
		if err := db.opts.FS.SyncDir(db.dir); err != nil {
			return db.fail(err)
		}
	}
	fresh := map[uint64]*table{}
	for _, a := range e.Added {
		if !moved[a.Table.Number] {
			fresh[a.Table.Number] = newTable(a.Table, db.files, db.cache)
			fresh[a.Table.Number].level.Store(int32(a.Level)) //nolint:gosec // below NumLevels
		}
	}
	for _, t := range fresh {
		if err := db.load(t); err != nil { // it must be readable before anything relies on it
			return errors.Join(err, db.forget(fresh, true))
		}
	}
	db.editMu.Lock()
	defer db.editMu.Unlock()
	v, err := db.recorded.Version.Apply(e)
	if err != nil {
		return errors.Join(err, db.forget(fresh, true))
	}
	if err := db.appendEdit(e, v); err != nil {
		return errors.Join(err, db.forget(fresh, false)) // the edit may be on the disk, and name them
	}
	replaced := db.state.Load()
	db.swap(func(s *state) {
		s.setVersion(v, fresh)
		change(s)
	})
	s := db.state.Load()
	db.dropReplaced(replaced, s, e.Deleted)
	_ = db.replan(s) // where too many keys came, tables go without a filter
	s.tables(func(_ int, t *table) {
		if moved[t.meta.Number] {
			db.trim(t)
		}
	})
	db.res.rebalance() // of the tables that stay: until now those of the old state stood for them
	db.restore()
	return nil
}

// dropReplaced drops the filters of tables that an edit took out of the tree, so that they need no room beside those that take their
// place. Who still reads the old state searches these tables as if their filters said maybe.
func (db *DB) dropReplaced(old, now *state, deleted []manifest.Deleted) {
	gone := map[uint64]bool{}
	for _, d := range deleted {
		gone[d.Number] = true
	}
	now.tables(func(_ int, t *table) { delete(gone, t.meta.Number) })
	if len(gone) == 0 {
		return
	}
	old.tables(func(_ int, t *table) {
		if gone[t.meta.Number] {
			t.loading.Lock()
			t.kept.Store(0)
			t.reader.Shed(0, false)
			db.res.count(db, t)
			t.loading.Unlock()
		}
	})
}

// forget lets go of tables that are in no state, and removes their files where nothing can name them.
func (db *DB) forget(tables map[uint64]*table, remove bool) error {
	var errs []error
	for _, t := range tables {
		errs = append(errs, db.releaseTable(t))
		if remove {
			errs = append(errs, db.opts.FS.Remove(t.file.Path))
		}
	}
	return errors.Join(errs...)
}

// setVersion makes v, which follows on the version of s, that of the state. Runs and tables that s has are taken over, other tables
// come from fresh.
func (s *state) setVersion(v *manifest.Version, fresh map[uint64]*table) {
	var runs []*run
	var old map[uint64]*table // of s, by number; made where a run has some of them
	for l := range v.Levels {
		for _, r := range v.Levels[l] {
			if i := slices.IndexFunc(s.runs, func(o *run) bool { return o.is(l, r) }); i >= 0 {
				runs = append(runs, s.runs[i])
				continue
			}
			tables := make([]*table, len(r.Tables))
			for i, meta := range r.Tables {
				t, isFresh := fresh[meta.Number]
				if !isFresh {
					if old == nil {
						old = make(map[uint64]*table, len(r.Tables))
						s.tables(func(_ int, t *table) { old[t.meta.Number] = t })
					}
					t = old[meta.Number]
				}
				t.level.Store(int32(l))
				tables[i] = t
			}
			runs = append(runs, newRun(l, r.ID, tables))
			runs[len(runs)-1].of = r.Tables
		}
	}
	s.version, s.runs = v, runs
}

// removeDead removes the tables that no state names any more.
func (db *DB) removeDead() error {
	db.mu.Lock()
	dead := db.dead
	db.dead = nil
	db.mu.Unlock()
	var errs []error
	for _, t := range dead {
		closeErr, err := db.releaseTable(t), db.opts.FS.Remove(t.file.Path)
		if err == nil {
			db.report.removed(db.report.infoOf(int(t.level.Load()), t.meta))
		}
		errs = append(errs, closeErr, err)
	}
	if len(dead) > 0 {
		db.res.offer()
	}
	return errors.Join(errs...)
}

// closeFiles ends the log and the manifest, for Close. commitMu is held and the workers have ended.
//
// An edit at the end of a manifest that is not whole is one that a crash cut short, and does not count; nor can it be told
// that edits were cut off as a whole. So that no damage to a store that was closed passes for a crash, it is left with a
// manifest of one record, the snapshot, without which it is no manifest. It has what the tables of the last state have
// counted. A store that was only read is left as it is, and forgets what it has counted: that is worth no write to a disk.
func (db *DB) closeFiles(s *state) error {
	db.editMu.Lock()
	defer db.editMu.Unlock()
	var errs []error
	if db.log != nil {
		errs = append(errs, db.log.w.Close())
	}
	if db.manifest != nil {
		db.mu.Lock()
		failed := db.failed
		db.mu.Unlock()
		if failed == nil {
			last := db.recorded
			errs = append(errs, db.newManifest(&last, s))
		}
		errs = append(errs, db.manifest.Close())
	}
	return errors.Join(errs...)
}
