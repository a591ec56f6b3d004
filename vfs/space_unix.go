//go:build linux || darwin

package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

func freeSpace(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(dir, &s) }); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return s.Bavail * uint64(s.Bsize), nil //nolint:gosec // the size of a block
}
