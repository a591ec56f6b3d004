package vfs

import "golang.org/x/sys/unix"

// fragment returns the unit in which s counts space, in bytes.
func fragment(s *unix.Statfs_t) uint64 { return uint64(s.Bsize) }
