//go:build unix

package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openNoFollow opens name unless it is a symbolic link, and returns at once from one that is a pipe.
func openNoFollow(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, fileMode)
	if err != nil {
		// The errors of a link (ELOOP, or EMLINK on some systems) and of a socket (ENXIO) do not say what is wrong.
		if info, statErr := os.Lstat(name); statErr == nil && !info.Mode().IsRegular() {
			return nil, errors.Join(notRegular("open", name), err)
		}
		return nil, err
	}
	return f, nil
}

// flushDir is the system call that makes a directory durable: a variable, so that a test can see it called, and have it fail.
var flushDir = (*os.File).Sync

// syncDir makes the names in a directory durable. Some network file systems have no such operation and say that it is
// invalid or unsupported, which is taken as done; every other failure is an error.
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

// cannotLink tells a link that this place does not allow from one that failed: another file system, a file system without
// links, or a file that has as many as it can.
func cannotLink(err error) bool {
	return errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) ||
		errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EMLINK)
}

// retry calls until no signal interrupts the call.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
