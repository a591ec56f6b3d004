//go:build !linux

package vfs

// reservation is empty, since these systems cannot reserve bytes of a file.
type reservation struct{}

func (reservation) wasSynced() {}

func (*osFile) writeInSteps() {}

func (f *osFile) Write(p []byte) (int, error) { return f.f.Write(p) }

func (f *osFile) Close() error { return f.f.Close() }
