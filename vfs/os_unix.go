//go:build unix

package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openNoFollow opens name unless it is a symbolic link. It does not wait for the other end of a pipe.
func openNoFollow(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, fileMode)
	if err != nil {
		// The errors for a link (ELOOP, or EMLINK on some systems) and for a socket (ENXIO) do not name the cause.
		if info, statErr := os.Lstat(name); statErr == nil && !info.Mode().IsRegular() {
			return nil, errors.Join(notRegular("open", name), err)
		}
		return nil, err
	}
	return f, nil
}

// flushDir is the system call that makes a directory durable. It is a variable so that tests can observe the call and
// make it fail.
var flushDir = (*os.File).Sync

// syncDir makes the names in a directory durable. Some network file systems do not support it and return EINVAL or
// ENOTSUP; these count as success, all other errors do not.
func syncDir(dir string) error {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	err = flushDir(d)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// cannotLink reports whether links are not allowed here, as opposed to other errors: the names are on different file
// systems, the file system has no links, or the file has as many links as it can.
func cannotLink(err error) bool {
	return errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) ||
		errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EMLINK)
}
