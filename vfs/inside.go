package vfs

import (
	"os"
	"path/filepath"
	"strings"
)

// Inside reports whether dir is the directory outer or lies below it. Both must exist. For [OS] symbolic links are
// followed and directories are compared, not names. An [FS] of another package that has a method like this function,
// without the first parameter, is asked; for others only the names are compared, and a relative one begins at the root.
func Inside(fsys FS, dir, outer string) (bool, error) {
	if f, ok := fsys.(interface {
		Inside(dir, outer string) (bool, error)
	}); ok {
		return f.Inside(dir, outer)
	}
	root := string(filepath.Separator)
	rel, err := filepath.Rel(filepath.Join(root, outer), filepath.Join(root, dir))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+root), nil
}

// Inside implements Inside.
func (o osFS) Inside(dir, outer string) (bool, error) {
	want, err := o.stat(outer)
	if err != nil {
		return false, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return false, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return false, err
	}
	for {
		info, err := os.Stat(dir)
		if err != nil || os.SameFile(info, want) {
			return err == nil, err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return false, nil
		}
		dir = parent
	}
}
