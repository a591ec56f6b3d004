//go:build !windows && (!unix || aix)

package vfs

import (
	"errors"
	"io"
	"io/fs"
)

// lockFile fails: without locks two processes could write one store, so here only [NewMem] holds one for writing.
func lockFile(name string) (io.Closer, error) {
	return nil, &fs.PathError{Op: "lock", Path: name, Err: errors.ErrUnsupported}
}
