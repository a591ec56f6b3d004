//go:build unix

package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openNoFollow opens name unless it is a symbolic link. It does not wait for the other end of a pipe.
func (o osFS) openNoFollow(name string, flag int) (*os.File, error) {
	f, err := o.openFile(name, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, fileMode)
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

// syncDir makes the names in a directory durable. Some network file systems do not support it and return EINVAL or
// ENOTSUP; these count as success, all other errors do not.
func (o osFS) syncDir(dir string) error {
	if h, base := o.find(dir); h != nil && base == "." {
		return flushed(h.dir)
	}
	d, err := o.openFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
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

// linkAcross links between two held directories, or between one and the names outside.
func (o osFS) linkAcross(oldname, newname string) error {
	return o.descriptor(oldname, func(from int, a string) error {
		return o.descriptor(newname, func(to int, b string) error {
			if err := unix.Linkat(from, a, to, b, 0); err != nil {
				return &os.LinkError{Op: "link", Old: oldname, New: newname, Err: err}
			}
			return nil
		})
	})
}

// descriptor calls f with the descriptor of the held directory that a name is in, and the name inside it.
func (o osFS) descriptor(name string, f func(fd int, base string) error) error {
	h, base := o.find(name)
	if h == nil {
		return f(unix.AT_FDCWD, name)
	}
	return withDescriptor(h.dir, func(fd int) error { return f(fd, base) })
}

// cannotLink reports whether links are not allowed here, as opposed to other errors: the names are on different file
// systems, the file system has no links, or the file has as many links as it can.
func cannotLink(err error) bool {
	return errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) ||
		errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EMLINK)
}
