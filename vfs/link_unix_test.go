//go:build unix

package vfs

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestALinkThatIsRefusedLetsACopySucceed looks at errors that systems return for links that they do not make, and at
// those for which a copy would fail too.
func TestALinkThatIsRefusedLetsACopySucceed(t *testing.T) {
	for err, want := range map[unix.Errno]bool{
		unix.EXDEV: true, unix.EPERM: true, unix.EACCES: true, unix.ENOTSUP: true, unix.ENOSYS: true, unix.EINVAL: true,
		unix.EMLINK: true,
		unix.EEXIST: false, unix.ENOENT: false, unix.ENOTDIR: false, unix.ENOSPC: false, unix.EDQUOT: false,
		unix.EROFS: false, unix.EIO: false,
	} {
		if got := cannotLink(&os.LinkError{Op: "link", Old: "a", New: "b", Err: err}); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}
