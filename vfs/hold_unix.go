//go:build unix && !aix

package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

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
