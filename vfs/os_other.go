//go:build !unix && !windows

package vfs

import (
	"errors"
	"os"
)

// openDir opens a directory for reading.
const openDir = os.O_RDONLY

// openNoFollow opens name unless it is a symbolic link.
func (o osFS) openNoFollow(name string, flag int) (*os.File, error) {
	if info, err := o.lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, notRegular("open", name)
	}
	return o.openFile(name, flag)
}

// syncDir does nothing, since these systems cannot sync a directory.
func (osFS) syncDir(string) error { return nil }

// cannotLink reports whether err means that links are not allowed here, as opposed to other errors.
func cannotLink(err error) bool { return errors.Is(err, errors.ErrUnsupported) }
