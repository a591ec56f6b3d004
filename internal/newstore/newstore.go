// Package newstore builds a store in a new directory, in place: from the tables of another one, or from tables that the
// caller writes.
package newstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Store is a store that is being built. LOCK is created and held first, so that no one else creates a store there.
// CURRENT is created last, once everything it refers to is durable; until then there is no store.
//
//	New Enter (Create | Abandon)
type Store struct {
	fs    vfs.FS
	dir   string
	outer string // directory of another store, or empty; dir must not be inside it

	made  bool       // Enter created the directory
	held  vfs.HeldFS // fs; nil until Enter
	lock  io.Closer  // nil until it is held
	names []string   // files created in the directory, or perhaps created, other than LOCK
}

// New returns a store to be built in dir, which must not be inside outer, unless that is empty.
func New(fsys vfs.FS, dir, outer string) *Store {
	if dir != "" {
		dir = filepath.Clean(dir) // as filepath.Join does, so that all names are in the same directory
	}
	return &Store{fs: fsys, dir: dir, outer: outer}
}

// FS returns the file system of the store. After Enter it holds the directory, until Create or Abandon.
func (n *Store) FS() vfs.FS { return n.fs }

// Dir returns the directory.
func (n *Store) Dir() string { return n.dir }

// Add records that the caller has created a table, or perhaps created it, so that Abandon removes it.
func (n *Store) Add(table uint64) { n.names = append(n.names, filename.Base(filename.Table, table)) }

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

// ErrInside is the error for a directory inside that of the other store.
var ErrInside = errors.New("lies inside the directory of the store itself")

// errNotEmpty matches fs.ErrExist.
var errNotEmpty error = notEmptyError{}

type notEmptyError struct{}

func (notEmptyError) Error() string        { return "not an empty directory" }
func (notEmptyError) Is(target error) bool { return target == fs.ErrExist }

// Enter creates the directory, or checks that it is empty, and locks it.
func (n *Store) Enter() (err error) {
	if n.made, err = makeDir(n.fs, n.dir); err != nil {
		return err
	}
	if n.held, err = vfs.Hold(n.fs, n.dir); err != nil {
		if !n.made { // not a directory
			err = fmt.Errorf("%w: %w", errNotEmpty, err)
		}
		return err
	}
	n.fs = n.held
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
	if n.outer != "" {
		inside, err := vfs.Inside(n.fs, n.dir, n.outer)
		if err == nil && inside {
			err = ErrInside
		}
		if err != nil {
			return err
		}
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

// holdsOnly reports whether the directory contains no file except the named one, and the lost+found of a file system
// whose root it is.
func (n *Store) holdsOnly(name string) (bool, error) {
	names, err := n.fs.List(n.dir)
	return !slices.ContainsFunc(names, func(other string) bool { return other != name && other != "lost+found" }), err
}

// Create makes the directory a store, with the tables of s and no log, and releases the lock. It first makes the
// names of the tables durable, together with the manifest's, and creates CURRENT last. No existing file has the given
// number or a larger one.
func (n *Store) Create(number uint64, s manifest.State) error {
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
	_ = errors.Join(n.lock.Close(), n.held.Close()) // everything is in place and durable
	return nil
}

// Abandon removes what Enter, Create and the caller made, CURRENT first.
func (n *Store) Abandon() error {
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
	if n.held != nil {
		note(n.held.Close())
	}
	return errors.Join(errs...)
}

// Copy makes the directory a copy of the outer store as recorded. It links the tables, or copies those that cannot be
// linked, and returns the number of these. They must stay on the disk meanwhile. Enter must have returned nil.
func (n *Store) Copy(ctx context.Context, recorded manifest.State) (copied int, err error) {
	for _, t := range recorded.Version.Tables() {
		n.Add(t.Number)
		name := filename.Base(filename.Table, t.Number)
		isCopy, err := LinkOrCopy(ctx, n.fs, filepath.Join(n.outer, name), filepath.Join(n.dir, name), t.Size)
		if err != nil {
			return copied, err
		}
		if isCopy {
			copied++
		}
	}
	if err := ctx.Err(); err != nil {
		return copied, err
	}
	return copied, n.Create(recorded.NextFile, manifest.State{
		Version: recorded.Version, LastSeq: recorded.LastSeq, Seed: recorded.Seed, Filters: recorded.Filters,
		Mark: recorded.Mark,
	})
}

// LinkOrCopy gives a file of the given size in bytes a second name, or copies it where that is not possible; from may
// then be on another file system. The contents of a copy are durable when it returns, the name is not yet. After an
// error there may be a file with the new name.
func LinkOrCopy(ctx context.Context, fsys vfs.FS, from, to string, size uint64) (copied bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err = fsys.Link(from, to); errors.Is(err, errors.ErrUnsupported) {
		return true, copyFile(ctx, fsys, from, to, size)
	}
	return false, err
}

func copyFile(ctx context.Context, fsys vfs.FS, from, to string, size uint64) (err error) {
	in, err := fsys.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := fsys.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	const chunk = 1 << 20
	buf := make([]byte, min(size, chunk))
	for at := uint64(0); at < size; at += uint64(len(buf)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		buf = buf[:min(size-at, chunk)]
		read, err := in.ReadAt(buf, int64(at))
		if read < len(buf) {
			if errors.Is(err, io.EOF) {
				err = corrupt.Newf(from, int64(at)+int64(read), "the file ends here, want %d bytes", size)
			}
			return err
		}
		if _, err := out.Write(buf); err != nil {
			return err
		}
	}
	return out.Sync()
}
