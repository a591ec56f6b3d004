package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// OS is the file system of the operating system. Files are made with mode 0600 and directories with 0700, less the
// umask. ReadAt and Write allocate nothing.
var OS FS = osFS{}

type osFS struct{}

var _ FreeSpacer = osFS{}

// FreeSpace is [FreeSpacer.FreeSpace], for who is not the system's administrator.
func (osFS) FreeSpace(dir string) (uint64, error) { return freeSpace(dir) }

const (
	fileMode fs.FileMode = 0o600
	dirMode  fs.FileMode = 0o700
)

// Create opens the new file for reading too, so that it can be verified before it is given its name.
func (osFS) Create(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return nil, err
	}
	return &osFile{f: f, writable: true}, nil
}

func (osFS) Open(name string) (File, error) {
	f, err := openRegular(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return &osFile{f: f}, nil
}

// openRegular opens a name that must be a regular file. What the name is can change between two looks, so the file that
// was opened is asked, and opening it neither follows a link nor waits for the other end of a pipe.
func openRegular(name string, flag int) (*os.File, error) {
	f, err := openNoFollow(name, flag)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular("open", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func notRegular(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: ErrNotRegular} }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) Rename(oldname, newname string) error { return os.Rename(oldname, newname) }

// Link looks first, because some systems would make a second name of what a symbolic link points to.
func (osFS) Link(oldname, newname string) error {
	info, err := os.Lstat(oldname)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return notRegular("link", oldname)
	}
	err = os.Link(oldname, newname)
	if err != nil && cannotLink(err) && !errors.Is(err, errors.ErrUnsupported) {
		err = fmt.Errorf("%w: %w", err, errors.ErrUnsupported)
	}
	return err
}

func (osFS) Mkdir(name string) error { return os.Mkdir(name, dirMode) }

func (osFS) List(dir string) ([]string, error) {
	d, err := os.Open(dir)
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

func (osFS) Stat(name string) (os.FileInfo, error) { return os.Lstat(name) }

func (osFS) SyncDir(dir string) error { return syncDir(dir) }

func (osFS) Lock(name string) (io.Closer, error) { return lockFile(name, false) }

func (osFS) LockShared(name string) (io.Closer, error) { return lockFile(name, true) }

// lockFlags are how a file to be locked is opened: whoever shares a lock changes nothing.
func lockFlags(shared bool) int {
	if shared {
		return os.O_RDONLY
	}
	return os.O_RDWR | os.O_CREATE
}

// osFile is a File of the operating system. os.File goes on after short transfers and interruptions by itself.
type osFile struct {
	f        *os.File
	writable bool
	room     room
}

func (f *osFile) ReadAt(p []byte, off int64) (int, error) { return f.f.ReadAt(p, off) }

func (f *osFile) Sync() error {
	err := syncFile(f.f, f.writable)
	f.room.wasSynced()
	return err
}

func (f *osFile) Size() (int64, error) {
	info, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
