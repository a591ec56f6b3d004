//go:build !unix && !windows

package vfs

import (
	"errors"
	"os"
)

// openNoFollow opens name unless it is a symbolic link.
func openNoFollow(name string, flag int) (*os.File, error) {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, notRegular("open", name)
	}
	return os.OpenFile(name, flag, fileMode)
}

// syncDir does nothing, since these systems cannot sync a directory.
func syncDir(string) error { return nil }

// cannotLink reports whether err means that links are not allowed here, as opposed to other errors.
func cannotLink(err error) bool { return errors.Is(err, errors.ErrUnsupported) }
