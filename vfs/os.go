package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// OS is the file system of the operating system. It creates files with mode 0600 and directories with 0700. In a
// directory with the set-group-ID bit, which gives new files to its group, they also get the bits that the directory
// has for the group, except for executing files. The umask takes away from both. Files that exist, and links to them,
// keep their mode. On Windows, what is created inherits who may access it from its directory. ReadAt and Write do not
// allocate. It is a [FreeSpacer] and a [Holder].
var OS FS = osFS{}

// An osFS is the file system of the operating system, with the directories that it holds.
type osFS struct{ held *heldDir }

var (
	_ FreeSpacer = osFS{}
	_ Holder     = osFS{}
)

// FreeSpace implements [FreeSpacer.FreeSpace], for users other than the system's administrator.
func (o osFS) FreeSpace(dir string) (uint64, error) {
	if h, base := o.find(dir); h != nil && base == "." {
		return freeSpaceOf(h.dir)
	}
	return freeSpace(dir)
}

// Create opens the new file for reading too, so that it can be verified before it gets its final name.
func (o osFS) Create(name string) (File, error) {
	f, err := o.openFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, err
	}
	return &osFile{f: f, of: o, writable: true}, nil
}

func (o osFS) Open(name string) (File, error) {
	f, err := o.openRegular(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return &osFile{f: f, of: o}, nil
}

// Remove removes a directory that is held only if it still has the name.
func (o osFS) Remove(name string) error {
	h, base := o.find(name)
	switch {
	case h == nil:
		return again(func() error { return os.Remove(name) })
	case base != ".":
		return named(again(func() error { return h.root.Remove(base) }), name)
	}
	held, err := h.dir.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Lstat(name); err != nil || !os.SameFile(held, now) {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	return os.Remove(name)
}

// Rename moves within a directory that is held, or between directories that are not.
func (o osFS) Rename(oldname, newname string) error {
	from, a := o.find(oldname)
	to, b := o.find(newname)
	switch {
	case from != to:
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: errors.ErrUnsupported}
	case from != nil:
		err := again(func() error { return from.root.Rename(a, b) })
		return namedBoth("rename", err, oldname, newname)
	}
	return again(func() error { return os.Rename(oldname, newname) })
}

// Link checks the old name first, because some systems would link to the target of a symbolic link.
func (o osFS) Link(oldname, newname string) error {
	info, err := o.lstat(oldname)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return notRegular("link", oldname)
	}
	from, a := o.find(oldname)
	to, b := o.find(newname)
	switch {
	case from != to:
		err = o.linkAcross(oldname, newname)
	case from != nil:
		err = namedBoth("link", from.root.Link(a, b), oldname, newname)
	default:
		err = os.Link(oldname, newname)
	}
	if err != nil && cannotLink(err) && !errors.Is(err, errors.ErrUnsupported) {
		err = fmt.Errorf("%w: %w", err, errors.ErrUnsupported)
	}
	return err
}

func (o osFS) Mkdir(name string) error {
	mode := o.modeIn(name, dirMode)
	if h, base := o.find(name); h != nil {
		return named(h.root.Mkdir(base, mode), name)
	}
	return os.Mkdir(name, mode)
}

func (o osFS) List(dir string) ([]string, error) {
	d, err := o.openFile(dir, openDir)
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

func (o osFS) Stat(name string) (os.FileInfo, error) { return o.lstat(name) }

func (o osFS) Lock(name string) (Lock, error) { return o.lockFile(name, false) }

func (o osFS) LockShared(name string) (Lock, error) { return o.lockFile(name, true) }
