//go:build unix

package main

import (
	"io/fs"
	"syscall"
)

// allocated returns the disk space of a file, without its holes but with preallocated space.
func allocated(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return info.Size()
}
