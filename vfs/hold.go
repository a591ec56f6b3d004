package vfs

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
)

// A Holder is an [FS] that can hold directories. [OS] is one.
type Holder interface {
	// Hold returns an FS with the same files, for which dir, and each name in it, is in the directory that dir is now,
	// wherever that is moved, and whatever gets its name later. dir must exist. The other names, and what the FS held
	// before, stay as they are. Close ends it: then names in dir are refused with an error matching fs.ErrClosed.
	//
	// Windows does not move a directory in which a file is open. In js/wasm the system can hold no directory: there a
	// name is looked up, from the working directory of the call of Hold.
	Hold(dir string) (HeldFS, error)
}

// A HeldFS is an [FS] that holds a directory.
type HeldFS interface {
	FS
	io.Closer
}

// Hold holds a directory, if the FS can: see [Holder]. Otherwise it returns an FS whose names mean what they always do.
func Hold(fsys FS, dir string) (HeldFS, error) {
	if h, ok := fsys.(Holder); ok {
		return h.Hold(dir)
	}
	return unheld{fsys}, nil
}

// unheld is an FS that holds nothing.
type unheld struct{ FS }

func (unheld) Close() error { return nil }

// Inside implements Inside.
func (u unheld) Inside(dir, outer string) (bool, error) { return Inside(u.FS, dir, outer) }

// FreeSpace implements [FreeSpacer.FreeSpace].
func (u unheld) FreeSpace(dir string) (uint64, error) { return freeSpaceIn(u.FS, dir) }

// Inside reports whether dir is the directory outer or lies below it. Both must exist. For [OS] symbolic links are
// followed and directories are compared, not names. An [FS] of another package that has a method like this function,
// without the first parameter, is asked; for others only the names are compared, and a relative one begins at the root.
func Inside(fsys FS, dir, outer string) (bool, error) {
	if f, ok := fsys.(interface {
		Inside(dir, outer string) (bool, error)
	}); ok {
		return f.Inside(dir, outer)
	}
	root := string(filepath.Separator)
	rel, err := filepath.Rel(filepath.Join(root, outer), filepath.Join(root, dir))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+root), nil
}

// Guard returns an FS in which the names in dir, a directory that fsys holds, can only be changed while a lock is held
// by its name: otherwise another process may have taken it, and the error is that of [Lock.Check].
func Guard(fsys HeldFS, dir string, lock Lock) HeldFS {
	return guarded{fsys, filepath.Clean(dir), lock}
}

type guarded struct {
	HeldFS
	dir  string
	lock Lock
}

// check checks the lock before one of the names is changed.
func (g guarded) check(names ...string) error {
	for _, name := range names {
		if filepath.Dir(filepath.Clean(name)) == g.dir {
			return g.lock.Check()
		}
	}
	return nil
}

func (g guarded) Create(name string) (File, error) {
	if err := g.check(name); err != nil {
		return nil, err
	}
	return g.HeldFS.Create(name)
}

func (g guarded) Mkdir(name string) error {
	if err := g.check(name); err != nil {
		return err
	}
	return g.HeldFS.Mkdir(name)
}

func (g guarded) Remove(name string) error {
	if err := g.check(name); err != nil {
		return err
	}
	return g.HeldFS.Remove(name)
}

func (g guarded) Rename(oldname, newname string) error {
	if err := g.check(oldname, newname); err != nil {
		return err
	}
	return g.HeldFS.Rename(oldname, newname)
}

func (g guarded) Link(oldname, newname string) error {
	if err := g.check(newname); err != nil {
		return err
	}
	return g.HeldFS.Link(oldname, newname)
}

// Hold implements [Holder.Hold]: the result guards the names in dir too.
func (g guarded) Hold(dir string) (HeldFS, error) {
	held, err := Hold(g.HeldFS, dir)
	if err != nil {
		return nil, err
	}
	return guarded{held, g.dir, g.lock}, nil
}

// FreeSpace implements [FreeSpacer.FreeSpace].
func (g guarded) FreeSpace(dir string) (uint64, error) { return freeSpaceIn(g.HeldFS, dir) }

// Inside implements Inside.
func (g guarded) Inside(dir, outer string) (bool, error) { return Inside(g.HeldFS, dir, outer) }

func freeSpaceIn(fsys FS, dir string) (uint64, error) {
	if f, ok := fsys.(FreeSpacer); ok {
		return f.FreeSpace(dir)
	}
	return 0, errors.ErrUnsupported
}
