//go:build !unix || aix

package vfs

import (
	"errors"
	"os"
)

// linkAcross links between two held directories, or between one and the names outside. Here that is only possible by
// names: if a directory has another one by now, linkAcross refuses.
func (o osFS) linkAcross(oldname, newname string) error {
	want, err := o.lstat(oldname)
	if err != nil {
		return err
	}
	if err := os.Link(oldname, newname); err != nil {
		return err
	}
	if got, err := o.lstat(newname); err == nil && os.SameFile(got, want) {
		return nil
	}
	err = &os.LinkError{Op: "link", Old: oldname, New: newname, Err: errors.ErrUnsupported}
	return errors.Join(err, os.Remove(newname))
}
