package vfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/vfs"
)

// TestNamesInAHeldDirectoryFollowIt uses each operation on a directory that was moved and replaced, and between it and
// another held one, and the names outside.
func TestNamesInAHeldDirectoryFollowIt(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "js" {
		t.Skip("the system does not move a directory that is in use")
	}
	base := t.TempDir()
	a, b, moved := filepath.Join(base, "a"), filepath.Join(base, "b"), filepath.Join(base, "moved")
	must(t, os.Mkdir(a, 0o700))
	must(t, os.Mkdir(b, 0o700))
	first, err := vfs.Hold(vfs.OS, a)
	must(t, err)
	both, err := vfs.Hold(first, b)
	must(t, err)
	must(t, os.Rename(a, moved))
	must(t, os.Mkdir(a, 0o700)) // another directory of that name

	in := func(dir, name string) string { return filepath.Join(dir, name) }
	write := func(name string) {
		t.Helper()
		f, err := both.Create(name)
		must(t, err)
		_, err = f.Write([]byte("content"))
		must(t, errors.Join(err, f.Sync(), f.Close()))
	}
	write(in(a, "one"))
	must(t, both.Mkdir(in(a, "deep")))
	write(in(a, "deep/two"))
	must(t, both.Rename(in(a, "deep/two"), in(a, "two")))
	must(t, both.Remove(in(a, "deep")))
	must(t, both.Link(in(a, "one"), in(a, "three")))
	must(t, both.Link(in(a, "one"), in(b, "four")))       // into the other held directory
	must(t, both.Link(in(a, "one"), in(base, "five")))    // out of a held directory
	must(t, both.Link(in(base, "five"), in(a, "six")))    // into one
	must(t, both.Link(in(base, "five"), in(base, "sev"))) // outside
	must(t, errors.Join(both.SyncDir(a), both.SyncDir(b), both.SyncDir(base)))
	if err := both.Rename(in(a, "one"), in(b, "one")); err == nil {
		t.Error("a name was moved out of a held directory")
	}
	lock, err := both.Lock(in(a, "LOCK"))
	must(t, err)
	must(t, lock.Check())
	if _, err := vfs.OS.Lock(in(moved, "LOCK")); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("the lock by the new name: %v, want %v", err, vfs.ErrLocked)
	}
	if info, err := both.Stat(in(a, "one")); err != nil || info.Size() != 7 {
		t.Errorf("Stat: %v, %v", info, err)
	}
	for dir, want := range map[string][]string{
		a: {"LOCK", "one", "six", "three", "two"}, b: {"four"}, base: {"a", "b", "five", "moved", "sev"},
	} {
		if names, err := both.List(dir); err != nil || !slices.Equal(names, want) {
			t.Errorf("List(%s): %v, %v, want %v", dir, names, err, want)
		}
	}
	if names, err := vfs.OS.List(a); err != nil || len(names) > 0 {
		t.Errorf("the directory that has the name now has %v, %v", names, err)
	}
	if _, err := both.Open(in(a, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a name that is not there: %v", err)
	} else if p, ok := errors.AsType[*fs.PathError](err); !ok || p.Path != in(a, "none") {
		t.Errorf("the error names %v", err)
	}
	if f, ok := both.(vfs.FreeSpacer); ok {
		if n, err := f.FreeSpace(a); err != nil || n == 0 {
			t.Errorf("%d bytes are free, %v", n, err)
		}
	}
	if in, err := vfs.Inside(both, moved, a); err != nil || !in {
		t.Errorf("the directory by its new name is inside itself: %v, %v", in, err)
	}
	if err := both.Remove(a); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removing a held directory by a name that it has no more: %v", err)
	}

	must(t, both.Remove(in(a, "LOCK")))
	if err := lock.Check(); !errors.Is(err, vfs.ErrLockLost) {
		t.Errorf("a removed lock: %v, want %v", err, vfs.ErrLockLost)
	}
	guard := vfs.Guard(both, a, lock)
	_, created := guard.Create(in(a, "late"))
	for what, err := range map[string]error{
		"Create": created, "Remove": guard.Remove(in(a, "one")), "Rename": guard.Rename(in(a, "one"), in(a, "late")),
		"Link": guard.Link(in(b, "four"), in(a, "late")), "Mkdir": guard.Mkdir(in(a, "late")),
	} {
		if !errors.Is(err, vfs.ErrLockLost) {
			t.Errorf("%s after the lock was lost: %v, want %v", what, err, vfs.ErrLockLost)
		}
	}
	must(t, guard.Link(in(a, "one"), in(b, "free")))
	must(t, errors.Join(lock.Close(), both.Close(), first.Close()))
	if _, err := first.Open(in(a, "one")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v, want %v", err, fs.ErrClosed)
	}
}

// TestALinkInAHeldDirectoryIsNotFollowed opens links to a file in the directory and to one outside.
func TestALinkInAHeldDirectoryIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(outside, nil, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	held, err := vfs.Hold(vfs.OS, dir)
	must(t, err)
	defer func() { must(t, held.Close()) }()
	for _, to := range []string{"file", outside} {
		link := filepath.Join(dir, "link")
		if err := os.Symlink(to, link); err != nil {
			t.Skip(err)
		}
		if _, err := held.Open(link); !errors.Is(err, vfs.ErrNotRegular) {
			t.Errorf("Open of a link to %s: %v, want %v", to, err, vfs.ErrNotRegular)
		}
		if _, err := held.Lock(link); !errors.Is(err, vfs.ErrNotRegular) {
			t.Errorf("Lock of a link to %s: %v, want %v", to, err, vfs.ErrNotRegular)
		}
		if err := held.Link(link, filepath.Join(dir, "other")); !errors.Is(err, vfs.ErrNotRegular) {
			t.Errorf("Link of a link to %s: %v, want %v", to, err, vfs.ErrNotRegular)
		}
		must(t, held.Remove(link))
	}
}
