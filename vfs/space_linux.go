package vfs

import (
	"cmp"

	"golang.org/x/sys/unix"
)

// fragment is what s counts in; its Bsize is how much is best read at a time, which may be more.
func fragment(s *unix.Statfs_t) uint64 { return uint64(cmp.Or(s.Frsize, s.Bsize)) } //nolint:gosec // the size of a block
