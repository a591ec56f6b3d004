package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
)

// ReadFile returns the content of a file of at most maxBytes bytes. For a longer file it allocates nothing and returns
// an error matching [ErrTooLarge]. The caller owns the result.
func ReadFile(fsys FS, name string, maxBytes int64) (data []byte, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			data = nil
		}
	}()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if maxBytes = min(maxBytes, math.MaxInt); size > maxBytes {
		err = fmt.Errorf("%w: %d bytes, want at most %d", ErrTooLarge, size, maxBytes)
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	data = make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if n == len(data) {
		return data, nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // the file became shorter
	}
	return nil, &fs.PathError{Op: "read", Path: name, Err: err}
}

// WriteFileAtomic writes data to the named file in dir, so that a crash leaves either data or what the name meant
// before. When it returns nil, data is durable. The steps are: write tmpName, sync it, rename it, sync the directory. A
// tmpName that an earlier crash left is replaced. After an error before the rename, the name is unchanged and tmpName
// is removed. If the last step fails, it is unknown which of the two a crash would leave.
func WriteFileAtomic(fsys FS, dir, tmpName, name string, data []byte) error {
	tmp := filepath.Join(dir, tmpName)
	f, err := fsys.Create(tmp)
	if errors.Is(err, fs.ErrExist) {
		if err = fsys.Remove(tmp); err == nil {
			f, err = fsys.Create(tmp)
		}
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = fsys.Rename(tmp, filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(tmp))
	}
	return fsys.SyncDir(dir)
}

// MkdirAll makes a directory and its missing parents, and makes each new name durable in its parent. The name of dir is
// made durable even if dir exists, also as a link, since the process that made it may have died before it synced the
// name. Existing parents are assumed to be durable, and so is a name whose parent may not be opened.
func MkdirAll(fsys FS, dir string) error {
	dir = filepath.Clean(dir)
	parent := filepath.Dir(dir)
	if base := filepath.Base(dir); base == "." || base == ".." {
		parent = filepath.Join(dir, "..") // Dir of these is "."
	}
	err := fsys.Mkdir(dir)
	if errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err = MkdirAll(fsys, parent); err != nil {
			return err
		}
		err = fsys.Mkdir(dir)
	}
	exists := errors.Is(err, fs.ErrExist)
	if exists {
		_, err = fsys.List(dir) // which fails if it is a file
	}
	if err != nil {
		return err
	}
	if err = fsys.SyncDir(parent); exists && errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
