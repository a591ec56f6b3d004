package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/vfs"
)

// storeDir refuses what cannot be the directory of a store. One that is not there yet is none of it.
func storeDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s: a part of the path is a file, want a directory", dir)
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is a file, not a store", dir)
	default:
		return err
	}
}

// A site describes a directory before a store is made in it.
type site struct {
	dir     string
	isNew   bool     // there is no store
	names   []string // in the directory
	missing []string // directories that are not there, the innermost first
}

// look says what there is in a directory. Without a store it must not hold the files of somebody else, since a store among
// them would be a slip, such as the wrong directory. The library has no such rule: a program may keep files of its own there.
func look(dir string) (site, error) {
	s := site{dir: filepath.Clean(dir)}
	if err := storeDir(dir); err != nil {
		return s, err
	}
	var err error
	if s.names, err = vfs.OS.List(s.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	s.isNew = !slices.Contains(s.names, filename.CurrentName)
	for dir := s.dir; err != nil; dir = filepath.Dir(dir) {
		if _, err = os.Lstat(dir); err != nil {
			s.missing = append(s.missing, dir)
		}
	}
	if !s.isNew || slices.ContainsFunc(s.names, isData) { // of data without CURRENT Open says what it is
		return s, nil
	}
	if i := slices.IndexFunc(s.names, isForeign); i >= 0 {
		return s, fmt.Errorf("%s is not a store and holds other files, such as %s; want a new or empty directory", dir, words.Escaped([]byte(s.names[i]), 64))
	}
	return s, nil
}

// isData reports whether a name is that of a table or a log.
func isData(name string) bool {
	kind, _ := filename.Parse(name)
	return kind == filename.Table || kind == filename.Log
}

// isForeign reports whether a name belongs to no store. An empty file system has a lost+found.
func isForeign(name string) bool {
	kind, _ := filename.Parse(name)
	return kind == filename.Unknown && name != "lost+found"
}

// remove removes what was made of the store since look, under its lock, so that nobody else has it open.
func (s *site) remove() error {
	lockName := filepath.Join(s.dir, filename.LockName)
	lock, err := vfs.OS.Lock(lockName)
	switch {
	case errors.Is(err, vfs.ErrLocked): // another process has a store here, or makes one
		return nil
	case errors.Is(err, fs.ErrNotExist): // not even the directory was made
		return s.removeDirs()
	case err != nil:
		return err
	}
	names, err := vfs.OS.List(s.dir)
	errs := []error{err}
	note := func(err error) {
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for _, name := range names {
		if kind, _ := filename.Parse(name); kind != filename.Unknown && kind != filename.Lock && !slices.Contains(s.names, name) {
			note(os.Remove(filepath.Join(s.dir, name)))
		}
	}
	removed := slices.Contains(s.names, filename.LockName) || os.Remove(lockName) == nil // some systems remove no open file
	note(lock.Close())
	if !removed {
		note(os.Remove(lockName))
	}
	return errors.Join(append(errs, s.removeDirs())...)
}

// removeDirs removes the directories that were made, as far as they are empty.
func (s *site) removeDirs() error {
	for _, dir := range s.missing {
		err := os.Remove(dir)
		if names, listErr := vfs.OS.List(dir); listErr == nil && len(names) > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
