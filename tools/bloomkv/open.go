package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/vfs"
)

// openToRead opens an existing store without changing it.
func openToRead(ctx context.Context, dir string) (*bloomkv.DB, error) {
	return new(writeFlags).open(ctx, dir, bloomkv.Options{ReadOnly: true})
}

// with runs body on a store and closes it, even if body fails.
func with(db *bloomkv.DB, err error, body func(db *bloomkv.DB) error) error {
	if err != nil {
		return err
	}
	return errors.Join(body(db), db.Close())
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir()
}

// fromEither returns what read returns of the file with a name, or what of returns of the store with that name. For a
// file with something else the error ends with what is wanted.
func fromEither[T any](
	ctx context.Context, name, want string, read func(io.Reader) (T, error), of func(*bloomkv.DB) (T, error),
) (got T, err error) {
	if !isFile(name) {
		db, err := openToRead(ctx, name)
		err = with(db, err, func(db *bloomkv.DB) (err error) {
			got, err = of(db)
			return err
		})
		if err != nil {
			err = otherStoreError{err, name}
		}
		return got, err
	}
	f, err := cli.Open(ctx, name)
	if err != nil {
		return got, cli.PathError(name, err)
	}
	defer func() { _ = f.Close() }() // only read
	got, err = read(cli.UntilDone(ctx, f))
	switch {
	case ctx.Err() != nil:
		err = cli.PathError(name, ctx.Err())
	case err != nil:
		//nolint:errorlint // not %w: the advice for corruption is to salvage the store
		err = fmt.Errorf("%s: %v; %s", name, err, want)
	}
	return got, err
}

// create opens a store, creating it if necessary, and runs body on it. If body fails, a store that was created is
// removed, unless body returns keep.
func (w *writeFlags) create(
	ctx context.Context, dir string, o bloomkv.Options, body func(db *bloomkv.DB, isNew bool) (keep bool, err error),
) error {
	s, err := look(dir)
	if err != nil {
		return err
	}
	if s.isNew {
		o.FS = siteFS{cmp.Or(o.FS, vfs.OS), &s}
	}
	keep := false
	db, err := w.open(ctx, dir, o)
	err = with(db, err, func(db *bloomkv.DB) (err error) {
		keep, err = body(db, s.isNew)
		return err
	})
	if err != nil && s.isNew && !keep {
		err = errors.Join(err, s.remove())
	}
	return errors.Join(err, s.leave())
}

// storeDir returns an error if dir cannot be the directory of a store. A directory that does not exist can.
func storeDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s: part of the path is a file, want a directory", dir)
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is a file, not a store", dir)
	default:
		return err
	}
}

// A site describes a directory before a store is created in it.
type site struct {
	dir     string
	isNew   bool     // there is no store yet
	names   []string // of the files in the directory
	missing []string // directories that do not exist, the innermost first
	lock    vfs.Lock // of the store, kept until leave; nil while it is not taken
	hadLock bool     // the file of the lock was there before that
}

// look describes a directory. It fails if there is no store but there are other files: the directory is probably the
// wrong one. The library has no such rule, because a program may keep its own files there.
func look(dir string) (site, error) {
	s := site{dir: filepath.Clean(dir)}
	if err := storeDir(dir); err != nil {
		return s, err
	}
	var err error
	if s.names, err = vfs.OS.List(s.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	s.isNew = !slices.Contains(s.names, filename.CurrentName)
	for dir := s.dir; err != nil; dir = filepath.Dir(dir) {
		if _, err = os.Lstat(dir); err != nil {
			s.missing = append(s.missing, dir)
		}
	}
	if !s.isNew {
		return s, nil
	}
	if found := recovery.List(s.names); len(found[filename.Table])+len(found[filename.Log]) > 0 {
		return s, nil // Open describes data without CURRENT
	}
	if i := slices.IndexFunc(s.names, isForeign); i >= 0 {
		return s, fmt.Errorf("%s is not a store and holds other files, such as %s; want a new or empty directory", dir,
			words.Escaped([]byte(s.names[i]), 64))
	}
	return s, nil
}

// isForeign reports whether a name does not belong to a store. An empty file system has a lost+found.
func isForeign(name string) bool {
	kind, _ := filename.Parse(name)
	return kind == filename.Unknown && name != "lost+found"
}

// enter notes that the lock of the store was taken, and looks again: another process may have created a store
// meanwhile.
func (s *site) enter(lock vfs.Lock) error {
	s.lock, s.hadLock = lock, slices.Contains(s.names, filename.LockName)
	names, err := vfs.OS.List(s.dir)
	if err == nil {
		s.names, s.isNew = names, !slices.Contains(names, filename.CurrentName)
	}
	return err
}

// leave releases the lock of the store, if it was taken.
func (s *site) leave() error {
	if s.lock == nil {
		return nil
	}
	lock := s.lock
	s.lock = nil
	return lock.Close()
}

// A siteFS is a file system in which the lock of a new store stays taken when the store is closed, so that no other
// process can write to the store before it is removed.
type siteFS struct {
	vfs.FS
	site *site
}

// Lock takes the lock of the store for its site.
func (f siteFS) Lock(name string) (vfs.Lock, error) {
	lock, err := f.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	return keptLock{lock}, f.site.enter(lock)
}

// FreeSpace implements vfs.FreeSpacer.
func (f siteFS) FreeSpace(dir string) (uint64, error) {
	if fsys, ok := f.FS.(vfs.FreeSpacer); ok {
		return fsys.FreeSpace(dir)
	}
	return 0, errors.ErrUnsupported
}

// Hold implements vfs.Holder.
func (f siteFS) Hold(dir string) (vfs.HeldFS, error) {
	held, err := vfs.Hold(f.FS, dir)
	if err != nil {
		return nil, err
	}
	return heldSite{siteFS{held, f.site}, held}, nil
}

// A heldSite is a siteFS that holds the directory of the store.
type heldSite struct {
	siteFS
	io.Closer
}

// A keptLock is released by its site.
type keptLock struct{ vfs.Lock }

func (keptLock) Close() error { return nil }

// remove removes the files of the store that were created since its lock was taken, and the lock. If the lock was never
// taken, no file was created.
func (s *site) remove() error {
	if s.lock == nil {
		return s.removeDirs()
	}
	names, err := vfs.OS.List(s.dir)
	errs := []error{err}
	note := func(err error) {
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for _, name := range names {
		if kind, _ := filename.Parse(name); kind != filename.Unknown && kind != filename.Lock &&
			!slices.Contains(s.names, name) {
			note(os.Remove(filepath.Join(s.dir, name)))
		}
	}
	// some systems do not remove open files
	lockName := filepath.Join(s.dir, filename.LockName)
	removed := s.hadLock || os.Remove(lockName) == nil
	note(s.leave())
	if !removed {
		note(os.Remove(lockName))
	}
	return errors.Join(append(errs, s.removeDirs())...)
}

// removeDirs removes the directories that were created, as far as they are empty.
func (s *site) removeDirs() error {
	for _, dir := range s.missing {
		err := os.Remove(dir)
		if names, listErr := vfs.OS.List(dir); listErr == nil && len(names) > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
