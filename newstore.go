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

// A newStore is a store that is being built in place, by Checkpoint or Salvage. CURRENT comes last, when all that it
// leads to is durable, so that until then there is no store; and LOCK first, held, so that nobody else makes one
// there.
//
//	enter (create | abandon)
type newStore struct {
	fs    vfs.FS
	dir   string
	outer string // the directory of another store, in which dir must not lie

	made  bool      // the directory was
	lock  io.Closer // nil until it is held
	names []string  // what was made in the directory, or may have been, other than LOCK
}

// makeDir makes a directory unless it is there, and makes its name durable.
func makeDir(fsys vfs.FS, dir string) (made bool, err error) {
	err = fsys.Mkdir(dir)
	made = err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	// A directory that is there may have been made by a process that died before it could sync the parent.
	err = fsys.SyncDir(filepath.Dir(filepath.Clean(dir)))
	if !made && errors.Is(err, fs.ErrPermission) {
		return false, nil // a parent that may not be opened is somebody else's, who made the directory
	}
	return made, err
}

var (
	errNotEmpty = fmt.Errorf("not an empty directory: %w", fs.ErrExist)
	errInside   = errors.New("lies inside the directory of the store itself")
)

// enter makes the directory, or makes sure that it is empty, and locks it.
func (n *newStore) enter() (err error) {
	if n.made, err = makeDir(n.fs, n.dir); err != nil {
		return err
	}
	empty, err := n.holdsOnly("")
	if err != nil && !n.made { // it is no directory
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
	if err == nil && !empty { // somebody made a store before it was locked
		err = errors.Join(errNotEmpty, n.lock.Close())
		n.made, n.lock = false, nil // what is there is the other's
	}
	return err
}

// holdsOnly reports whether the directory holds nothing but that name.
func (n *newStore) holdsOnly(name string) (bool, error) {
	names, err := n.fs.List(n.dir)
	return !slices.ContainsFunc(names, func(other string) bool { return other != name }), err
}

// create makes a store of the directory, with the tables of s and no log, and releases the lock. Its first step is to
// make the names of the tables durable, with the manifest's own, and its last one CURRENT. No file has the number, or
// a larger one.
func (n *newStore) create(number uint64, s manifest.State) error {
	made := []string{filename.Base(filename.Manifest, number), filename.Base(filename.Temp, number), filename.CurrentName}
	n.names = append(n.names, made...)
	s.NextFile, s.MinLog = number+1, number
	m, err := manifest.Create(n.fs, n.dir, number, s)
	if err != nil {
		return err
	}
	if err := m.Close(); err != nil {
		return err
	}
	_ = n.lock.Close() // all is there and durable
	return nil
}

// abandon removes what was made, CURRENT first.
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
		// While it is locked, so that nobody else locks what is removed; some systems remove no open file.
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
