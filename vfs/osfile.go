package vfs

import (
	"errors"
	"io/fs"
	"os"
)

// osFile is a File of the operating system. os.File itself continues after short transfers and interruptions.
type osFile struct {
	f        *os.File
	of       osFS
	writable bool
	reserved reservation
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

// stillNamed reports whether name still refers to file.
func (o osFS) stillNamed(name string, file os.FileInfo) bool {
	info, err := o.lstat(name)
	return err == nil && os.SameFile(info, file)
}

func lockError(name string, err error) error { return &fs.PathError{Op: "lock", Path: name, Err: err} }
