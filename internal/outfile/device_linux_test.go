package outfile

import "syscall"

// makeFullDevice makes a device to which nothing can be written; only root may.
func makeFullDevice(name string) error {
	const memory, full = 1, 7
	return syscall.Mknod(name, syscall.S_IFCHR|0o600, memory<<8|full)
}
