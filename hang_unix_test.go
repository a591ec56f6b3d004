//go:build unix

package bloomkv

import (
	"syscall"
	"time"
)

// processorTime returns what this process has used, of the system's time too.
func processorTime() (used time.Duration, ok bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
