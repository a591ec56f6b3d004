package vfs

import (
	"io/fs"
	"syscall"
	"testing"
)

// TestAFullDiskOfWindowsIsKnownByItsErrors: that of a quota, and of a file that cannot grow, are errors of their own.
func TestAFullDiskOfWindowsIsKnownByItsErrors(t *testing.T) {
	for errno, want := range map[syscall.Errno]bool{
		39: true, 112: true, 1295: true, 5: false, 38: false, syscall.ENOSPC: true,
	} {
		err := &fs.PathError{Op: "write", Path: "a", Err: errno}
		if got := isNoSpace(err, "windows"); got != want {
			t.Errorf("error %d of Windows means that there is no space: %v", errno, got)
		}
		if got := isNoSpace(err, "linux"); got != (errno == syscall.ENOSPC) {
			t.Errorf("error %d of another system means that there is no space: %v", errno, got)
		}
	}
}
