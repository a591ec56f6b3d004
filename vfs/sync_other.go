//go:build !linux && !windows

package vfs

// flush flushes the file to the medium. On Apple's systems os.File also flushes the drive's cache.
func (f *osFile) flush() error { return f.f.Sync() }
