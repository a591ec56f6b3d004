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
	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/read"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/internal/tree"
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
	db := &DB{dir: dir, opts: opts, policy: opts.policy(), opened: time.Now()}
	db.report.log, db.report.to, db.report.dir = opts.Logger, opts.Events, dir
	db.pacer.rate = opts.CompactionRate
	db.ctx, db.stop = context.WithCancel(context.Background())
	domain := new(epoch.Domain)
	db.pool = opts.pool()
	config := tree.Config{
		FS: opts.FS, Dir: dir, Domain: domain, Files: db.pool.Files.NewDir(opts.FS, dir, domain), Blocks: db.pool.Blocks.NewCache(domain),
		Filters: opts.filters(), Observer: &db.report,
	}
	if opts.ReadOnly {
		config.ReadOnly = openedReadOnly(dir)
	}
	db.tree = tree.New(config)
	if db.share, err = db.pool.Join(budget.Config{
		Tree: db.tree, MemtableSize: opts.MemtableSize, Planner: opts.planner(), Plan: plan, Prefix: opts.FilterPrefix,
		Observer: &db.report,
	}); err == nil {
		if err = db.open(); err != nil {
			err = errors.Join(err, db.share.Leave(db.tree.End()))
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
		db.workers.Go(func() { db.tree.ReleaseStates(db.ctx.Done()) })
	}
	db.workers.Go(db.keepWarm)
	db.report.opened(uint64(db.lastSeq))
	return db, nil
}

// open locks, recovers and begins. After an error nothing stays open.
func (db *DB) open() (err error) {
	if db.opts.ReadOnly {
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
		err = errors.Join(err, db.tree.CloseManifest(nil), db.lock.Close())
	}()
	found, err := recovery.Survey(db.opts.FS, db.dir)
	if err != nil {
		return err
	}
	recorded, err := manifest.Load(db.opts.FS, db.dir)
	var replayed []*memtable.Table
	switch {
	case errors.Is(err, fs.ErrNotExist) && db.opts.ReadOnly: // gone since lockToRead looked
		err = noStore(found)
	case errors.Is(err, fs.ErrNotExist):
		err = db.create(found)
	case err == nil && db.opts.ErrorIfExists: // made since makeDir looked
		err = errExists
	case err == nil:
		db.seed = bloomblock.Seed(recorded.Seed)
		replayed, err = db.recover(found, recorded)
	}
	if err != nil {
		return err
	}
	db.read.Init(read.Config{
		Tree: db.tree, Tables: db.share, Seed: db.seed, Prefix: db.opts.FilterPrefix, Observer: &db.report,
		Naming: db.opts.Logger.Enabled(context.Background(), slog.LevelWarn),
	})
	s := db.tree.FirstState(replayed, db.opts.MemtableSize)
	if err := db.share.Replan(s); err != nil {
		return err
	}
	db.tree.Begin(s, db.lastSeq)
	if db.opts.ReadOnly {
		return nil
	}
	return db.removeOrphans(found)
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
	first := uint64(1)
	if m := found[filename.Manifest]; len(m) > 0 {
		first = m[len(m)-1] + 1
	}
	if db.seed = bloomblock.Seed(db.opts.FilterSeed); db.seed == 0 {
		db.seed = bloomblock.NewSeed()
	}
	return db.tree.Create(first, uint64(db.seed))
}

// removeOrphans removes what a crash left: files whose numbers the manifest knows to be out of use. What cannot be removed
// stays for the next time.
func (db *DB) removeOrphans(found recovery.Listing) error {
	recorded, s := db.tree.Recorded()
	db.tree.Release(s)
	orphans := found.Orphans(&recorded)
	if len(orphans) == 0 {
		return nil
	}
	number, err := db.tree.OwnManifest()
	if err != nil {
		return err
	}
	current := filename.Base(filename.Manifest, number) // it may have replaced an orphan of its number
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
