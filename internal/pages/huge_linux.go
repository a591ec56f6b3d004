//go:build !race

package pages

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Huge reports whether large loans are in huge pages, if the system has them.
const Huge = true

const slabBytes = hugeBytes

// forgetPages gives whole pages of a loan back to the system. They have any contents until they are written to.
func forgetPages(b []byte) {
	_ = unix.Madvise(b, unix.MADV_DONTNEED) // if it fails, they stay in memory
}

// mappedHuge is like mapped, but the memory is in huge pages if the system has them: 2 MiB in one fault of 80 µs,
// instead of 512 faults of 2 µs each. whole is what was mapped.
func mappedHuge(n int) (b, whole []byte) {
	if b = mapped(n); b == nil {
		return nil, nil
	}
	whole = b
	if offset(b) != 0 { // newer systems align it
		unmap(b)
		if whole = mapped(n + hugeBytes); whole == nil { // only what is used takes memory
			return nil, nil
		}
		b = whole[offset(whole):][:n]
	}
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // if it fails, ordinary pages serve
	return b, whole
}

// offset returns the number of bytes before the first huge page that begins in b.
func offset(b []byte) int {
	return int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % hugeBytes)
}
