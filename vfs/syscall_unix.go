//go:build unix

package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// retry repeats a system call until no signal interrupts it.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// withDescriptor makes a system call with the descriptor of f and repeats it when a signal interrupts it. Close waits
// for the call to end: otherwise the descriptor's number could belong to another file by then.
func withDescriptor(f *os.File, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	if err = raw.Control(func(fd uintptr) { callErr = retry(func() error { return call(int(fd)) }) }); err != nil {
		return fs.ErrClosed // the only reason for which Control itself fails
	}
	return callErr
}
