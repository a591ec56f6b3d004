package bloomkv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/memtable"
	"github.com/bloomkv/bloomkv/vfs"
)

// Open opens the store in dir, which it creates with the parents that it lacks unless told otherwise, and brings it to the state of the last
// acknowledged write, whatever ended the last use: of a log that a crash cut short the whole records count. nil options
// are right for most programs. With Options.ReadOnly nothing on the disk is changed. Other files in dir, which a program may
// keep there, are left alone.
//
// Errors name the directory, and the file and offset where there is one: ErrLocked while the store is open elsewhere,
// ErrCorruption for damage and for a directory with data but no manifest, ErrUnsupportedVersion for a newer format,
// ErrFilterRate and others for options, ErrNoRoom where shared Resources are in use up to their limit. After an error nothing
// that holds data was removed or changed.
func Open(dir string, options *Options) (*DB, error) {
	opts := options.withDefaults()
	if err := opts.check(); err != nil {
		return nil, fmt.Errorf("bloomkv: open %s: %w", dir, err)
	}
	plan, err := opts.planner().Plan(cmp.Or(opts.FilterFPR, filterplan.BestFPR))
	if err != nil {
		return nil, fmt.Errorf("bloomkv: open %s: %w", dir, err)
	}
	db := &DB{dir: dir, opts: opts, policy: opts.policy(), domain: new(epoch.Domain), retired: make(chan struct{}, 1), opened: time.Now(), samplingBits: samplingBits}
	db.filters = opts.filters()
	db.plans.Store(filterplan.One(plan))
	db.report.log, db.report.to, db.report.dir = opts.Logger, opts.Events, dir
	db.changed.L = &db.mu
	db.pacer.rate = opts.CompactionRate
	db.naming = opts.Logger.Enabled(context.Background(), slog.LevelWarn)
	db.ctx, db.stop = context.WithCancel(context.Background())
	if err = opts.resources().join(db); err == nil {
		if err = db.open(); err != nil {
			err = errors.Join(err, db.res.leave(db, db.state.Swap(nil)))
		}
	}
	if err != nil {
		db.stop()
		return nil, fmt.Errorf("bloomkv: open %s: %w", dir, err)
	}
	if !opts.ReadOnly {
		db.workers.Add(2)
		go db.flushLoop()
		go db.compactLoop()
		db.workers.Go(db.releaseLoop)
	}
	db.workers.Go(db.keepWarm)
	db.report.opened(uint64(db.lastSeq))
	return db, nil
}

// open locks, recovers and begins. After an error nothing stays open.
func (db *DB) open() (err error) {
	if db.opts.ReadOnly {
		db.failed = openedReadOnly(db.dir)
		db.lock, err = lockToRead(db.opts.FS, db.dir)
	} else if err = db.makeDir(); err == nil {
		db.lock, err = db.opts.FS.Lock(filepath.Join(db.dir, filename.LockName))
	}
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			return
		}
		if db.manifest != nil {
			err = errors.Join(err, db.manifest.Close())
		}
		err = errors.Join(err, db.lock.Close())
	}()
	found, err := recovery.Survey(db.opts.FS, db.dir)
	if err != nil {
		return err
	}
	db.recorded, err = manifest.Load(db.opts.FS, db.dir)
	var replayed []*memtable.Table
	switch {
	case errors.Is(err, fs.ErrNotExist) && db.opts.ReadOnly: // gone since lockToRead looked
		err = noStore(found)
	case errors.Is(err, fs.ErrNotExist):
		err = db.create(found)
	case err == nil && db.opts.ErrorIfExists: // made since makeDir looked
		err = errExists
	case err == nil:
		db.seed = bloomblock.Seed(db.recorded.Seed)
		replayed, err = db.recover(found)
	}
	if err != nil {
		return err
	}
	s := &state{mem: memtable.New(nil, 0, db.opts.MemtableSize), frozen: replayed}
	s.refs.Store(1)
	s.setVersion(db.recorded.Version, newTables(db))
	db.recorded.Counts = nil // from now on tables have theirs
	s.tables(func(_ int, t *table) { t.refs.Add(1) })
	if err := db.replan(s); err != nil {
		return err
	}
	db.state.Store(s)
	db.visible.Store(uint64(db.lastSeq))
	if db.opts.ReadOnly {
		return nil
	}
	return db.removeOrphans(found)
}

func newTables(db *DB) map[uint64]*table {
	tables := map[uint64]*table{}
	for _, meta := range db.recorded.Version.Tables() {
		t := newTable(meta, db.files, db.cache)
		t.restore(db.recorded.Counts[meta.Number])
		tables[meta.Number] = t
	}
	return tables
}

var (
	errMissing = fmt.Errorf("no store here: %w", fs.ErrNotExist)
	errExists  = fmt.Errorf("there is a store here: %w", fs.ErrExist)
)

// makeDir makes the directory of a new store, durably, and the parents that it lacks.
func (db *DB) makeDir() error {
	_, err := db.opts.FS.Stat(filepath.Join(db.dir, filename.CurrentName))
	switch {
	case err == nil && db.opts.ErrorIfExists:
		return errExists
	case err == nil || !errors.Is(err, fs.ErrNotExist):
		return err
	case db.opts.ErrorIfMissing:
		return errMissing
	}
	return vfs.MkdirAll(db.opts.FS, db.dir)
}

// create begins a store where there is none. A crash in an earlier attempt may have left a manifest without tables; what is
// lost is not touched.
func (db *DB) create(found recovery.Listing) error {
	if err := found.Lost(); err != nil {
		return err
	}
	db.next = 1
	if m := found[filename.Manifest]; len(m) > 0 {
		db.next = m[len(m)-1] + 1
	}
	if db.seed = bloomblock.Seed(db.opts.FilterSeed); db.seed == 0 {
		db.seed = bloomblock.NewSeed()
	}
	db.recorded = manifest.State{Version: &manifest.Version{}, Seed: uint64(db.seed)}
	return db.appendEdit(&manifest.Edit{}, db.recorded.Version)
}

// removeOrphans removes what a crash left: files whose numbers the manifest knows to be out of use. What cannot be removed
// stays for the next time.
//
// What the manifest says may not be durable yet, if a process died just before it synced an edit: the system has the edit,
// the disk may not, and the files of before it are all that a power cut would leave. So a new manifest goes first.
func (db *DB) removeOrphans(found recovery.Listing) error {
	orphans := found.Orphans(&db.recorded)
	if len(orphans) == 0 {
		return nil
	}
	if db.manifest == nil {
		if err := db.appendEdit(&manifest.Edit{}, db.recorded.Version); err != nil {
			return err
		}
	}
	current := filename.Base(filename.Manifest, db.recorded.ManifestNumber) // it may have replaced an orphan of its number
	for _, name := range orphans {
		if name == current {
			continue
		}
		if err := db.opts.FS.Remove(filepath.Join(db.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			db.report.orphanStays(name, err)
		}
	}
	return nil
}
