package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
)

// ReadFile returns all of a file of at most maxBytes bytes; a longer one is an error that Is [ErrTooLarge], and nothing is
// allocated for it. The caller owns the result.
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
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w: %d bytes, want at most %d", ErrTooLarge, size, maxBytes)}
	}
	data = make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if n == len(data) {
		return data, nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // it became shorter
	}
	return nil, &fs.PathError{Op: "read", Path: name, Err: err}
}

// WriteFileAtomic gives the name in dir the content data, so that a crash leaves either that or what the name meant before,
// and that it is durable once nil is returned. The order is: write tmpName, sync it, rename it, sync the directory. A
// tmpName that an earlier crash left is replaced. After an error before the rename the name is as it was and tmpName is
// removed; when the last step fails, which of the two a crash would leave is unknown.
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

// MkdirAll makes a directory and the parents that it lacks, and makes each name durable in its parent. The name of a
// directory that is there, or a link to one, is made durable too, since the process that made it may have died before it
// could; but parents that are there are taken as durable, and so is a name in a parent that may not be opened.
func MkdirAll(fsys FS, dir string) error {
	dir = filepath.Clean(dir)
	parent := filepath.Dir(dir)
	err := fsys.Mkdir(dir)
	if errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err = MkdirAll(fsys, parent); err != nil {
			return err
		}
		err = fsys.Mkdir(dir)
	}
	exists := errors.Is(err, fs.ErrExist)
	if exists {
		_, err = fsys.List(dir) // a file in the way is an error
	}
	if err != nil {
		return err
	}
	if err = fsys.SyncDir(parent); exists && errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
