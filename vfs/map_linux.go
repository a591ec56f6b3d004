package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

var _ Mapper = (*osFile)(nil)

// Map implements [Mapper.Map]. It needs the address space of a 64-bit processor.
func (f *osFile) Map(n int) (Mapping, error) {
	if math.MaxInt < math.MaxInt64 {
		return nil, f.mapError(errors.ErrUnsupported)
	}
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if n <= 0 || int64(n) > size {
		return nil, f.mapError(fmt.Errorf("%w: %d bytes of a file of %d", fs.ErrInvalid, n, size))
	}
	var m mapping
	err = withDescriptor(f.f, func(fd int) (err error) {
		m.b, err = unix.Mmap(fd, 0, n, unix.PROT_READ, unix.MAP_SHARED)
		return err
	})
	if err != nil {
		return nil, f.mapError(err)
	}
	_ = unix.Madvise(m.b, unix.MADV_RANDOM) // advice only: a page that is absent is read alone
	return &m, nil
}

func (f *osFile) mapError(err error) error {
	return &fs.PathError{Op: "mmap", Path: f.f.Name(), Err: err}
}

// A mapping is a Mapping of the operating system.
type mapping struct{ b []byte }

func (m *mapping) Bytes() []byte { return m.b }

func (m *mapping) Close() error { return os.NewSyscallError("munmap", unix.Munmap(m.b)) }

// InMemory implements [Mapping.InMemory] by mincore(2). The system says that all pages are in memory if the process
// neither owns the file nor may write it.
func (m *mapping) InMemory(from, to int) bool {
	from &^= int(pageSize) - 1
	var pages [64]byte // one for each page
	for from < to {
		n := min(to-from, len(pages)*int(pageSize))
		_, _, e := unix.Syscall(unix.SYS_MINCORE,
			uintptr(unsafe.Pointer(&m.b[from])), uintptr(n), uintptr(unsafe.Pointer(&pages[0])))
		if e != 0 {
			return false
		}
		for _, p := range pages[:(n+int(pageSize)-1)/int(pageSize)] {
			if p&1 == 0 {
				return false
			}
		}
		from += n
	}
	return true
}
