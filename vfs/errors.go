package vfs

import "errors"

var (
	// ErrLocked is what [FS.Lock] and [FS.LockShared] return for a lock that is held, and not to be shared, by another
	// process or by another call in this one.
	ErrLocked = errors.New("locked by another process or another call in this one")

	// ErrNotRegular is what [FS.Open], [FS.Lock] and [FS.LockShared] return for a name that is a directory, a symbolic link,
	// a pipe, a socket or a device.
	ErrNotRegular = errors.New("not a regular file")

	// ErrTooLarge is what [ReadFile] returns for a file longer than its caller allows.
	ErrTooLarge = errors.New("file too large")

	// ErrShortWrite is what the hook of [NewHook] returns, wrapped or not, to have half of the bytes written before the
	// write fails.
	ErrShortWrite = errors.New("short write")
)
