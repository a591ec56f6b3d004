package vfs

import (
	"errors"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/windows"
)

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

// cannotLink reports whether an error of a link lets a copy succeed: all do but these.
func cannotLink(err error) bool {
	return !slices.ContainsFunc([]error{
		windows.ERROR_ALREADY_EXISTS, windows.ERROR_FILE_EXISTS, windows.ERROR_FILE_NOT_FOUND,
		windows.ERROR_PATH_NOT_FOUND, windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL,
		windows.ERROR_DISK_QUOTA_EXCEEDED, windows.ERROR_WRITE_PROTECT,
	}, func(no error) bool { return errors.Is(err, no) })
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
