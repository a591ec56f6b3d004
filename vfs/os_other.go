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

// syncDir does nothing, since these systems have no such operation.
func syncDir(string) error { return nil }

// cannotLink tells a link that this place does not allow from one that failed.
func cannotLink(err error) bool { return errors.Is(err, errors.ErrUnsupported) }
