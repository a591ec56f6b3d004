//go:build unix

package vfs

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// openDir opens a directory for reading. It does not wait for the other end of a pipe.
const openDir = os.O_RDONLY | unix.O_DIRECTORY

// openNoFollow opens name unless it is a symbolic link. It does not wait for the other end of a pipe.
func (o osFS) openNoFollow(name string, flag int) (*os.File, error) {
	f, err := o.openFile(name, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		// The errors for a link (ELOOP, or EMLINK on some systems) and for a socket (ENXIO) do not name the cause.
		if info, statErr := o.lstat(name); statErr == nil && !info.Mode().IsRegular() {
			return nil, errors.Join(notRegular("open", name), err)
		}
		return nil, err
	}
	return f, nil
}

// flushDir is the system call that makes a directory durable. It is a variable so that tests can observe the call and
// make it fail.
var flushDir = (*os.File).Sync

// SyncDir makes the names in a directory durable. Some network file systems do not support it and return EINVAL or
// ENOTSUP; these count as success, all other errors do not.
func (o osFS) SyncDir(dir string) error {
	if h, base := o.find(dir); h != nil && base == "." {
		return flushed(h.dir)
	}
	d, err := o.openFile(dir, openDir)
	if err != nil {
		return err
	}
	return errors.Join(flushed(d), d.Close())
}

// flushed calls flushDir.
func flushed(d *os.File) error {
	err := flushDir(d)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// cannotLink reports whether an error of a link lets a copy succeed: all do but these. What refuses links, as Android
// and many file systems do, has many errors: EXDEV, EPERM, EACCES, ENOTSUP, ENOSYS, EINVAL, EMLINK.
func cannotLink(err error) bool {
	return !slices.ContainsFunc([]error{
		unix.EEXIST, unix.ENOENT, unix.ENOTDIR, unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO,
	}, func(no error) bool { return errors.Is(err, no) })
}
