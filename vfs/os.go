package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// OS is the file system of the operating system. It creates files with mode 0600 and directories with 0700, less the
// umask. ReadAt and Write do not allocate.
var OS FS = osFS{}

type osFS struct{}

var _ FreeSpacer = osFS{}

// FreeSpace implements [FreeSpacer.FreeSpace], for users other than the system's administrator.
func (osFS) FreeSpace(dir string) (uint64, error) { return freeSpace(dir) }

// Create opens the new file for reading too, so that it can be verified before it gets its final name.
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

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) Rename(oldname, newname string) error { return os.Rename(oldname, newname) }

// Link checks the old name first, because some systems would link to the target of a symbolic link.
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
