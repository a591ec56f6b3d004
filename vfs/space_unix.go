//go:build linux || darwin

package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func freeSpace(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(dir, &s) }); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if s.Blocks == 0 { // the file system does not know
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: errors.ErrUnsupported}
	}
	return s.Bavail * fragment(&s), nil
}
