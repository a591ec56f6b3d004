//go:build !windows && (!unix || aix)

package vfs

import "os"

// flock does nothing, since these systems have no locks: a store is locked inside the process alone, and whoever runs
// several processes must see to it that one of them writes.
func flock(*os.File, bool) error { return nil }

// deviceOf returns the same for all files: devices are not known.
func deviceOf(os.FileInfo) any { return nil }
