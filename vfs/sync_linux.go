package vfs

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// flushFile is the system call that makes a file durable. It is a variable for the same reason as flushDir.
var flushFile = unix.Fdatasync

// syncFile flushes what was written and the size, but not the times: without them, a sync that does not change the
// length saves a write of the journal.
func syncFile(f *os.File, _ bool) error {
	if err := withDescriptor(f, flushFile); err != nil {
		return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}
