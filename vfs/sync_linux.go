package vfs

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// flushFile is the system call that makes a file durable: a variable, as flushDir is.
var flushFile = func(fd uintptr) error { return unix.Fdatasync(int(fd)) }

// syncFile flushes what was written and the size, but not the times: fdatasync saves a write of the journal for each sync
// that does not change the length. The descriptor is held meanwhile, so that a Close cannot give its number away.
func syncFile(f *os.File, _ bool) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = raw.Control(func(fd uintptr) {
		syncErr = retry(func() error { return flushFile(fd) })
	})
	if err != nil {
		syncErr = fs.ErrClosed // all that Control itself can fail by
	}
	if syncErr != nil {
		return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: syncErr}
	}
	return nil
}
