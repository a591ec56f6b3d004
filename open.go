package bloomkv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/memtable"
	"github.com/bloomkv/bloomkv/vfs"
)

// Open opens the store in dir, which it creates unless told otherwise, and brings it to the state of the last
// acknowledged write, whatever ended the last use: of a log that a crash cut short the whole records count. nil options
// are right for most programs.
//
// Errors name the directory, and the file and offset where there is one: ErrLocked while the store is open elsewhere,
// ErrCorruption for damage and for a directory with data but no manifest, ErrUnsupportedVersion for a newer format,
// ErrFilterRate and others for options. After an error nothing that holds data was removed or changed.
func Open(dir string, options *Options) (*DB, error) {
	opts := options.withDefaults()
	if err := opts.check(); err != nil {
		return nil, fmt.Errorf("bloomkv: open %s: %w", dir, err)
	}
	plan, err := planFilters(opts.FilterFPR, opts.LevelRatio)
	if err != nil {
		return nil, fmt.Errorf("bloomkv: open %s: %w", dir, err)
	}
	db := &DB{dir: dir, opts: opts, plan: plan, domain: new(epoch.Domain)}
	db.changed.L = &db.mu
	db.ctx, db.stop = context.WithCancel(context.Background())
	db.budget.total = opts.MemoryBudget - 2*opts.MemtableSize
	db.cache = cache.New(db.budget.total, db.domain)
	db.files = &descriptors{fs: opts.FS, dir: dir, domain: db.domain, limit: opts.MaxOpenFiles}
	if err := db.open(); err != nil {
		db.stop()
		return nil, fmt.Errorf("bloomkv: open %s: %w", dir, err)
	}
	db.workers.Add(2)
	go db.flushLoop()
	go db.compactLoop()
	db.workers.Go(db.warmUp)
	opts.Logger.Info("opened", slog.String("dir", dir), slog.Uint64("sequence", uint64(db.lastSeq)))
	return db, nil
}

// open locks, recovers and begins. After an error nothing stays open.
func (db *DB) open() (err error) {
	if err := db.makeDir(); err != nil {
		return err
	}
	if db.lock, err = db.opts.FS.Lock(filepath.Join(db.dir, filename.LockName)); err != nil {
		return err
	}
	defer func() {
		if err == nil {
			return
		}
		if db.manifest != nil {
			err = errors.Join(err, db.manifest.Close())
		}
		err = errors.Join(err, db.files.close(), db.lock.Close())
	}()
	found, err := survey(db.opts.FS, db.dir)
	if err != nil {
		return err
	}
	db.recorded, err = manifest.Load(db.opts.FS, db.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = db.create(found)
	case err == nil:
		err = db.recover(found)
	}
	if err != nil {
		return err
	}
	s := &state{mem: memtable.New(nil, 0)}
	s.refs.Store(1)
	s.setVersion(db.recorded.Version, newTables(db))
	s.tables(func(_ int, t *table) { t.refs.Add(1) })
	db.state.Store(s)
	db.visible.Store(uint64(db.lastSeq))
	return db.removeOrphans(found)
}

func newTables(db *DB) map[uint64]*table {
	tables := map[uint64]*table{}
	for _, meta := range db.recorded.Version.Tables() {
		tables[meta.Number] = newTable(meta, db.files, db.cache)
	}
	return tables
}

// makeDir makes the directory of a new store, durably.
func (db *DB) makeDir() error {
	_, err := db.opts.FS.Stat(filepath.Join(db.dir, filename.CurrentName))
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if db.opts.ErrorIfMissing {
		return fmt.Errorf("no store here: %w", fs.ErrNotExist)
	}
	err = db.opts.FS.Mkdir(db.dir)
	exists := errors.Is(err, fs.ErrExist)
	if err != nil && !exists {
		return err
	}
	// A directory that is there may have been made by a process that died before it could sync the parent.
	err = db.opts.FS.SyncDir(filepath.Dir(filepath.Clean(db.dir)))
	if exists && errors.Is(err, fs.ErrPermission) {
		return nil // a parent that may not be opened is somebody else's, who made the directory
	}
	return err
}

// A listing is the files of a store's directory by kind, numbers ascending. Unknown names are left alone.
type listing map[filename.Kind][]uint64

func survey(fsys vfs.FS, dir string) (listing, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	found := listing{}
	for _, name := range names {
		if kind, number := filename.Parse(name); kind != filename.Unknown {
			found[kind] = append(found[kind], number)
		}
	}
	for _, numbers := range found {
		slices.Sort(numbers)
	}
	return found, nil
}

// logsFrom is the logs that the manifest still needs: those numbered first or higher.
func (l listing) logsFrom(first uint64) []uint64 {
	i, _ := slices.BinarySearch(l[filename.Log], first)
	return l[filename.Log][i:]
}

// create begins a store where there is none. A crash in an earlier attempt may have left a manifest without tables; tables
// or logs without a CURRENT are data whose manifest is lost, and are not touched.
func (db *DB) create(found listing) error {
	for _, kind := range []filename.Kind{filename.Table, filename.Log} {
		if n := found[kind]; len(n) > 0 {
			return corrupt.Newf(filename.CurrentName, 0, "missing, but there is data (%s); the store needs repair", filename.Base(kind, n[0]))
		}
	}
	db.next = 1
	if m := found[filename.Manifest]; len(m) > 0 {
		db.next = m[len(m)-1] + 1
	}
	db.recorded = manifest.State{Version: &manifest.Version{}}
	return db.appendEdit(&manifest.Edit{}, db.recorded.Version)
}

// removeOrphans removes what a crash left: files whose numbers the manifest knows to be out of use. What cannot be removed
// stays for the next time.
//
// What the manifest says may not be durable yet, if a process died just before it synced an edit: the system has the edit,
// the disk may not, and the files of before it are all that a power cut would leave. So a new manifest goes first.
func (db *DB) removeOrphans(found listing) error {
	live := map[uint64]bool{}
	for _, t := range db.recorded.Version.Tables() {
		live[t.Number] = true
	}
	var orphans []string
	for kind, numbers := range found {
		for _, n := range numbers {
			gone := false
			switch kind {
			case filename.Table:
				gone = !live[n]
			case filename.Log:
				gone = n < db.recorded.MinLog
			case filename.Manifest:
				gone = n != db.recorded.ManifestNumber
			case filename.Temp:
				gone = true
			case filename.Unknown, filename.Current, filename.Lock:
			}
			if gone {
				orphans = append(orphans, filename.Base(kind, n))
			}
		}
	}
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
			db.opts.Logger.Warn("an orphan stays", slog.String("file", name), slog.Any("error", err))
		}
	}
	return nil
}
