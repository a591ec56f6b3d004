package outfile

import "syscall"

// makeFullDevice creates a device to which nothing can be written. Only root may do that.
func makeFullDevice(name string) error {
	const memory, full = 1, 7
	return syscall.Mknod(name, syscall.S_IFCHR|0o600, memory<<8|full)
}
