package vfs

import (
	"errors"
	"io/fs"
)

var (
	// ErrLocked is returned by [FS.Lock] and [FS.LockShared] if another process, or another call in this one, holds a
	// lock that excludes the requested one.
	ErrLocked = errors.New("already open, here or in another process")

	// ErrLockLost is returned by [Lock.Check] if the file of the lock was removed or replaced, so that another process
	// may hold a lock of the same name.
	ErrLockLost = errors.New("the file of the lock was removed or replaced while it was held")

	// ErrNotRegular is returned by [FS.Open], [FS.Lock] and [FS.LockShared] for a name that is a directory, a symbolic
	// link, a pipe, a socket or a device.
	ErrNotRegular = errors.New("not a regular file")

	// ErrTooLarge is returned by [ReadFile] for a file longer than its caller allows.
	ErrTooLarge = errors.New("file too large")

	// ErrShortWrite is returned, wrapped or not, by the hook of [NewHook] to have half of the bytes written before the
	// write fails.
	ErrShortWrite = errors.New("short write")
)

// notRegular returns ErrNotRegular for an operation on a name.
func notRegular(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: ErrNotRegular} }
