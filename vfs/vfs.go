// Package vfs is the seam between bloomkv and files: every byte the store reads or writes goes through an [FS].
//
// There are three: [OS] is the operating system's; [NewMem] keeps files in memory and can crash, losing any part of what
// was not synced, so that a program can prove its own durability; [NewHook] wraps another FS and sees, delays or fails
// each operation. All are safe for concurrent use.
//
// [WriteFileAtomic] and [MkdirAll] hold the order of steps that makes a file's content, or a directory, survive a crash.
package vfs

import (
	"io"
	"os"
)

// FS is a file system, by the few operations a store needs. Names are paths in the form of the operating system
// (package path/filepath). An absent file is an error that Is fs.ErrNotExist; an existing one in the way is one that Is
// fs.ErrExist. Nothing follows a symbolic link in the last element of a file's name, and Open refuses what is not a
// regular file; the directory of a store may itself be a link.
type FS interface {
	// Create makes a new file for writing, which can be read too, and fails if the name exists. The name is durable only
	// after SyncDir.
	Create(name string) (File, error)
	// Open opens a regular file for reading. Anything else is an error that Is [ErrNotRegular], at once: a pipe is not
	// waited for.
	Open(name string) (File, error)
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// Rename replaces newname by oldname, atomically; the change is durable only after SyncDir. A directory is not replaced.
	Rename(oldname, newname string) error
	// Link makes newname a second name of a regular file. Where links cannot be made it is an error that Is
	// errors.ErrUnsupported.
	Link(oldname, newname string) error
	// Mkdir makes one directory, readable by its owner only. Its name is durable only after SyncDir of its parent.
	Mkdir(name string) error
	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)
	// Stat describes a name, without following a link in its last element.
	Stat(name string) (os.FileInfo, error)
	// SyncDir makes the names in a directory durable. It does nothing where directories cannot be synced (Windows).
	SyncDir(dir string) error
	// Lock takes an exclusive lock on a file, which it creates where needed and never deletes, against other processes
	// and other calls in this one. A lock held elsewhere is at once an error that Is [ErrLocked]. Close releases it. Who
	// holds it may remove the file, where the system lets an open file be removed: no one then takes the lock of what was
	// removed.
	Lock(name string) (io.Closer, error)
	// LockShared takes a shared lock on a file, which must be there and is opened for reading only: nothing is changed. Any
	// number of callers share it, in this process and others; while they do, Lock is refused, and LockShared while Lock's
	// is held, at once in both cases, by an error that Is [ErrLocked]. Close releases it.
	LockShared(name string) (io.Closer, error)
}

// File is an open file. ReadAt may be called concurrently, with Write and Sync too; Write appends at the end, fails on what
// Open returned, and is called by one at a time. After Close each call is an error that Is fs.ErrClosed.
type File interface {
	io.ReaderAt
	io.Writer
	io.Closer
	// Sync makes all that was written, by whomever, and the size, durable; not the name. After an error what is durable is
	// unknown, for ever.
	Sync() error
	// Size is the length in bytes.
	Size() (int64, error)
}

// A Reserver is a [File] that can be made longer ahead of what is written. Those of [NewMem] are, those of [OS] where the
// system can do it, and those of [NewHook] are whatever they wrap.
type Reserver interface {
	// Reserve makes the file at least n bytes longer than what was written, n > 0: zeros, which the Size includes, and
	// which following calls of Write fill in their order, without needing more of the disk and without moving the size
	// that a Sync must make durable. It is called by whoever calls Write. A crash may lose it like a write. What is not
	// filled stays in the file.
	//
	// Where it cannot be done the error Is errors.ErrUnsupported and nothing has changed. After any other error the file
	// may be longer, and can be written as before.
	Reserve(n int64) error
}

// A FreeSpacer is an [FS] that can tell how much room is left. [OS] is one; what [NewHook] returns is one as far as what it wraps.
type FreeSpacer interface {
	// FreeSpace is how many bytes the files of a directory may still take: an estimate, which others who write make wrong. Where it
	// cannot be told the error Is errors.ErrUnsupported.
	FreeSpace(dir string) (uint64, error)
}
