//go:build unix && !aix

package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// locks holds what this process has locked (I31). The kernel's lock alone does not do: where a network file system turns
// it into a lock of the process, a second one in the same process succeeds, and closing any descriptor of the file,
// even one that was opened only to try, lets the first one go. So the table is asked before the file is opened.
var locks struct {
	mu   sync.Mutex
	held []*osLock // guarded by mu; few, since a store has one
}

// lockHeld reports whether this process has locked the file, by whatever name. The caller holds locks.mu.
func lockHeld(file os.FileInfo) bool {
	return slices.ContainsFunc(locks.held, func(l *osLock) bool { return os.SameFile(l.info, file) })
}

// lockFile takes the lock or returns ErrLocked, at once in both cases.
func lockFile(name string) (io.Closer, error) {
	locks.mu.Lock()
	defer locks.mu.Unlock()

	if info, err := os.Lstat(name); err == nil && lockHeld(info) {
		return nil, lockError(name, ErrLocked)
	}
	f, err := openRegular(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && lockHeld(info) {
		err = ErrLocked // renamed between the two looks
	}
	if err == nil {
		err = flock(f)
	}
	if err != nil {
		return nil, errors.Join(lockError(name, err), f.Close())
	}
	l := &osLock{f: f, info: info}
	locks.held = append(locks.held, l)
	return l, nil
}

// flock takes the kernel's lock on an open file, which its death or its close releases.
func flock(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var lockErr error
	err = raw.Control(func(fd uintptr) {
		lockErr = retry(func() error { return unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) })
	})
	if errors.Is(lockErr, unix.EWOULDBLOCK) {
		lockErr = ErrLocked
	}
	return errors.Join(err, lockErr)
}

func lockError(name string, err error) error { return &fs.PathError{Op: "lock", Path: name, Err: err} }

// osLock is a lock that is held.
type osLock struct {
	f    *os.File
	info os.FileInfo // constant
}

// Close releases the lock by closing the file. The file stays, since another process may just have opened it.
func (l *osLock) Close() error {
	locks.mu.Lock()
	defer locks.mu.Unlock()
	locks.held = slices.DeleteFunc(locks.held, func(held *osLock) bool { return held == l })
	return l.f.Close()
}
