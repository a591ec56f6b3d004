//go:build unix && !aix

package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// locks holds what this process has locked (I31). The kernel's lock alone does not do: where a network file system turns
// it into a lock of the process, a second one in the same process succeeds, and closing any descriptor of the file,
// even one that was opened only to try, lets the first one go. So the table is asked before the file is opened.
var locks = struct {
	mu   sync.Mutex
	held map[inodeID]struct{} // guarded by mu
}{held: map[inodeID]struct{}{}}

// inodeID tells files apart whatever their names.
type inodeID struct{ dev, ino uint64 }

// lockFile takes the lock or returns ErrLocked, at once in both cases.
func lockFile(name string) (io.Closer, error) {
	locks.mu.Lock()
	defer locks.mu.Unlock()

	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err == nil {
		if _, held := locks.held[idOf(&st)]; held {
			return nil, lockError(name, ErrLocked)
		}
	}
	f, err := openRegular(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	id, err := flock(f)
	if err != nil {
		return nil, errors.Join(lockError(name, err), f.Close())
	}
	locks.held[id] = struct{}{}
	return &osLock{f: f, id: id}, nil
}

// flock takes the kernel's lock on an open file, which its death or its close releases.
func flock(f *os.File) (inodeID, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return inodeID{}, err
	}
	var st unix.Stat_t
	var lockErr error
	err = raw.Control(func(fd uintptr) {
		lockErr = retry(func() error { return unix.Fstat(int(fd), &st) }) //nolint:gosec // a descriptor is a small number
		if lockErr == nil {
			lockErr = retry(func() error { return unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) }) //nolint:gosec // likewise
		}
	})
	if err == nil {
		err = lockErr
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	id := idOf(&st)
	if _, held := locks.held[id]; held && err == nil {
		err = ErrLocked // renamed between the two looks
	}
	return id, err
}

// idOf widens fields whose types differ from system to system; a negative device number stays unique.
func idOf(st *unix.Stat_t) inodeID {
	return inodeID{uint64(st.Dev), uint64(st.Ino)} //nolint:gosec,unconvert // see above
}

func lockError(name string, err error) error { return &fs.PathError{Op: "lock", Path: name, Err: err} }

// osLock is a lock that is held.
type osLock struct {
	f  *os.File
	id inodeID
}

// Close releases the lock by closing the file. The file stays, since another process may just have opened it.
func (l *osLock) Close() error {
	locks.mu.Lock()
	defer locks.mu.Unlock()
	err := l.f.Close()
	if !errors.Is(err, os.ErrClosed) {
		delete(locks.held, l.id)
	}
	return err
}
