//go:build unix

package vfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/bloomkv/bloomkv/vfs"
)

func TestADiskWithoutSpaceIsKnownByItsErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&fs.PathError{Op: "write", Path: "a", Err: syscall.ENOSPC}, true},
		{syscall.EDQUOT, true},
		{vfs.ErrNoSpace, true},
		{syscall.EIO, false},
		{syscall.Errno(112), false}, // another error here than on Windows
		{nil, false},
	} {
		if got := vfs.IsNoSpace(c.err); got != c.want {
			t.Errorf("%v means that there is no space: %v", c.err, got)
		}
	}
	full := fmt.Errorf("a write: %w", vfs.ErrNoSpace)
	if !errors.Is(full, syscall.ENOSPC) || errors.Is(full, syscall.EIO) {
		t.Errorf("%v matches ENOSPC alone", full)
	}
}
