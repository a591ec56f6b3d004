//go:build unix

package main

import (
	"io/fs"
	"syscall"
)

// allocated is how much of the disk a file takes: without its holes, and with what was set aside for it.
func allocated(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return info.Size()
}
