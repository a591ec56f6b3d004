//go:build !windows && (!unix || aix)

package vfs

import (
	"errors"
	"io/fs"
)

// lockFile fails, since these systems have no locks: two processes could write one store, or one could write what
// another reads. So here only a store on [NewMem] can be locked.
func (o osFS) lockFile(name string, shared bool) (Lock, error) {
	if shared {
		if _, err := o.lstat(name); err != nil {
			return nil, err
		}
	}
	return nil, &fs.PathError{Op: "lock", Path: name, Err: errors.ErrUnsupported}
}
