//go:build linux || darwin

package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func freeSpace(dir string) (uint64, error) {
	return freeIn(dir, func(s *unix.Statfs_t) error { return retry(func() error { return unix.Statfs(dir, s) }) })
}

// freeSpaceOf returns the free space where an open directory is.
func freeSpaceOf(dir *os.File) (uint64, error) {
	return freeIn(dir.Name(), func(s *unix.Statfs_t) error {
		return withDescriptor(dir, func(fd int) error { return unix.Fstatfs(fd, s) })
	})
}

func freeIn(dir string, statfs func(*unix.Statfs_t) error) (uint64, error) {
	var s unix.Statfs_t
	if err := statfs(&s); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if s.Blocks == 0 { // the file system does not know
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: errors.ErrUnsupported}
	}
	return s.Bavail * fragment(&s), nil
}
