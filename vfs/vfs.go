// Package vfs is the boundary between bloomkv and files: the store reads and writes every byte through an [FS].
//
// [OS] is the operating system's file system. Package vfstest has one in memory that can crash, and one that can
// observe, delay or fail each operation of another. All are safe for concurrent use.
//
// [Hold] returns an FS that keeps to one directory, wherever it is moved.
//
// [WriteFileAtomic] and [MkdirAll] do, in the right order, the steps that make a file's content, or a directory,
// survive a crash.
package vfs

import (
	"io"
	"os"
)

// FS is a file system with the few operations that a store needs. Names are paths in the form of the operating system
// (package path/filepath). The error for an absent file matches fs.ErrNotExist; the error for a name that is already in
// use matches fs.ErrExist. No operation follows a symbolic link in the last element of a file's name, and Open refuses
// anything other than a regular file; the directory of a store may itself be a link.
type FS interface {
	// Create makes a new file for writing and reading, and fails if the name exists. The name is durable only after
	// SyncDir.
	Create(name string) (File, error)
	// Open opens a regular file for reading. For anything else it returns at once an error matching [ErrNotRegular]; it
	// does not wait for the other end of a pipe.
	Open(name string) (File, error)
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// Rename replaces newname by oldname, atomically; the change is durable only after SyncDir. A directory is not
	// replaced.
	Rename(oldname, newname string) error
	// Link makes newname a second name of a regular file. If the file system cannot make links, the error matches
	// errors.ErrUnsupported.
	Link(oldname, newname string) error
	// Mkdir makes one directory, readable by its owner only. Its name is durable only after SyncDir of its parent.
	Mkdir(name string) error
	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)
	// Stat describes a name, without following a link in its last element.
	Stat(name string) (os.FileInfo, error)
	// SyncDir makes the names in a directory durable. On systems that cannot sync directories (Windows) it does
	// nothing.
	SyncDir(dir string) error
	// Lock takes an exclusive lock on a file, against other processes and other calls in this one. It creates the file
	// if necessary and never deletes it. If the lock is held elsewhere, Lock returns at once an error matching
	// [ErrLocked]. Close releases the lock. The holder may remove the file, if the system allows removing an open file:
	// the lock of a removed file cannot be taken.
	Lock(name string) (Lock, error)
	// LockShared takes a shared lock on a file, which must exist and is opened for reading only: nothing is changed.
	// Any number of callers, in this process and others, may hold it together. It excludes Lock, and Lock excludes it:
	// the refused call returns at once an error matching [ErrLocked]. Close releases the lock.
	LockShared(name string) (Lock, error)
}

// A Lock is held until Close.
type Lock interface {
	io.Closer
	// Check returns an error matching [ErrLockLost] if the name of the lock no longer means the file that is locked.
	Check() error
}

// File is an open file. ReadAt may be called concurrently, also with Write and Sync. Write appends at the end, fails on
// a file returned by Open, and must not be called concurrently with itself. After Close, each call returns an error
// matching fs.ErrClosed.
type File interface {
	io.ReaderAt
	io.Writer
	io.Closer
	// Sync makes the file's content, also that written through other handles, and its size durable, but not its name.
	// After an error it is unknown, for ever, what is durable.
	Sync() error
	// Size returns the length in bytes.
	Size() (int64, error)
}

// A Reserver is a [File] that can be extended ahead of what is written. The files of [OS] are
// Reservers if the system supports it.
type Reserver interface {
	// Reserve extends the file with zeros to at least n bytes, n > 0, beyond what was written. Size includes the zeros.
	// Subsequent calls of Write fill them in order, without using more of the disk and without changing the size that a
	// Sync must make durable. The caller must be the one that calls Write. A crash may lose the reservation like a
	// write. Zeros that are never filled stay in the file, or go with Close.
	//
	// A Reserver that knows the free space of the disk reserves at most a sixteenth of it. If the file cannot be
	// extended this way, the error matches errors.ErrUnsupported and nothing has changed. After any other error the
	// file may be longer, and can be written as before.
	Reserve(n int64) error
}

// A FreeSpacer is an [FS] that knows its free space. [OS] is one.
type FreeSpacer interface {
	// FreeSpace returns the number of bytes that the files of a directory may still take. It is an estimate: other
	// writers change it. If it is unknown, the error matches errors.ErrUnsupported.
	FreeSpace(dir string) (uint64, error)
}
