//go:build unix && !race

package pages

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapped returns n zeroed bytes outside the heap, or nil if there is no memory.
func mapped(n int) []byte {
	at, err := unix.MmapPtr(-1, 0, nil, uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return unsafe.Slice((*byte)(at), n)
}

// unmap removes memory that is mapped: all that mapped returned, or a part of it in whole pages.
func unmap(b []byte) {
	_ = unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b))) // it fails only for memory of others
}
