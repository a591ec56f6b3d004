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
// even one that was opened only to try, lets the first one go. So the table is asked before the file is opened, and those
// who share a lock in this process share a descriptor.
var locks struct {
	mu   sync.Mutex
	held []*heldFile // guarded by mu; few, since a store has one
}

// heldFile is a file that this process has locked.
type heldFile struct {
	f       *os.File
	info    os.FileInfo // constant
	shared  bool        // constant
	holders int         // guarded by locks.mu: 1 unless shared
}

// heldAs returns what this process has locked of that file, by whatever name, or nil. The caller holds locks.mu.
func heldAs(file os.FileInfo) *heldFile {
	i := slices.IndexFunc(locks.held, func(h *heldFile) bool { return os.SameFile(h.info, file) })
	if i < 0 {
		return nil
	}
	return locks.held[i]
}

// lockFile takes the lock, exclusive or shared, or returns ErrLocked, at once in both cases.
func lockFile(name string, shared bool) (io.Closer, error) {
	locks.mu.Lock()
	defer locks.mu.Unlock()
	if info, err := os.Lstat(name); err == nil {
		switch h := heldAs(info); {
		case h == nil:
		case shared && h.shared:
			h.holders++
			return &osLock{held: h}, nil
		default:
			return nil, lockError(name, ErrLocked)
		}
	}
	f, err := openRegular(name, lockFlags(shared))
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && heldAs(info) != nil {
		err = ErrLocked // renamed between the two looks
	}
	if err == nil {
		err = flock(f, shared)
	}
	if err == nil && !stillNamed(name, info) {
		err = ErrLocked // removed by who had it locked until now: another may lock what has the name next
	}
	if err != nil {
		return nil, errors.Join(lockError(name, err), f.Close())
	}
	h := &heldFile{f: f, info: info, shared: shared, holders: 1}
	locks.held = append(locks.held, h)
	return &osLock{held: h}, nil
}

// flock takes the kernel's lock on an open file, which its death or its close releases.
func flock(f *os.File, shared bool) error {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var lockErr error
	err = raw.Control(func(fd uintptr) {
		lockErr = retry(func() error { return unix.Flock(int(fd), how|unix.LOCK_NB) })
	})
	if errors.Is(lockErr, unix.EWOULDBLOCK) {
		lockErr = ErrLocked
	}
	return errors.Join(err, lockErr)
}

// stillNamed reports whether the name is that of the file.
func stillNamed(name string, file os.FileInfo) bool {
	info, err := os.Lstat(name)
	return err == nil && os.SameFile(info, file)
}

func lockError(name string, err error) error { return &fs.PathError{Op: "lock", Path: name, Err: err} }

// osLock is a lock that is held, or a share of one.
type osLock struct {
	held   *heldFile
	closed bool // guarded by locks.mu
}

// Close releases the lock; the last who shares it does so by closing the file. The file stays, since another process may
// just have opened it.
func (l *osLock) Close() error {
	locks.mu.Lock()
	defer locks.mu.Unlock()
	if l.closed {
		return &fs.PathError{Op: "close", Path: l.held.f.Name(), Err: fs.ErrClosed}
	}
	l.closed = true
	if l.held.holders--; l.held.holders > 0 {
		return nil
	}
	locks.held = slices.DeleteFunc(locks.held, func(h *heldFile) bool { return h == l.held })
	return l.held.f.Close()
}
