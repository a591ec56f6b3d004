package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

// flushes records each system call that makes something durable: its path, below dir, and the names in that directory
// at the moment of the call. If fail returns an error the call fails with it, otherwise it is made.
func flushes(t *testing.T, dir string, fail func(path string) error) *[]string {
	t.Helper()
	calls := new([]string)
	note := func(kind, path, in string) error {
		names, err := osFS{}.List(in)
		if err != nil {
			t.Error(err)
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			t.Error(err)
		}
		*calls = append(*calls, fmt.Sprintf("%s %s %v", kind, rel, names))
		return fail(path)
	}
	ofDir, ofFile := flushDir, flushFile
	t.Cleanup(func() { flushDir, flushFile = ofDir, ofFile })
	flushDir = func(d *os.File) error {
		path := byDescriptor(t, int(d.Fd()))
		if err := note("dir", path, path); err != nil {
			return err
		}
		return ofDir(d)
	}
	flushFile = func(fd int) error {
		path := byDescriptor(t, fd)
		if err := note("file", path, filepath.Dir(path)); err != nil {
			return err
		}
		return ofFile(fd)
	}
	return calls
}

// byDescriptor returns the system's path of an open file.
func byDescriptor(t *testing.T, fd int) string {
	t.Helper()
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		t.Skip(err)
	}
	return path
}

func realTempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	testkit.Must(t, err)
	return dir
}

// TestTheSystemIsAskedToSyncWhatIsSynced compares the system calls with the operations on the file system, since no
// test can crash this machine.
func TestTheSystemIsAskedToSyncWhatIsSynced(t *testing.T) {
	dir := realTempDir(t)
	calls := flushes(t, dir, func(string) error { return nil })
	check := func(what string, err error, want ...string) {
		t.Helper()
		if err != nil || !slices.Equal(*calls, want) {
			t.Errorf("%s: %v, the system was asked for %q, want %q", what, err, *calls, want)
		}
		*calls = nil
	}
	check("SyncDir", OS.SyncDir(dir), "dir . []")
	check("MkdirAll", MkdirAll(OS, filepath.Join(dir, "a", "b")), "dir . [a]", "dir a [b]")
	check("MkdirAll of what is there", MkdirAll(OS, filepath.Join(dir, "a", "b")), "dir a [b]")
	in := filepath.Join(dir, "a")
	f, err := OS.Create(filepath.Join(in, "file"))
	testkit.Must(t, err)
	_, err = f.Write([]byte("x"))
	check("Create and Write", err)
	check("Sync", f.Sync(), "file a/file [b file]")
	check("Sync again", f.Sync(), "file a/file [b file]")
	check("Close", f.Close())
	if f, err = OS.Open(filepath.Join(in, "file")); err != nil {
		t.Fatal(err)
	}
	check("Sync of a file opened for reading", errors.Join(f.Sync(), f.Close()), "file a/file [b file]")
	check("WriteFileAtomic", WriteFileAtomic(OS, in, "tmp", "name", []byte("x")),
		"file a/tmp [b file tmp]", "dir a [b file name]")
	link := filepath.Join(dir, "link")
	testkit.Must(t, os.Symlink("a", link))
	check("SyncDir of a link", OS.SyncDir(link), "dir a [b file name]")
}

// TestErrorsOfASyncAreReturnedUnlessADirectoryCannotBeSynced makes each sync fail in turn.
func TestErrorsOfASyncAreReturnedUnlessADirectoryCannotBeSynced(t *testing.T) {
	dir := realTempDir(t)
	var say []error
	calls := flushes(t, dir, func(string) (err error) {
		if len(say) > 0 {
			err, say = say[0], say[1:]
		}
		return err
	})
	for _, tt := range []struct {
		says unix.Errno
		done bool
	}{
		{unix.EINVAL, true},
		{unix.ENOTSUP, true},
		{unix.EIO, false},
		{unix.ENOSPC, false},
		{unix.EBADF, false},
		{unix.EROFS, false},
	} {
		say = []error{&fs.PathError{Op: "sync", Path: dir, Err: tt.says}}
		if err := OS.SyncDir(dir); (err == nil) != tt.done || err != nil && !errors.Is(err, tt.says) {
			t.Errorf("SyncDir, where the system returns %v: %v", tt.says, err)
		}
	}
	f, err := OS.Create(filepath.Join(dir, "file"))
	testkit.Must(t, err)
	for _, says := range []unix.Errno{unix.EIO, unix.EINVAL, unix.ENOSPC} {
		say = []error{says}
		if err := f.Sync(); !errors.Is(err, says) || !strings.Contains(err.Error(), "file") {
			t.Errorf("Sync, where the system returns %v: %v", says, err)
		}
	}
	*calls = nil
	say = []error{unix.EINTR, unix.EINTR}
	if err := f.Sync(); err != nil || len(*calls) != 3 {
		t.Errorf("Sync, interrupted twice: %v after %d calls, want 3", err, len(*calls))
	}
	testkit.Must(t, f.Close())
	// An error in the last step of an atomic write, or of making a directory, is returned.
	say = []error{nil, unix.EIO}
	if err := WriteFileAtomic(OS, dir, "tmp", "name", []byte("x")); !errors.Is(err, unix.EIO) {
		t.Errorf("WriteFileAtomic, if the directory cannot be synced: %v", err)
	}
	say = []error{unix.EIO}
	if err := WriteFileAtomic(OS, dir, "tmp", "other", []byte("x")); !errors.Is(err, unix.EIO) {
		t.Errorf("WriteFileAtomic, if the file cannot be synced: %v", err)
	}
	if _, err := OS.Stat(filepath.Join(dir, "other")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that could not be synced got its name: %v", err)
	}
	say = []error{unix.EIO}
	if err := MkdirAll(OS, filepath.Join(dir, "sub")); !errors.Is(err, unix.EIO) {
		t.Errorf("MkdirAll, if the parent cannot be synced: %v", err)
	}
}
