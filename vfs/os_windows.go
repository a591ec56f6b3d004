package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// openNoFollow opens name unless it is a symbolic link. It checks before opening, because a handle on the link itself
// would read wrong bytes from files that the system keeps behind reparse points of its own (deduplicated ones).
func (o osFS) openNoFollow(name string, flag int) (*os.File, error) {
	if info, err := o.lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, notRegular("open", name)
	}
	return o.openFile(name, flag, fileMode)
}

// syncDir does nothing: Windows cannot sync a directory, and NTFS keeps its own changes of names in order.
func (osFS) syncDir(string) error { return nil }

// cannotLink reports whether err means that links are not allowed here, as opposed to other errors.
func cannotLink(err error) bool {
	return errors.Is(err, windows.ERROR_NOT_SAME_DEVICE) || errors.Is(err, windows.ERROR_INVALID_FUNCTION) ||
		errors.Is(err, windows.ERROR_NOT_SUPPORTED) || errors.Is(err, windows.ERROR_TOO_MANY_LINKS)
}

// flush flushes the file. Windows flushes only through a handle with write access, so a file opened for reading is
// opened a second time.
func (f *osFile) flush() error {
	if f.writable {
		return f.f.Sync()
	}
	w, err := f.of.openFile(f.f.Name(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(w.Sync(), w.Close())
}

// freeSpaceOf returns the free space where an open directory is, by its name: Windows does not rename a directory in
// which a file is open.
func freeSpaceOf(dir *os.File) (uint64, error) { return freeSpace(dir.Name()) }

func freeSpace(dir string) (uint64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, &os.PathError{Op: "GetDiskFreeSpaceEx", Path: dir, Err: err}
	}
	return free, nil
}
