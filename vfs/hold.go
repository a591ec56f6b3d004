package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
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

// A heldDir is a directory that an osFS holds: a store stays where it was locked (I40).
type heldDir struct {
	name  string // as filepath.Clean returns it
	root  *os.Root
	dir   *os.File // the same directory
	other *heldDir // held before, or nil
}

// Hold implements [Holder.Hold].
func (o osFS) Hold(dir string) (HeldFS, error) {
	h := &heldDir{name: filepath.Clean(dir), other: o.held}
	var err error
	if root, base := o.find(dir); root != nil {
		h.root, err = root.root.OpenRoot(base)
	} else {
		h.root, err = os.OpenRoot(lasting(dir))
	}
	if err != nil {
		return nil, named(err, dir)
	}
	if h.dir, err = h.root.Open("."); err != nil {
		return nil, errors.Join(named(err, dir), h.root.Close())
	}
	return osFS{h}, nil
}

// lasting returns a name of a directory for os.OpenRoot. Where the system holds no directories, so that os.Root looks
// names up, a change of the working directory must not change what a name means.
func lasting(dir string) string {
	if runtime.GOOS == "js" {
		if path, err := filepath.Abs(dir); err == nil {
			return path
		}
	}
	return dir
}

// Close releases the directory that was held last.
func (o osFS) Close() error {
	if o.held == nil {
		return nil
	}
	return errors.Join(o.held.dir.Close(), o.held.root.Close())
}

// find returns the held directory that contains a name, or has that name, and the name inside the directory. It returns
// nil if no held directory does.
func (o osFS) find(name string) (h *heldDir, base string) {
	for h := o.held; h != nil; h = h.other {
		if base, ok := h.base(name); ok {
			return h, base
		}
	}
	return nil, ""
}

// base returns the name inside the directory.
func (h *heldDir) base(name string) (base string, ok bool) {
	if name = filepath.Clean(name); name == h.name {
		return ".", true
	}
	if h.name == "." { // names without a directory are in it
		return name, filepath.IsLocal(name)
	}
	dir := h.name
	if !os.IsPathSeparator(dir[len(dir)-1]) { // only that of a root ends with it
		dir += string(filepath.Separator)
	}
	return strings.CutPrefix(name, dir)
}

// named returns an error of an operation in a held directory with the name that the caller knows.
func named(err error, name string) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: strings.TrimSuffix(p.Op, "at"), Path: name, Err: p.Err}
	}
	return err
}

// namedBoth does the same for an operation on two names.
func namedBoth(op string, err error, oldname, newname string) error {
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return &os.LinkError{Op: op, Old: oldname, New: newname, Err: l.Err}
	}
	return err
}

// openFile does what os.OpenFile does. A new file gets the mode of modeIn.
func (o osFS) openFile(name string, flag int) (*os.File, error) {
	mode := fs.FileMode(0)
	if flag&os.O_CREATE != 0 {
		mode = o.modeIn(name, fileMode)
	}
	h, base := o.find(name)
	if h == nil {
		return os.OpenFile(name, flag, mode)
	}
	f, err := h.root.OpenFile(base, flag, mode)
	return f, named(err, name)
}

// lstat does what os.Lstat does.
func (o osFS) lstat(name string) (os.FileInfo, error) {
	h, base := o.find(name)
	if h == nil {
		return os.Lstat(name)
	}
	info, err := h.root.Lstat(base)
	return info, named(err, name)
}

// stat does what os.Stat does.
func (o osFS) stat(name string) (os.FileInfo, error) {
	h, base := o.find(name)
	if h == nil {
		return os.Stat(name)
	}
	info, err := h.root.Stat(base)
	return info, named(err, name)
}

// heldNoFollow returns an error if a file that was opened in a held directory is not what its name means: os.Root
// follows a symbolic link that stays in the directory.
func (o osFS) heldNoFollow(name string, opened os.FileInfo) error {
	if h, _ := o.find(name); h == nil {
		return nil
	}
	info, err := o.lstat(name)
	if err == nil && !os.SameFile(info, opened) {
		err = notRegular("open", name)
	}
	return err
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
