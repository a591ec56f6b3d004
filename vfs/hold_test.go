package vfs_test

import (
	"errors"
	"io"
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
	inner, err := vfs.Hold(both, in(a, "deep"))
	must(t, err)
	if names, err := inner.List(in(a, "deep")); err != nil || !slices.Equal(names, []string{"two"}) {
		t.Errorf("a directory in a held one has %v, %v", names, err)
	}
	must(t, inner.Close())
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
	if _, err := both.Open(in(a, "none")); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, vfs.ErrNotRegular) {
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

	guard := vfs.Guard(both, a, lock)
	made, err := guard.Create(in(a, "seven"))
	must(t, errors.Join(err, made.Close(), guard.Rename(in(a, "seven"), in(a, "eight"))))
	must(t, errors.Join(guard.Link(in(a, "eight"), in(a, "nine")), guard.Remove(in(a, "eight"))))
	must(t, errors.Join(guard.Remove(in(a, "nine")), guard.Mkdir(in(a, "ten")), guard.Remove(in(a, "ten"))))
	wantNames(t, both, in, a, b, base)
	wantNames(t, guard, in, a, b, base)

	must(t, os.Remove(a)) // nothing has the name
	must(t, both.SyncDir(a))
	if f, ok := both.(vfs.FreeSpacer); ok {
		if n, err := f.FreeSpace(a); err != nil || n == 0 {
			t.Errorf("%d bytes are free, %v", n, err)
		}
	}
	if err := both.Remove(a); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removing a held directory by a name that nothing has: %v", err)
	}
	must(t, os.Rename(moved, a))
	if err := both.Remove(a); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removing a held directory that is not empty: %v", err)
	}

	must(t, both.Remove(in(a, "LOCK")))
	if err := lock.Check(); !errors.Is(err, vfs.ErrLockLost) {
		t.Errorf("a removed lock: %v, want %v", err, vfs.ErrLockLost)
	}
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
	if err := both.Remove(b); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("removing what was held: %v, want %v", err, fs.ErrClosed)
	}
	if err := both.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Close after Close: %v, want %v", err, fs.ErrClosed)
	}
}

// wantNames checks that errors have the names that the caller knows. The name none means nothing.
func wantNames(t *testing.T, fsys vfs.FS, in func(dir, name string) string, a, b, base string) {
	t.Helper()
	_, create := fsys.Create(in(a, "one"))
	_, stat := fsys.Stat(in(a, "none"))
	_, hold := vfs.Hold(fsys, in(a, "none"))
	_, inside := vfs.Inside(fsys, a, in(a, "none"))
	for _, c := range []struct {
		err      error
		is       error
		old, new string
	}{
		{create, fs.ErrExist, in(a, "one"), ""},
		{stat, fs.ErrNotExist, in(a, "none"), ""},
		{hold, fs.ErrNotExist, in(a, "none"), ""},
		{inside, fs.ErrNotExist, in(a, "none"), ""},
		{fsys.Mkdir(in(a, "one")), fs.ErrExist, in(a, "one"), ""},
		{fsys.Remove(in(a, "none")), fs.ErrNotExist, in(a, "none"), ""},
		{fsys.Rename(in(a, "none"), in(a, "x")), fs.ErrNotExist, in(a, "none"), in(a, "x")},
		{fsys.Rename(in(base, "none"), in(base, "x")), fs.ErrNotExist, in(base, "none"), in(base, "x")},
		{fsys.Link(in(a, "none"), in(a, "x")), fs.ErrNotExist, in(a, "none"), ""},
		{fsys.Link(in(a, "one"), in(a, "two")), fs.ErrExist, in(a, "one"), in(a, "two")},
		{fsys.Link(in(a, "one"), in(b, "four")), fs.ErrExist, in(a, "one"), in(b, "four")},
		{fsys.Link(in(a, "one"), in(base, "five")), fs.ErrExist, in(a, "one"), in(base, "five")},
	} {
		path, of := errors.AsType[*fs.PathError](c.err)
		link, both := errors.AsType[*os.LinkError](c.err)
		if !errors.Is(c.err, c.is) || of && path.Path != c.old || both && (link.Old != c.old || link.New != c.new) ||
			of == both {
			t.Errorf("got %v, want %v with the names %s %s", c.err, c.is, c.old, c.new)
		}
	}
}

// TestTheWorkingDirectoryIsHeld has names without a directory, and one outside.
func TestTheWorkingDirectoryIsHeld(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "store"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "outside"), nil, 0o600))
	t.Chdir(filepath.Join(dir, "store"))
	held, err := vfs.Hold(vfs.OS, ".")
	must(t, err)
	if _, err := held.Stat(filepath.Join("..", "outside")); err != nil {
		t.Error(err)
	}
	t.Chdir(t.TempDir())
	must(t, held.Mkdir("made"))
	if names, err := vfs.OS.List(filepath.Join(dir, "store")); err != nil || !slices.Equal(names, []string{"made"}) {
		t.Errorf("the directory that was held has %v, %v", names, err)
	}
	must(t, held.Close())
	must(t, vfs.OS.(io.Closer).Close()) //nolint:errcheck,forcetypeassert // which holds nothing
}

// TestNamesAboveAHeldDirectory: a name that begins with the held one, "..", may still be outside.
func TestNamesAboveAHeldDirectory(t *testing.T) {
	base := t.TempDir()
	sub := filepath.Join(base, "store", "sub")
	must(t, os.MkdirAll(sub, 0o700))
	t.Chdir(sub)
	held, err := vfs.Hold(vfs.OS, "..")
	must(t, err)
	above := filepath.Join("..", "..")
	must(t, held.Mkdir(filepath.Join(above, "copy")))
	must(t, held.Mkdir(filepath.Join("..", "..inside")))
	must(t, held.SyncDir(above))
	for dir, want := range map[string][]string{above: {"copy", "store"}, "..": {"..inside", "sub"}} {
		if names, err := held.List(dir); err != nil || !slices.Equal(names, want) {
			t.Errorf("%s has %v, %v, want %v", dir, names, err, want)
		}
	}
	must(t, held.Close())
}

func TestAnFSThatHoldsNothing(t *testing.T) {
	held, err := vfs.Hold(foreign{vfs.OS}, "absent")
	must(t, err)
	if _, err := freeSpace(held, "."); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("free space: %v, want that it is unknown", err)
	}
	must(t, held.Close())
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
