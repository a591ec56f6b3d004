package vfs

import (
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"syscall"
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

	// ErrNoSpace means that something was not written, since it, or what must be written after it, would not fit on the
	// disk. It matches syscall.ENOSPC, and [IsNoSpace] is true for it.
	ErrNoSpace error = noSpaceError{}

	// ErrTooLarge is returned by [ReadFile] for a file longer than its caller allows.
	ErrTooLarge = errors.New("file too large")
)

// notRegular returns ErrNotRegular for an operation on a name.
func notRegular(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: ErrNotRegular} }

type noSpaceError struct{}

func (noSpaceError) Error() string { return "not enough disk space" }

func (noSpaceError) Is(target error) bool { return target == error(syscall.ENOSPC) }

// IsNoSpace reports whether an error says that a file system, or the quota of a user, has no space left.
func IsNoSpace(err error) bool { return isNoSpace(err, runtime.GOOS) }

// isNoSpace implements IsNoSpace for errors of the given system.
func isNoSpace(err error, goos string) bool {
	known := [...]error{syscall.ENOSPC, syscall.EDQUOT, errHandleDiskFull, errDiskFull, errQuotaExceeded}
	n := len(known)
	if goos != "windows" {
		n = 2 // the others mean something else
	}
	return slices.ContainsFunc(known[:n], func(target error) bool { return errors.Is(err, target) })
}

// Errors of Windows.
const (
	errHandleDiskFull = syscall.Errno(39)
	errDiskFull       = syscall.Errno(112)
	errQuotaExceeded  = syscall.Errno(1295)
)
