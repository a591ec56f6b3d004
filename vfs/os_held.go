package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

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
	base, ok = strings.CutPrefix(name, dir)
	return base, ok && filepath.IsLocal(base) // "../.." is not in ".."
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

const (
	fileMode fs.FileMode = 0o600
	dirMode  fs.FileMode = 0o700
)

// modeIn returns the mode of a new file or directory: that of its owner alone, and the same for the group as far as the
// directory that gets the name asks for it: see [OS].
func (o osFS) modeIn(name string, owner fs.FileMode) fs.FileMode {
	dir, err := o.stat(filepath.Dir(name))
	if err != nil || dir.Mode()&fs.ModeSetgid == 0 {
		return owner // without the directory nothing is created
	}
	return owner | dir.Mode()&(owner>>3)
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

// Inside implements Inside.
func (o osFS) Inside(dir, outer string) (bool, error) {
	want, err := o.stat(outer)
	if err != nil {
		return false, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return false, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return false, err
	}
	for {
		info, err := os.Stat(dir)
		if err != nil || os.SameFile(info, want) {
			return err == nil, err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return false, nil
		}
		dir = parent
	}
}
