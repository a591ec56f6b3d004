//go:build unix && !aix

package vfs

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// flock takes the kernel's lock on an open file. The lock is released when the file is closed or the process dies.
func flock(f *os.File, shared bool) error {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	err := withDescriptor(f, func(fd int) error { return unix.Flock(fd, how|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

// deviceOf returns the device that a file is on. It is a variable for tests.
var deviceOf = func(file os.FileInfo) any {
	if s, ok := file.Sys().(*syscall.Stat_t); ok {
		return s.Dev
	}
	return nil
}
