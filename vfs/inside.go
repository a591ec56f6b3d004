package vfs

import (
	"os"
	"path/filepath"
	"strings"
)

// Inside reports whether dir is the directory outer or lies below it. Both must exist. For [OS] symbolic links are
// followed and directories are compared, not names. For an [FS] of another package, only the names are compared.
func Inside(fsys FS, dir, outer string) (bool, error) {
	if f, ok := fsys.(interface {
		inside(dir, outer string) (bool, error)
	}); ok {
		return f.inside(dir, outer)
	}
	return below(filepath.Clean(dir), filepath.Clean(outer)), nil
}

// below compares clean names.
func below(dir, outer string) bool {
	rel, err := filepath.Rel(outer, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

func (o osFS) inside(dir, outer string) (bool, error) {
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

// inside compares names, since a Mem has no links. A relative name begins at the root.
func (m *Mem) inside(dir, outer string) (bool, error) { //nolint:unparam // as the others are called
	root := string(filepath.Separator)
	return below(filepath.Join(root, dir), filepath.Join(root, outer)), nil
}

func (h *hookFS) inside(dir, outer string) (bool, error) { return Inside(h.fsys, dir, outer) }
