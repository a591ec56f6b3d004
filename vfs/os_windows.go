package vfs

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// openDir opens a directory for reading.
const openDir = os.O_RDONLY

// openNoFollow opens name unless it is a symbolic link. It checks before opening, because a handle on the link itself
// would read wrong bytes from files that the system keeps behind reparse points of its own (deduplicated ones).
func (o osFS) openNoFollow(name string, flag int) (*os.File, error) {
	if info, err := o.lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, notRegular("open", name)
	}
	return o.openFile(name, flag)
}

// again repeats an operation on a name that was refused, for up to a second: programs that look at each new file, as
// those against viruses do, keep it from being renamed or removed for a moment.
func again(op func() error) error {
	for pause := 5 * time.Millisecond; ; pause *= 2 {
		err := op()
		if !errors.Is(err, windows.ERROR_ACCESS_DENIED) && !errors.Is(err, windows.ERROR_SHARING_VIOLATION) &&
			!errors.Is(err, windows.ERROR_LOCK_VIOLATION) || pause > 500*time.Millisecond {
			return err
		}
		time.Sleep(pause)
	}
}

// syncDir does nothing: Windows cannot sync a directory, and NTFS keeps its own changes of names in order.
func (osFS) syncDir(string) error { return nil }

// cannotLink reports whether an error of a link lets a copy succeed: all do but these.
func cannotLink(err error) bool {
	for _, no := range [...]error{
		windows.ERROR_ALREADY_EXISTS, windows.ERROR_FILE_EXISTS, windows.ERROR_FILE_NOT_FOUND,
		windows.ERROR_PATH_NOT_FOUND, windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL,
		windows.ERROR_DISK_QUOTA_EXCEEDED, windows.ERROR_WRITE_PROTECT,
	} {
		if errors.Is(err, no) {
			return false
		}
	}
	return true
}

// flush flushes the file. Windows flushes only through a handle with write access, so a file opened for reading is
// opened a second time.
func (f *osFile) flush() error {
	if f.writable {
		return f.f.Sync()
	}
	w, err := f.of.openFile(f.f.Name(), os.O_RDWR)
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
