package vfs

import "golang.org/x/sys/unix"

// fragment is what s counts in.
func fragment(s *unix.Statfs_t) uint64 { return uint64(s.Bsize) }
