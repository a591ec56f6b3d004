//go:build !linux && !windows

package vfs

import "os"

// syncFile flushes a file to the medium; on Apple's systems os.File asks for the drive's cache too.
func syncFile(f *os.File, _ bool) error { return f.Sync() }
