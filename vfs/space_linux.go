package vfs

import (
	"cmp"

	"golang.org/x/sys/unix"
)

// fragment returns the unit in which s counts space, in bytes. Bsize is the best size of a read, which may be larger.
func fragment(s *unix.Statfs_t) uint64 {
	return uint64(cmp.Or(s.Frsize, s.Bsize)) //nolint:gosec // a size is not negative
}
