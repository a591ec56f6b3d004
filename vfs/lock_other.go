//go:build !windows && (!unix || aix)

package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// lockFile fails, since these systems have no locks: two processes could write one store, or one could write what
// another reads. So here only a store on [NewMem] can be locked.
func lockFile(name string, shared bool) (io.Closer, error) {
	if shared {
		if _, err := os.Lstat(name); err != nil {
			return nil, err
		}
	}
	return nil, &fs.PathError{Op: "lock", Path: name, Err: errors.ErrUnsupported}
}
