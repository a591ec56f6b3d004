//go:build !race

package pages

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Huge reports whether large loans are in huge pages, if the system has them.
const Huge = true

const slabBytes = hugeBytes

// keepSmall makes the system keep a loan in pages of the ordinary size. It would otherwise make huge pages again of
// those from which forgetPages took a part, with new memory for that part.
func keepSmall(b []byte) {
	_ = unix.Madvise(b, unix.MADV_NOHUGEPAGE) // if it fails, there are no huge pages
}

// forgetPages gives whole pages of a loan back to the system, a part of a huge page when the system needs memory. They
// have any contents until they are written to.
func forgetPages(b []byte) {
	_ = unix.Madvise(b, unix.MADV_DONTNEED) // if it fails, they stay in memory
}

// mappedHuge is like mapped, but the memory is in huge pages if the system has them: 2 MiB in one fault of 80 µs,
// instead of 512 faults of 2 µs each.
func mappedHuge(n int) []byte {
	b := mapped(n)
	if b == nil {
		return nil
	}
	if beforeHuge(b) != 0 { // newer systems align it
		unmap(b)
		if b = mapped(n + hugeBytes); b == nil {
			return nil
		}
		if before := beforeHuge(b); before > 0 {
			unmap(b[:before])
			b = b[before:]
		}
		unmap(b[n:])
		b = b[:n:n]
	}
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // if it fails, ordinary pages serve
	return b
}

// beforeHuge returns the number of bytes before the first huge page that begins in b.
func beforeHuge(b []byte) int {
	return int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % hugeBytes)
}
