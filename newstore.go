package bloomkv

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs"
)

// A newStore is a store that Checkpoint or Salvage builds in place. LOCK is created and held first, so that no one
// else creates a store there. CURRENT is created last, once everything it refers to is durable; until then there is
// no store.
//
//	enter (create | abandon)
type newStore struct {
	fs    vfs.FS
	dir   string
	outer string // directory of another store; dir must not be inside it

	made  bool      // enter created the directory
	lock  io.Closer // nil until it is held
	names []string  // files created in the directory, or perhaps created, other than LOCK
}

// makeDir creates a directory, unless it exists, and makes its name durable.
func makeDir(fsys vfs.FS, dir string) (made bool, err error) {
	err = fsys.Mkdir(dir)
	made = err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	// An existing directory may be the work of a process that died before it could sync the parent.
	err = fsys.SyncDir(filepath.Dir(filepath.Clean(dir)))
	if !made && errors.Is(err, fs.ErrPermission) {
		return false, nil // the parent belongs to someone else, who created the directory
	}
	return made, err
}

var (
	errNotEmpty = fmt.Errorf("not an empty directory: %w", fs.ErrExist)
	errInside   = errors.New("lies inside the directory of the store itself")
)

// enter creates the directory, or checks that it is empty, and locks it.
func (n *newStore) enter() (err error) {
	if n.made, err = makeDir(n.fs, n.dir); err != nil {
		return err
	}
	empty, err := n.holdsOnly("")
	if err != nil && !n.made { // not a directory
		return fmt.Errorf("%w: %w", errNotEmpty, err)
	}
	if err == nil && !empty {
		err = errNotEmpty
	}
	if err != nil {
		return err
	}
	inside, err := vfs.Inside(n.fs, n.dir, n.outer)
	if err == nil && inside {
		err = errInside
	}
	if err != nil {
		return err
	}
	if n.lock, err = n.fs.Lock(filepath.Join(n.dir, filename.LockName)); err != nil {
		return err
	}
	empty, err = n.holdsOnly(filename.LockName)
	if err == nil && !empty { // another process created a store before the lock was taken
		err = errors.Join(errNotEmpty, n.lock.Close())
		n.made, n.lock = false, nil // the files belong to the other process
	}
	return err
}

// holdsOnly reports whether the directory contains no file except the named one.
func (n *newStore) holdsOnly(name string) (bool, error) {
	names, err := n.fs.List(n.dir)
	return !slices.ContainsFunc(names, func(other string) bool { return other != name }), err
}

// create makes the directory a store, with the tables of s and no log, and releases the lock. It first makes the
// names of the tables durable, together with the manifest's, and creates CURRENT last. No existing file has the given
// number or a larger one.
func (n *newStore) create(number uint64, s manifest.State) error {
	made := []string{
		filename.Base(filename.Manifest, number), filename.Base(filename.Temp, number), filename.CurrentName,
	}
	n.names = append(n.names, made...)
	s.NextFile, s.MinLog = number+1, number
	m, err := manifest.Create(n.fs, n.dir, number, s)
	if err != nil {
		return err
	}
	if err := m.Close(); err != nil {
		return err
	}
	_ = n.lock.Close() // everything is in place and durable
	return nil
}

// abandon removes what enter and create made, CURRENT first.
func (n *newStore) abandon() error {
	var errs []error
	note := func(err error) {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for _, name := range slices.Backward(n.names) {
		note(n.fs.Remove(filepath.Join(n.dir, name)))
	}
	if n.lock != nil {
		// Remove LOCK while it is held, so that no other process locks a removed file. Some systems cannot remove an
		// open file: then remove it after closing.
		name := filepath.Join(n.dir, filename.LockName)
		err := n.fs.Remove(name)
		note(n.lock.Close())
		if err != nil {
			note(n.fs.Remove(name))
		}
	}
	switch {
	case n.made:
		note(n.fs.Remove(n.dir))
		note(n.fs.SyncDir(filepath.Dir(filepath.Clean(n.dir))))
	case n.lock != nil:
		note(n.fs.SyncDir(n.dir))
	}
	return errors.Join(errs...)
}
