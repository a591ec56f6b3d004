package vfs

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
)

// A Mapper is a [File] that can be read as memory of the process, without system calls. The files of [OS] are Mappers
// on Linux, small ones of [NewMem] everywhere. Those of [NewHook] are not, so that a hook sees each read.
type Mapper interface {
	// Map maps the first n bytes of the file, n > 0. The file must be that long. If files cannot be mapped here, the
	// error matches errors.ErrUnsupported. The Mapping must be closed; it does not depend on the File, which may be
	// closed earlier.
	Map(n int) (Mapping, error)
}

// A Mapping is the content of a file as memory.
type Mapping interface {
	// Bytes returns the memory, which must not be written and must not be used after Close. It may show what others
	// write into the file. It may be read only inside [ReadMapped], since reading fails where the system cannot supply
	// the content: the file was truncated, or its disk fails.
	Bytes() []byte
	// InMemory reports whether the system has the bytes from, inclusive, to to, exclusive, in memory now. Reading any
	// other bytes waits for the disk, and meanwhile keeps a processor from other goroutines.
	InMemory(from, to int) bool
	// Close removes the memory. No goroutine may be reading it.
	Close() error
}

// ErrMapped is matched by the errors of [ReadMapped].
var ErrMapped = errors.New("mapped file cannot be read")

// ReadMapped calls read, which reads the memory of a [Mapping], and returns an error if the system could not supply
// the content. If others change the file meanwhile, so that read fails to make sense of it and panics with a runtime
// error, that is the error returned. read must leave no lock locked when it panics.
func ReadMapped(read func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			err = fmt.Errorf("%w: page fault", ErrMapped)
		case runtime.Error:
			err = fmt.Errorf("%w: it changes: %w", ErrMapped, r)
		default:
			panic(r) // broken logic of read, not of the file
		}
	}()
	read()
	return nil
}
