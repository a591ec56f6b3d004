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
	"github.com/bloomkv/bloomkv/internal/commit"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/read"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

// Open opens the store in dir. Unless options forbid it, Open creates a missing store, and missing parent
// directories. Open brings the store to the state of the last acknowledged write, however the last use ended: if a
// crash truncated a log, its complete records are replayed. nil options are right for most programs. With
// Options.ReadOnly, nothing on the disk is changed. A program may keep other files in dir; Open leaves them alone.
//
// Errors name the directory, and the file and offset if there is one. They match ErrLocked while the store is open
// elsewhere, ErrCorruption for damage and for a directory with data but no manifest, ErrUnsupportedVersion for a
// newer format, ErrFilterRate if the filters can't reach what the options ask for, and ErrNoRoom if the memtables of
// one more store do not fit the shared Resources; other invalid options are errors too. If Open fails, no file with
// data has been removed or changed.
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
	domain := new(epoch.Domain)
	db.pool = opts.pool()
	config := tree.Config{
		FS: opts.FS, Dir: dir, Domain: domain, Filters: opts.filters(), Observer: &db.report,
		Files: db.pool.Files.NewDir(opts.FS, dir, domain), Blocks: db.pool.Blocks.NewCache(domain),
	}
	if opts.ReadOnly {
		config.ReadOnly = openedReadOnly(dir)
	}
	db.tree = tree.New(config)
	if db.share, err = db.pool.Join(budget.Config{
		Tree: db.tree, MemtableSize: opts.MemtableSize, Planner: opts.planner(), Plan: plan, Prefix: opts.FilterPrefix.rule,
		Observer: &db.report,
	}); err == nil {
		if err = db.open(); err != nil {
			err = errors.Join(err, db.share.Leave(db.tree.End()))
		}
	}
	if err != nil {
		_, _ = db.tree.Close() // ends its context
		return nil, fmt.Errorf("bloomkv: open %s: %w", dir, err)
	}
	if !opts.ReadOnly {
		db.workers.Add(2)
		go db.flushLoop()
		go db.compactLoop()
		db.workers.Go(db.tree.ReleaseStates)
	}
	db.workers.Go(db.keepWarm)
	db.report.opened(uint64(db.tree.NewestSeq()))
	return db, nil
}

// open locks the directory, recovers the store and begins its tree. After an error nothing stays open.
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
	var last ikey.Seq
	switch {
	case errors.Is(err, fs.ErrNotExist) && db.opts.ReadOnly: // gone since lockToRead looked
		err = noStore(found)
	case errors.Is(err, fs.ErrNotExist):
		err = db.create(found)
	case err == nil && db.opts.ErrorIfExists: // made since makeDir looked
		err = errExists
	case err == nil:
		db.seed = bloomblock.Seed(recorded.Seed)
		replayed, last, err = db.recover(found, recorded)
	}
	if err != nil {
		return err
	}
	db.read.Init(read.Config{
		Tree: db.tree, Tables: db.share, Seed: db.seed, Prefix: db.opts.FilterPrefix.rule, Observer: &db.report,
		Naming: db.opts.Logger.Enabled(context.Background(), slog.LevelWarn),
	})
	s := db.tree.FirstState(replayed, db.opts.MemtableSize)
	if err := db.share.Replan(s); err != nil {
		return err
	}
	db.writer.Init(commit.Config{
		FS: db.opts.FS, Dir: db.dir, Tree: db.tree, Policy: db.policy, MemtableSize: db.opts.MemtableSize,
		Seed: db.seed, Values: &db.read, Records: &db.read.DeadKeys, Observer: &db.report,
	}, last)
	db.tree.Begin(s, last)
	if db.opts.ReadOnly {
		return nil
	}
	return db.removeOrphans(found)
}

var (
	errMissing = fmt.Errorf("no store here: %w", fs.ErrNotExist)
	errExists  = fmt.Errorf("there is a store here: %w", fs.ErrExist)
)

// makeDir creates the directory of a new store, durably, and missing parents.
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

// create begins a new store. An earlier attempt that crashed may have left a manifest without tables. create fails if
// there are files of a store that lost its manifest, and leaves them alone.
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

// removeOrphans removes what a crash left: files whose numbers are out of use according to the manifest. Files that
// cannot be removed stay until the next Open.
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
