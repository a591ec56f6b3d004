//go:build !windows

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// locks lists the files that this process has locked (I31). The kernel's lock alone is not enough: where a network file
// system turns it into a lock of the process, a second one in the same process succeeds, and closing any descriptor of
// the file, even one that was opened only to try, releases the first lock. So the list is searched before the file is
// opened, and holders of a shared lock in this process share a descriptor. Where the system has no locks, the list is
// all there is.
//
// From the search until the file is in the list, and while it is closed, no other call may do so with the same file. So
// calls for files on one device take turns. A call does not wait for another device, whose file system may hang.
var locks struct {
	mu      sync.Mutex          // held over no system call
	held    []*heldFile         // guarded by mu; short, since a store has one lock
	devices map[any]*sync.Mutex // guarded by mu; by what deviceOf returns
}

// heldFile is a file that this process has locked.
type heldFile struct {
	f       *os.File
	info    os.FileInfo // constant
	shared  bool        // constant
	device  *sync.Mutex // constant
	holders int         // guarded by device: 1 unless shared
}

// deviceMutex returns the mutex of the device that the directory of a file is on.
func (o osFS) deviceMutex(name string) (*sync.Mutex, error) {
	dir, err := o.stat(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	device := deviceOf(dir)
	locks.mu.Lock()
	defer locks.mu.Unlock()
	if locks.devices == nil {
		locks.devices = map[any]*sync.Mutex{}
	}
	if locks.devices[device] == nil {
		locks.devices[device] = new(sync.Mutex)
	}
	return locks.devices[device], nil
}

// heldAs returns the entry of a file that this process has locked, by whatever name, or nil. The caller holds the mutex
// of the file's device.
func heldAs(file os.FileInfo) *heldFile {
	locks.mu.Lock()
	defer locks.mu.Unlock()
	i := slices.IndexFunc(locks.held, func(h *heldFile) bool { return os.SameFile(h.info, file) })
	if i < 0 {
		return nil
	}
	return locks.held[i]
}

// lockFile takes the lock, exclusive or shared. If it is held, lockFile returns ErrLocked at once.
func (o osFS) lockFile(name string, shared bool) (Lock, error) {
	device, err := o.deviceMutex(name)
	if err != nil {
		return nil, err
	}
	device.Lock()
	defer device.Unlock()
	if info, err := o.lstat(name); err == nil {
		switch h := heldAs(info); {
		case h == nil:
		case shared && h.shared:
			h.holders++
			return &osLock{held: h, of: o, name: name}, nil
		default:
			return nil, lockError(name, ErrLocked)
		}
	}
	f, err := o.openForLock(name, shared)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && heldAs(info) != nil {
		err = ErrLocked // the name changed after Lstat
	}
	if err == nil {
		err = flock(f, shared)
	}
	if err == nil && !o.stillNamed(name, info) {
		err = ErrLocked // the last holder removed the file: another caller may lock the next file of that name
	}
	if err != nil {
		return nil, errors.Join(lockError(name, err), f.Close())
	}
	h := &heldFile{f: f, info: info, shared: shared, device: device, holders: 1}
	locks.mu.Lock()
	defer locks.mu.Unlock()
	locks.held = append(locks.held, h)
	return &osLock{held: h, of: o, name: name}, nil
}

// osLock is a held lock, or a share of one.
type osLock struct {
	held   *heldFile
	of     osFS
	name   string
	closed bool // guarded by held.device
}

// Check implements [Lock.Check].
func (l *osLock) Check() error {
	if !l.of.stillNamed(l.name, l.held.info) {
		return lockError(l.name, ErrLockLost)
	}
	return nil
}

// Close releases the lock. The last holder of a shared lock closes the file. The file is not removed, since another
// process may just have opened it.
func (l *osLock) Close() error {
	l.held.device.Lock()
	defer l.held.device.Unlock()
	if l.closed {
		return &fs.PathError{Op: "close", Path: l.held.f.Name(), Err: fs.ErrClosed}
	}
	l.closed = true
	if l.held.holders--; l.held.holders > 0 {
		return nil
	}
	locks.mu.Lock()
	locks.held = slices.DeleteFunc(locks.held, func(h *heldFile) bool { return h == l.held })
	locks.mu.Unlock()
	return l.held.f.Close()
}
