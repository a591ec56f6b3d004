package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile takes the lock, exclusive or shared. If it is held, lockFile returns ErrLocked at once. A lock of Windows
// belongs to the handle, so it also excludes other calls in this process (I31).
func (o osFS) lockFile(name string, shared bool) (Lock, error) {
	f, err := o.openForLock(name, shared)
	if err != nil {
		return nil, err
	}
	const all = ^uint32(0)
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err = windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, all, all, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		err = ErrLocked
	}
	if err != nil {
		return nil, errors.Join(lockError(name, err), f.Close())
	}
	return &osLock{f, o, name}, nil
}

// osLock is a held lock.
type osLock struct {
	f    *os.File
	of   osFS
	name string
}

// Check implements [Lock.Check].
func (l *osLock) Check() error {
	held, err := l.f.Stat()
	if err == nil && !l.of.stillNamed(l.name, held) {
		err = lockError(l.name, ErrLockLost)
	}
	return err
}

// Close releases the lock. The file is not removed, since another process may just have opened it.
func (l *osLock) Close() error {
	err := windows.UnlockFileEx(windows.Handle(l.f.Fd()), 0, ^uint32(0), ^uint32(0), new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_INVALID_HANDLE) {
		err = nil // closed before: Close below returns the error
	}
	return errors.Join(err, l.f.Close())
}
