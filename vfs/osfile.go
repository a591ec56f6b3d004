package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	fileMode fs.FileMode = 0o600
	dirMode  fs.FileMode = 0o700
)

// osFile is a File of the operating system. os.File itself continues after short transfers and interruptions.
type osFile struct {
	f        *os.File
	of       osFS
	writable bool
	reserved reservation
}

// modeIn returns the mode of a new file or directory: that of its owner alone, and the same for the group as far as the
// directory that gets the name asks for it: see [OS].
func (o osFS) modeIn(name string, owner fs.FileMode) fs.FileMode {
	dir, err := o.stat(filepath.Dir(name))
	if err != nil || dir.Mode()&fs.ModeSetgid == 0 {
		return owner // without the directory nothing is created
	}
	return owner | dir.Mode()&(owner>>3)
}

func (f *osFile) ReadAt(p []byte, off int64) (int, error) { return f.f.ReadAt(p, off) }

func (f *osFile) Sync() error {
	f.writeInSteps()
	err := f.flush()
	f.reserved.wasSynced()
	return err
}

func (f *osFile) Size() (int64, error) {
	info, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// openRegular opens a name that must be a regular file. The name may change between a check and the open, so the opened
// file is checked. Opening it neither follows a link nor waits for the other end of a pipe.
func (o osFS) openRegular(name string, flag int) (*os.File, error) {
	f, err := o.openNoFollow(name, flag)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular("open", name)
	}
	if err == nil {
		err = o.heldNoFollow(name, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// openForLock opens the file of a lock. A shared lock changes nothing, so its file must exist.
func (o osFS) openForLock(name string, shared bool) (*os.File, error) {
	if shared {
		return o.openRegular(name, os.O_RDONLY)
	}
	return o.openRegular(name, os.O_RDWR|os.O_CREATE)
}
