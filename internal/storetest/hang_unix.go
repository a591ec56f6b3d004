//go:build unix

package storetest

import (
	"syscall"
	"time"
)

// processorTime returns the processor time of this process, including system time.
func processorTime() (used time.Duration, ok bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
