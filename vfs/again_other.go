//go:build !windows

package vfs

// again does an operation on a name once: it is refused for a reason that lasts.
func again(op func() error) error { return op() }
