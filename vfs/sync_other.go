//go:build !linux && !windows

package vfs

import "os"

// syncFile flushes a file to the medium. On Apple's systems os.File also flushes the drive's cache.
func syncFile(f *os.File, _ bool) error { return f.Sync() }
