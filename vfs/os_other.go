//go:build !unix

package vfs

import "os"

// openDir opens a directory for reading.
const openDir = os.O_RDONLY

// openNoFollow opens name unless it is a symbolic link. It checks before opening: on Windows a handle on the link
// itself would read wrong bytes from files that the system keeps behind reparse points of its own (deduplicated ones).
func (o osFS) openNoFollow(name string, flag int) (*os.File, error) {
	if info, err := o.lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, notRegular("open", name)
	}
	return o.openFile(name, flag)
}

// SyncDir does nothing, since these systems cannot sync a directory. NTFS keeps its own changes of names in order.
func (osFS) SyncDir(string) error { return nil }
