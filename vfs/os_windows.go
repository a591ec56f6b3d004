package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// openNoFollow opens name unless it is a symbolic link. It checks before opening, because a handle on the link itself
// would read wrong bytes from files that the system keeps behind reparse points of its own (deduplicated ones).
func openNoFollow(name string, flag int) (*os.File, error) {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, notRegular("open", name)
	}
	return os.OpenFile(name, flag, fileMode)
}

// syncDir does nothing: Windows cannot sync a directory, and NTFS keeps its own changes of names in order.
func syncDir(string) error { return nil }

// cannotLink reports whether err means that links are not allowed here, as opposed to other errors.
func cannotLink(err error) bool {
	return errors.Is(err, windows.ERROR_NOT_SAME_DEVICE) || errors.Is(err, windows.ERROR_INVALID_FUNCTION) ||
		errors.Is(err, windows.ERROR_NOT_SUPPORTED) || errors.Is(err, windows.ERROR_TOO_MANY_LINKS)
}

// syncFile flushes a file. Windows flushes only through a handle with write access, so a file opened for reading is
// opened a second time.
func syncFile(f *os.File, writable bool) error {
	if writable {
		return f.Sync()
	}
	w, err := os.OpenFile(f.Name(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(w.Sync(), w.Close())
}

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
