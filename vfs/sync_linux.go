package vfs

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// flushFile is the system call that makes a file durable. It is a variable for the same reason as flushDir.
var flushFile = unix.Fdatasync

// flush flushes what was written and the size, but not the times: without them, a sync that does not change the length
// saves a write of the journal.
func (f *osFile) flush() error {
	if err := withDescriptor(f.f, flushFile); err != nil {
		return &fs.PathError{Op: "fdatasync", Path: f.f.Name(), Err: err}
	}
	return nil
}
