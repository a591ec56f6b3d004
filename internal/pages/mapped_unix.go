//go:build unix && !race

package pages

import "golang.org/x/sys/unix"

// mapped returns n zeroed bytes outside the heap, or nil if there is no memory.
func mapped(n int) []byte {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return b
}

func unmap(b []byte) {
	_ = unix.Munmap(b) // it fails only for memory that is not mapped
}
